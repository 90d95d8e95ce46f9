package web

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"weir/jobs"
)

// hands are an operator's, on a keyboard: nothing here clicks, and nothing calls a script of the page.
type hands struct {
	t   *testing.T
	ctx context.Context // chromedp's handle of the tab
}

func (h hands) press(keys string, modifiers ...chromedp.Modifier) {
	h.t.Helper()
	require.NoError(h.t, chromedp.Do(h.ctx, chromedp.KeyEvent(keys, chromedp.KeyModifiers(modifiers...))))
}

// until waits for something that can be seen.
func (h hands) until(js string) {
	h.t.Helper()
	if _, err := chromedp.Run(h.ctx, chromedp.Poll[bool](js)); err != nil {
		text, _ := chromedp.Run(h.ctx, chromedp.Evaluate[string](`location.pathname + "\n" + document.body.innerText`))
		require.NoError(h.t, err, "%s\non %s", js, text)
	}
}

func (h hands) sees(text string) {
	h.t.Helper()
	h.until(fmt.Sprintf(`document.body.innerText.includes(%q)`, text))
}

// tabTo presses Tab until the focus is on what the selector says.
func (h hands) tabTo(selector string) {
	h.t.Helper()
	for range 150 {
		there, err := chromedp.Run(h.ctx, chromedp.Evaluate[bool](fmt.Sprintf(`document.activeElement?.matches(%q) === true`, selector)))
		require.NoError(h.t, err)
		if there {
			return
		}
		h.press(kb.Tab)
	}
	text, _ := chromedp.Run(h.ctx, chromedp.Evaluate[string](`location.href + "\n" + document.body.innerText`))
	require.Fail(h.t, "Tab never comes to "+selector, text)
}

// enter presses Enter, and waits for the page that it leads to.
func (h hands) enter() {
	h.t.Helper()
	_, err := chromedp.RunResponse(h.ctx, chromedp.KeyEvent(kb.Enter))
	require.NoError(h.t, err)
}

func (h hands) follow(selector string) {
	h.t.Helper()
	h.tabTo(selector)
	h.enter()
}

// fill replaces what stands in a field.
func (h hands) fill(selector, text string) {
	h.t.Helper()
	h.tabTo(selector)
	h.press("a", chromedp.ModifierCtrl)
	require.NoError(h.t, chromedp.Do(h.ctx, chromedp.KeyEvent(text)))
}

// find types into the palette and takes the line that says what is expected.
func (h hands) find(text, line string) {
	h.t.Helper()
	h.press("k", chromedp.ModifierCtrl)
	h.until(`document.querySelector("#palette [role=option]") !== null`)
	require.NoError(h.t, chromedp.Do(h.ctx, chromedp.KeyEvent(text)))
	h.until(fmt.Sprintf(`[...document.querySelectorAll("#palette [role=option]")].some(o => o.innerText.includes(%q)) && !palette.wait && !document.querySelector("#palette [aria-busy]")`, line))
	for range 30 {
		selected, err := chromedp.Run(h.ctx, chromedp.Evaluate[string](`document.getElementById(document.querySelector("#palette input").getAttribute("aria-activedescendant"))?.innerText ?? ""`))
		require.NoError(h.t, err)
		if strings.Contains(selected, line) {
			h.enter()
			return
		}
		h.press(kb.ArrowDown)
	}
	require.Fail(h.t, "the palette has no line with "+line)
}

// goTo presses g and a letter.
func (h hands) goTo(letter string) {
	h.t.Helper()
	h.press("g")
	_, err := chromedp.RunResponse(h.ctx, chromedp.KeyEvent(letter))
	require.NoError(h.t, err)
}

// answerDialog fills in the dialog's text, if it has one, and sends it.
func (h hands) answerDialog(text string) {
	h.t.Helper()
	h.until(`document.querySelector("dialog[open]") !== null`)
	if text != "" {
		h.fill("dialog[open] input[type=text]", text)
	}
	h.follow("dialog[open] button[type=submit]")
}

