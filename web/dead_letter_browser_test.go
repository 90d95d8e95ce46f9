package web

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// What only a browser does with the inbox: one form with two ways out, and questions in a dialog.
func TestDeadLettersInABrowser(t *testing.T) {
	t.Parallel()
	ctx, problems := newBrowser(t)
	p := newPanel(t).signIn()
	seedLetters(p, 3)
	p.enter(ctx)
	text := func(sel string) string {
		t.Helper()
		got, err := chromedp.Run(ctx, chromedp.Text(chromedp.CSS(sel)))
		require.NoError(t, err)
		return got
	}
	follow := func(sel string) {
		t.Helper()
		_, err := chromedp.RunResponse(ctx, chromedp.Click(chromedp.CSS(sel)))
		require.NoError(t, err)
	}
	choose := func(ids ...string) {
		t.Helper()
		require.NoError(t, chromedp.Do(ctx, chromedp.Navigate(p.url+"/dead-letters/dlg_1")))
		for _, id := range ids {
			require.NoError(t, chromedp.Do(ctx, chromedp.Click(chromedp.CSS(`input[value="`+id+`"]`))))
		}
	}
	choose("dlv_5001", "dlv_5003")
	follow(`button[formaction="/replays/preview"]`)
	require.Equal(t, "2", strings.TrimSpace(text(`[data-testid="selected"]`)), "a replay asks for no reason, and is a preview first")

	choose("dlv_5002")
	require.NoError(t, chromedp.Do(ctx, chromedp.SendKeys(chromedp.CSS("#chosen-reason"), "a duplicate")))
	follow(".chosen button:last-of-type")
	require.Contains(t, text(".notice.good"), "Resolved 1 delivery.")

	require.NoError(t, chromedp.Do(ctx, chromedp.Click(chromedp.CSS("#resolve > summary")), chromedp.SendKeys(chromedp.CSS("dialog #why"), "agreed with Acme")))
	follow("dialog button.primary")
	require.Contains(t, text("main"), "agreed with Acme")
	require.Zero(t, p.count("SELECT open FROM dead_letter_group"))
	require.NoError(t, chromedp.Do(ctx, chromedp.EmulateViewport(390, 800), chromedp.Navigate(p.url+"/dead-letters/dlg_1?all=1")))
	wide, err := chromedp.Run(ctx, chromedp.Evaluate[int](`document.documentElement.scrollWidth - innerWidth`))
	require.NoError(t, err)
	require.LessOrEqual(t, wide, 0, "nothing is wider than a telephone")
	require.Empty(t, problems())
}
