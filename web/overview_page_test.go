package web

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// However many need attention, the page begins with the worst few; the rest are a fold away, and it says how many it leaves out.
func TestNeedsAttentionBeginsWithTheWorst(t *testing.T) {
	t.Parallel()
	p := newPanel(t).signIn()
	const sentence, fold = `data-testid="attention"`, `<details id="attention-rest"`
	p.exec("INSERT INTO lane (id, name) VALUES (1, 'l')")
	add := func(from, to int) {
		t.Helper()
		p.exec(`INSERT INTO destination (id, name, url, lane_id, state, state_reason, state_since) SELECT g, 'd' || g, 'https://acme.example/', 1, 'disabled', 'gone', now()
			FROM generate_series($1::int, $2) g`, from, to)
	}

	add(2, attentionFirst) // and one sentence about ourselves: no worker runs here
	page := p.get("/").Body
	require.Equal(t, attentionFirst, strings.Count(page, sentence))
	require.NotContains(t, page, fold)

	add(attentionFirst+1, attentionFirst+4)
	first, rest, found := strings.Cut(p.get("/").Body, fold)
	require.True(t, found)
	require.Equal(t, attentionFirst, strings.Count(first, sentence))
	require.Equal(t, 4, strings.Count(rest, sentence))
	require.Contains(t, rest, "<summary>4 more</summary>")
	require.NotContains(t, rest, "are not shown")

	add(attentionFirst+5, attentionShown+7)
	_, rest, _ = strings.Cut(p.get("/").Body, fold)
	require.Equal(t, attentionShown-attentionFirst, strings.Count(rest, sentence))
	require.Contains(t, rest, "<summary>29 more</summary>")
	require.Contains(t, rest, "7 are not shown.")
}