// The ten jobs of an operator, one after another in one day: with the keyboard alone, in the dark, on a telephone's width, with a real
// receiver.
func TestTheOperatorsJobsInABrowser(t *testing.T) {
	t.Parallel()
	ctx, problems := newBrowser(t)
	p := newPanelOf(t, jobs.RoleWeb, jobs.RoleWork, jobs.RoleDiscover).signIn()
	var broken atomic.Bool
	broken.Store(true)
	var signatures atomic.Int32 // of the last request
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		signatures.Store(int32(len(strings.Fields(r.Header.Get("webhook-signature")))))
		if r.URL.Path == "/broken" && broken.Load() {
			http.Error(w, "unknown field carrier", http.StatusUnprocessableEntity)
		}
	}))
	t.Cleanup(receiver.Close)
	fields := destinationFields("name", "Broken shop", "url", receiver.URL+"/broken", "subscriptions", "returned.*", "headers", "", "responses", "")
	require.Equal(t, http.StatusOK, p.do(p.client, http.MethodPost, "/destinations", fields).Status)
	require.Equal(t, http.StatusSeeOther, p.post("/search-keys", "type", "*", "path", "tracking", "label", "tracking_number").Status)
	publish := func(id, kind, tracking string) {
		t.Helper()
		_, err := p.server.Engine.Publish(t.Context(), jobs.Event{ID: id, Type: kind, Subject: "SHP-" + id, Payload: []byte(`{"tracking": "` + tracking + `"}`)})
		require.NoError(t, err)
	}

	_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}})
	require.NoError(t, err)
	p.enter(ctx)
	require.NoError(t, chromedp.Do(ctx, chromedp.EmulateViewport(390, 844), chromedp.Navigate(p.url+"/")))
	job := func(name string, do func(h hands)) {
		t.Run(name, func(t *testing.T) { do(hands{t, ctx}) })
		if t.Failed() {
			t.FailNow()
		}
	}

	job("AddsADestinationAndGetsItsFirstDelivery", func(h hands) {
		h.find("add dest", "Add a destination")
		h.fill("#name", "Warehouse")
		h.fill("#url", receiver.URL+"/ok")
		h.fill("#subscriptions", "shipment.*")
		h.follow("form.sheet button.primary[type=submit]")
		h.sees("whsec_")
		h.goTo("l")
		publish("1", "shipment.updated", "1Z999AA1")
		h.until(`document.querySelector("tbody")?.innerText.includes("delivered")`)
	})
	job("FindsOutWhyAShipmentWasNotDelivered", func(h hands) {
		publish("2", "returned.lost", "1Z999AA2")
		h.find("SHP-2", "SHP-2")
		h.sees("dead-lettered")
		h.follow(`main a[href^="/deliveries/"]`)
		h.sees("the receiver answered 422")
	})
	job("PausesWatchesItHoldAndResumes", func(h hands) {
		h.find("warehouse", "Pause Warehouse")
		h.answerDialog("maintenance")
		h.sees("maintenance")
		publish("3", "shipment.updated", "1Z999AA3")
		h.until(`document.querySelector("main").innerText.includes("pending")`)
		h.find("warehouse", "Resume Warehouse")
		h.until(`document.activeElement.matches("dialog[open] h2")`) // where one Enter too many answers nothing
		h.press(kb.Enter)
		h.answerDialog("")
		h.until(`!document.querySelector("main").innerText.includes("pending")`)
		require.Equal(h.t, 1, p.count("SELECT count(*) FROM delivery d JOIN event e ON e.id = d.event_id WHERE e.event_id = '3' AND d.state = 'delivered'"))
	})
	job("RotatesASecretWithNothingLost", func(h hands) {
		h.tabTo("#rotate > summary")
		h.press(kb.Enter)
		h.answerDialog("")
		h.sees("whsec_")
		publish("4", "shipment.updated", "1Z999AA4")
		h.goTo("l")
		h.until(`document.querySelectorAll("tbody tr").length >= 4 && !document.querySelector("tbody").innerText.includes("pending")`)
		require.EqualValues(h.t, 2, signatures.Load(), "both secrets sign")
	})
	job("ReviewsAndReplaysDeadLetters", func(h hands) {
		broken.Store(false)
		h.goTo("x")
		h.until(`document.querySelector("tbody tr") !== null`)
		h.press("j")
		h.enter()
		h.sees("Broken shop")
		h.follow(`main a[href^="/replays/preview"]`)
		h.follow(`main form[action="/replays"] button.primary`)
		h.sees("done")
		h.goTo("x")
		h.sees("The inbox is empty")
	})
	job("ChangesALimitAndSeesTheForecast", func(h hands) {
		h.find("Warehouse", "Warehouse")
		h.follow(`main a[href$="/edit"]`)
		h.fill("#rate", "2")
		h.follow(`button[formaction*="forecast"]`)
		h.sees("What it would have done to the last 24 h")
		h.follow("form.sheet button.primary")
		h.sees("2/s")
	})
	job("FindsADeliveryByTrackingNumber", func(h hands) {
		h.find("1Z999AA1", "has it in the payload")
		h.follow(`main a[href^="/deliveries/"]`)
		h.sees("delivered")
		h.sees("Warehouse")
	})
	job("StopsAReplay", func(h hands) {
		h.find("start a replay", "Start a replay")
		h.tabTo("#state-delivered")
		h.press(" ")
		h.fill("#share", "1")
		h.follow("form.sheet button.primary")
		h.follow(`main form[action="/replays"] button.primary`)
		h.tabTo("#stop > summary")
		h.press(kb.Enter)
		h.answerDialog("")
		h.sees("stopped")
	})
	job("AddsAColleagueWithFewerRights", func(h hands) {
		h.find("invite", "Invite a colleague")
		h.fill("#note", "Vera")
		h.tabTo(`input[name=role]`)
		for range 3 { // whichever was chosen, the first is above
			h.press(kb.ArrowUp)
			if at, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`document.activeElement.value`)); at == "viewer" {
				break
			}
		}
		h.follow("form.sheet button.primary")
		h.sees("A link for Vera")
		require.Equal(h.t, 1, p.count("SELECT count(*) FROM invitation WHERE role = 'viewer' AND used_at IS NULL"))
	})
	job("SeesThatAllIsWell", func(h hands) {
		h.goTo("o")
		h.sees("All is well")
	})
	require.Empty(t, problems())
}
