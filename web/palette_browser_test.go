package web

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// What the palette waits for has its place, and gives it up for what was found, or for the news that nobody answers.
func TestPaletteInABrowser(t *testing.T) {
	t.Parallel()
	ctx, problems := newBrowser(t)
	p := newPanel(t).signIn()
	p.enter(ctx)
	require.NoError(t, chromedp.Do(ctx, chromedp.Navigate(p.url+"/")))
	do := func(js string) {
		t.Helper()
		_, err := chromedp.Run(ctx, chromedp.Evaluate[bool](js+"; true"))
		require.NoError(t, err, js)
	}
	until := func(js string) {
		t.Helper()
		_, err := chromedp.Run(ctx, chromedp.Poll[bool](js))
		require.NoError(t, err, js)
	}
	const lines, options, open = `document.querySelectorAll("#palette .skeleton").length`, `document.querySelectorAll("#palette [role=option]").length`,
		`document.querySelector("dialog[open]")?.close(); document.querySelector("[data-open=palette]").click()`

	do(`window.asked = fetch; window.fetch = (...all) => !all[0].startsWith("/find") ? asked(...all) :
		new Promise((ok, no) => { window.letGo = () => asked(...all).then(ok, no); window.fail = no; }); ` + open)
	until(lines + " === 6 && " + options + " === 0")
	do(`letGo()`)
	until(lines + " === 0 && " + options + " > 0")

	// What was moved to while an answer was on its way stays chosen.
	do(`palette.ask(); palette.key(new KeyboardEvent("keydown", {key: "ArrowDown"})); window.chosen = palette.options()[palette.at()].dataset.href; letGo()`)
	until(`!document.querySelector("#palette [aria-busy]") && palette.at() === 1 && palette.options()[1].dataset.href === chosen`)

	do(open)
	until(lines + " === 6")
	do(`fail(new TypeError("nobody there"))`)
	until(lines + ` === 0 && document.getElementById("palette-status").textContent.includes("does not answer")`)
	require.Empty(t, problems())
}
