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

// All boxes of the page at once, by keyboard; how many are chosen is said as it changes.
func TestDeadLettersAreChosenTogether(t *testing.T) {
	t.Parallel()
	ctx, problems := newBrowser(t)
	p := newPanel(t).signIn()
	seedLetters(p, 60)
	p.enter(ctx)
	// standing is the box in the header and what is said, as one line.
	standing := func() string {
		t.Helper()
		got, err := chromedp.Run(ctx, chromedp.Evaluate[string](`(() => { const all = document.getElementById("choose-all");
			return [all.indeterminate ? "some" : all.checked ? "all" : "none", document.querySelector("[data-chosen][aria-live=polite]").textContent].join(": "); })()`))
		require.NoError(t, err)
		return got
	}
	do := func(actions ...chromedp.Action[chromedp.Void]) {
		t.Helper()
		require.NoError(t, chromedp.Do(ctx, actions...))
	}
	run := func(script string) {
		t.Helper()
		_, err := chromedp.Run(ctx, chromedp.Evaluate[bool](script+"; true"))
		require.NoError(t, err)
	}
	box := func(id string) chromedp.Action[chromedp.Void] {
		return chromedp.Click(chromedp.CSS(`input[value="` + id + `"]`))
	}

	do(chromedp.Navigate(p.url + "/dead-letters/dlg_1"))
	require.Equal(t, "none: None chosen", standing())
	do(box("dlv_5060"), box("dlv_5058"))
	require.Equal(t, "some: 2 of 50 chosen", standing())
	do(chromedp.SendKeys(chromedp.CSS("#choose-all"), " "))
	require.Equal(t, "all: 50 of 50 chosen", standing(), "the space bar on the box of some chooses the rest")
	do(box("dlv_5060"))
	require.Equal(t, "some: 49 of 50 chosen", standing())

	// A live refresh brings the rows as the server has them: first the same, then without one that was chosen. No row goes under the pointer.
	do(chromedp.MouseEvent(chromedp.MouseMoved, 5, 5))
	run(`(() => { const card = document.querySelector("[aria-labelledby=deliveries-title]"), region = document.createElement("live-region");
		window.fresh = document.createElement("template"); fresh.innerHTML = card.outerHTML;
		region.id = "around"; region.refresh = () => {}; card.before(region); region.append(card); })()`)
	run(`document.getElementById("around").show(fresh.innerHTML)`)
	require.Equal(t, "some: 49 of 50 chosen", standing())
	run(`fresh.content.querySelector("[value=dlv_5059]").closest("tr").remove(); document.getElementById("around").show(fresh.innerHTML)`)
	require.Equal(t, "some: 48 of 49 chosen", standing())

	// What is sent is what is chosen, without the box of all.
	_, err := chromedp.RunResponse(ctx, chromedp.Click(chromedp.CSS(`button[formaction="/replays/preview"]`)))
	require.NoError(t, err)
	got, err := chromedp.Run(ctx, chromedp.Text(chromedp.CSS(`[data-testid="selected"]`)))
	require.NoError(t, err)
	require.Equal(t, "48", strings.TrimSpace(got))

	// On a telephone, where a table has no header, the box is there, and is named.
	do(chromedp.EmulateViewport(390, 800), chromedp.Navigate(p.url+"/dead-letters/dlg_1"), chromedp.Click(chromedp.CSS(".choose-all span")))
	require.Equal(t, "all: 50 of 50 chosen", standing())
	require.Empty(t, problems())
}
