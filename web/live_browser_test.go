package web

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// A list in view is kept current without a reload: rows stay the elements that they are, nothing moves under the pointer, and a stream that
// is lost says so and comes back.
func TestLivePageInABrowser(t *testing.T) {
	t.Parallel()
	ctx, problems := newBrowser(t)
	p := newPanel(t).signIn()
	p.exec("INSERT INTO lane (id, name) VALUES (1, 'l')")
	p.exec("INSERT INTO destination (id, name, url, lane_id) VALUES (1, 'Acme', 'https://acme.example/', 1)")
	add := func(id int) {
		t.Helper()
		p.exec("INSERT INTO event (id, event_id, type, payload, occurred_at) VALUES ($1, 'evt_' || $1::bigint, 'shipment.updated', '{}', now())", id)
		p.aside("INSERT INTO delivery (id, event_id, destination_id, lane_id, expires_at) VALUES ($1, $1, 1, 1, now() + interval '1 day')", id)
	}
	for id := range 3 {
		add(1001 + id)
	}
	until := func(js string) {
		t.Helper()
		_, err := chromedp.Run(ctx, chromedp.Poll[bool](js))
		require.NoError(t, err, js)
	}
	eval := func(js string) string {
		t.Helper()
		got, err := chromedp.Run(ctx, chromedp.Evaluate[string](js))
		require.NoError(t, err, js)
		return got
	}
	const order = `[...document.querySelectorAll("tbody tr")].map(r => r.querySelector("a").textContent).join()`
	p.enter(ctx)
	require.NoError(t, chromedp.Do(ctx, chromedp.Navigate(p.url+"/deliveries")))
	until(`document.documentElement.dataset.live === "on"`)

	// A row more, above; the others are the same elements, and the focus stays where it was.
	eval(`document.querySelector("tbody tr:last-child").kept = "yes"; document.querySelector("tbody tr:last-child a").focus(); ""`)
	add(1004)
	until(`document.querySelectorAll("tbody tr").length === 4`)
	require.Equal(t, "dlv_1004,dlv_1003,dlv_1002,dlv_1001", eval(order))
	require.Equal(t, "yes dlv_1001", eval(`document.querySelector("tbody tr:last-child").kept + " " + document.activeElement.textContent`))

	// Under the pointer nothing moves: what is there changes in place, what is new waits.
	box, err := chromedp.Run(ctx, chromedp.Dimensions(chromedp.CSS("tbody tr:nth-child(2)")))
	require.NoError(t, err)
	x, y := box.Content[0]+10, box.Content[1]+5
	require.NoError(t, chromedp.Do(ctx, chromedp.MouseEvent(chromedp.MouseMoved, x, y)))
	until(`document.querySelector("tbody:hover") !== null`)
	add(1005)
	p.aside("UPDATE delivery SET state = 'expired', reason = 'late', settled_at = now() WHERE id = 1003")
	until(`document.querySelector("live-region > .held")?.textContent === "1 new – show"`)
	until(`document.querySelector("tbody tr:nth-child(2)").innerText.includes("expired")`)
	require.Equal(t, "dlv_1004,dlv_1003,dlv_1002,dlv_1001", eval(order))
	require.NoError(t, chromedp.Do(ctx, chromedp.MouseEvent(chromedp.MouseMoved, 5, 5)))
	until(`document.querySelectorAll("tbody tr").length === 5 && !document.querySelector(".held")`)
	require.Equal(t, "dlv_1005,dlv_1004,dlv_1003,dlv_1002,dlv_1001", eval(order))

	// The exact time, in the reader's zone and in UTC.
	require.NoError(t, chromedp.Do(ctx, chromedp.MouseEvent(chromedp.MouseMoved, x, y)))
	until(`(document.querySelector("tbody time").dispatchEvent(new PointerEvent("pointerover", {bubbles: true})), document.querySelector("tbody time").title.endsWith("UTC"))`)

	// The stream is lost, and comes back.
	p.server.CloseStreams()
	until(`document.getElementById("live-status").textContent.startsWith("Live updates stopped at")`)
	p.server.feed.mu.Lock()
	p.server.feed.closed = false
	p.server.feed.mu.Unlock()
	until(`document.getElementById("live-status").textContent === "" && document.documentElement.dataset.live === "on"`)
	for _, problem := range problems() {
		require.Contains(t, problem, "503")
	}
}

// What takes longer than a page may is counted afterwards, once.
func TestLaterInABrowser(t *testing.T) {
	t.Parallel()
	ctx, problems := newBrowser(t)
	p := newPanel(t).signIn()
	seedHostile(p)
	p.enter(ctx)
	require.NoError(t, chromedp.Do(ctx, chromedp.Navigate(p.url+"/replays/preview?state=delivered")))
	_, err := chromedp.Run(ctx, chromedp.Evaluate[string](`(document.querySelector("main").innerHTML =
		'<live-region once aria-busy="true" src="/replays/preview?state=dead_lettered&count=all"><p id="old">0+</p></live-region>', "")`))
	require.NoError(t, err)
	_, err = chromedp.Run(ctx, chromedp.Poll[bool](`!document.querySelector("live-region[aria-busy]") && !document.querySelector("#old")
		&& document.querySelector("live-region [data-testid=selected]")?.textContent === "1"`))
	require.NoError(t, err)
	require.Empty(t, problems())
}
