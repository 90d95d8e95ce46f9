package web

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// Hostile payloads, names and times stay inert and legible on every page that shows events and deliveries, in a real browser.
func TestHostileDataInABrowser(t *testing.T) {
	t.Parallel()
	ctx, problems := newBrowser(t)
	p := newPanel(t)
	seedHostile(p)
	names, err := os.ReadFile("../app/testdata/payloads/nasty_unicode_names.json")
	require.NoError(t, err)
	large := append([]byte(`{"filler": "`), bytes.Repeat([]byte("x"), 10<<20)...)
	p.exec("SELECT setval(pg_get_serial_sequence('event', 'id'), 100)")
	for id, payload := range map[string][]byte{"names": names, "large": append(large, `"}`...), "broken": []byte("\xff\xfe{<script>alert(8)</script>")} {
		p.exec("INSERT INTO event (event_id, type, subject, payload, occurred_at) VALUES ($1, 'shipment.updated', $2, $3, '9999-12-31T23:59:59Z')",
			id, "Zoë 👩‍👩‍👧 \u202egnp.exe "+strings.Repeat("W", 180), payload)
	}
	require.NoError(t, chromedp.Do(ctx,
		chromedp.Navigate(p.url+"/welcome?token="+p.invite()),
		chromedp.SendKeys(chromedp.CSS("#name"), "Ada"),
		chromedp.SendKeys(chromedp.CSS("#password"), testPassword),
	))
	_, err = chromedp.RunResponse(ctx, chromedp.Click(chromedp.CSS("button.primary")))
	require.NoError(t, err)

	// What is revealed is shown as text.
	for _, id := range []string{xssEvent, "names", "large", "broken"} {
		require.NoError(t, chromedp.Do(ctx,
			chromedp.Navigate(p.url+eventPath(id)),
			chromedp.Click(chromedp.CSS("#reveal > summary")),
			chromedp.WaitVisible(chromedp.CSS("dialog[open]")),
		))
		_, err = chromedp.RunResponse(ctx, chromedp.Click(chromedp.CSS("dialog button.primary")))
		require.NoError(t, err)
		shown, err := chromedp.Run(ctx, chromedp.Text(chromedp.CSS("#payload-raw")))
		require.NoError(t, err)
		require.NotEmpty(t, shown, id)
		require.LessOrEqual(t, len(shown), 4*maxShownPayload, id)
	}
	subject := "Zoë 👩‍👩‍👧 \u202egnp.exe " + strings.Repeat("W", 180)
	for _, path := range []string{
		eventPath(xssEvent), eventPath("names"), eventPath("large"), eventPath("broken"), subjectPath(subject, ""), subjectPath(xssSubject, xssName),
		"/events", "/events?q=alert", "/deliveries", "/deliveries/dlv_1000", "/search-keys",
	} {
		require.NoError(t, chromedp.Do(ctx, chromedp.Navigate(p.url+path)))
		strange, err := chromedp.Run(ctx, chromedp.Evaluate[int](`document.querySelectorAll("main script, main img, main iframe, main [onload], main [onerror], main a[href^='javascript:']").length`))
		require.NoError(t, err)
		require.Zero(t, strange, path)
		wide, err := chromedp.Run(ctx, chromedp.Evaluate[int](`document.documentElement.scrollWidth - document.documentElement.clientWidth`))
		require.NoError(t, err)
		require.LessOrEqual(t, wide, 0, "%s is wider than the window", path)
	}
	require.Empty(t, problems(), "nothing ran, and nothing was refused")
}
