package web

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMendPages(t *testing.T) {
	t.Parallel()
	p := newPanel(t).signIn()
	require.Contains(t, p.get("/mends").Body, "Nothing had to be mended")
	require.Contains(t, p.get("/").Body, "nothing in the last 24 h")

	seedHostile(p)
	id := p.count("SELECT min(id) FROM delivery")
	p.exec(`INSERT INTO mend (what, delivery_id, job_id, sentence) VALUES ('job_cancelled', $1, 7, 'Its job 7 was cancelled in River.')`, id)
	p.exec(`INSERT INTO mend (what, lane_id, sentence) SELECT 'lane_counters', 1, 'Counters of round ' || n FROM generate_series(1, 60) n`)
	p.exec(`INSERT INTO mend (what, sentence, at) VALUES ('of a later version', '<b>&', now() - interval '25 hours')`)
	p.exec(`INSERT INTO mend_total VALUES ('job_cancelled', 12)`)

	require.Contains(t, p.get("/").Body, "61 in the last 24 h")
	first := p.get("/mends")
	require.Contains(t, first.Body, "&lt;b&gt;&amp;")
	require.Contains(t, first.Body, "Counters of round 60")
	require.NotContains(t, first.Body, "was cancelled in River")
	older := p.count("SELECT id FROM mend ORDER BY id DESC OFFSET 49 LIMIT 1")
	second := p.get(fmt.Sprintf("/mends?before=%d", older))
	require.Contains(t, first.Body, fmt.Sprintf("/mends?before=%d", older))
	require.Contains(t, second.Body, "Its job 7 was cancelled in River.")
	require.NotContains(t, second.Body, "Counters of round 60")
	require.Equal(t, http.StatusOK, p.get("/mends?before=%00nonsense").Status)

	page := p.get("/deliveries/" + formatID(idDelivery, int64(id)))
	require.Contains(t, page.Body, "Its job 7 was cancelled in River.")
	detail, err := p.server.getDelivery(t.Context(), int64(id))
	require.NoError(t, err)
	require.Len(t, detail.Mends, 1)
	require.Equal(t, "job_cancelled", detail.Mends[0].What)
	require.Contains(t, p.get("/metrics").Body, `weir_mended_total{what="job_cancelled"} 12`)
}
