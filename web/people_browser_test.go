package web

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// A colleague with fewer rights is invited, signs in, sees, and cannot change; then their session is ended.
func TestColleagueInABrowser(t *testing.T) {
	t.Parallel()
	ctx, problems := newBrowser(t)
	p := newPanel(t).signIn()
	p.exec("INSERT INTO lane (id, name) VALUES (1, 'l')")
	p.exec("INSERT INTO destination (id, name, url, lane_id) VALUES (1, 'Acme', 'https://acme.example/', 1)")
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
	signIn := func(name string) {
		t.Helper()
		require.NoError(t, chromedp.Do(ctx,
			chromedp.Navigate(p.url+"/login"), chromedp.SendKeys(chromedp.CSS("#name"), name), chromedp.SendKeys(chromedp.CSS("#password"), testPassword)))
		follow("button.primary")
	}

	// Ada makes the link; it is shown once.
	signIn("Ada")
	require.NoError(t, chromedp.Do(ctx,
		chromedp.Navigate(p.url+"/people"), chromedp.SendKeys(chromedp.CSS("#note"), "Vera"), chromedp.Click(chromedp.CSS(`input[value="viewer"]`))))
	follow("form.sheet button.primary")
	link := text("#made")
	require.Contains(t, link, p.url+"/welcome?token=")
	follow("form.whoami button")

	// Vera follows it, and looks.
	require.NoError(t, chromedp.Do(ctx,
		chromedp.Navigate(link), chromedp.SendKeys(chromedp.CSS("#name"), "Vera"), chromedp.SendKeys(chromedp.CSS("#password"), testPassword)))
	follow("button.primary")
	require.Contains(t, text("main"), "Welcome, Vera")
	require.NotContains(t, text("header.bar"), "Administration")
	require.NoError(t, chromedp.Do(ctx, chromedp.Navigate(p.url+"/destinations/dst_1")))
	require.Contains(t, text("main"), "Acme")
	buttons, err := chromedp.Run(ctx, chromedp.Evaluate[int](`document.querySelectorAll("main form[method=post], main summary.button").length`))
	require.NoError(t, err)
	require.Zero(t, buttons, "nothing is offered that would be refused")

	// What she sends all the same is refused, and says why.
	_, err = chromedp.Run(ctx, chromedp.Evaluate[bool](`(() => { document.querySelector("main").innerHTML = "<form method=post action=/destinations/dst_1/pause><button id=forged>x</button></form>"; return true; })()`))
	require.NoError(t, err)
	follow("#forged")
	require.Contains(t, text("main"), "This needs the role operator, and yours is viewer.")
	require.Equal(t, 1, p.count("SELECT count(*) FROM destination WHERE state = 'active'"))

	// Ada, elsewhere, ends her session: the next page asks her to sign in.
	id := int64(p.count("SELECT s.id::int FROM session s JOIN operator o ON o.id = s.operator_id WHERE o.name = 'Vera' AND s.revoked_at IS NULL"))
	require.Contains(t, p.get("/sessions").Body, "Vera")
	require.Equal(t, 303, p.post("/sessions/"+formatID(idSession, id)+"/revoke").Status)
	require.NoError(t, chromedp.Do(ctx, chromedp.Navigate(p.url+"/destinations")))
	require.Contains(t, text("main"), "Sign in")

	// All of it is on record.
	signIn("Ada")
	for _, path := range []string{"/audit", "/settings", "/sessions", "/tokens", "/account", "/audit?action=session.revoke"} {
		require.NoError(t, chromedp.Do(ctx, chromedp.Navigate(p.url+path)))
	}
	require.Contains(t, text("table"), "ended a session of Vera")
	for _, problem := range problems() {
		require.Contains(t, problem, "403", "no violation of the content security policy, no error but the one that was asked for")
	}
}
