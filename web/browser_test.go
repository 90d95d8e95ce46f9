package web

import (
	"context"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// browser is the one headless Chromium of all tests; each has a tab with cookies of its own.
var browser struct {
	sync.Once
	ctx  context.Context // chromedp's handle
	stop func()
	err  error
}

func startBrowser() {
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		browser.err = exec.ErrNotFound
		return
	}
	options := slices.Clone(chromedp.DefaultExecAllocatorOptions[:])
	options = append(options, chromedp.ExecPath(path))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	allocator, stopAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	browser.ctx = ctx //nolint:fatcontext // once, for all tests
	browser.stop = func() {
		_ = chromedp.Cancel(ctx)
		cancel()
		stopAllocator()
	}
	browser.err = chromedp.Do(ctx) // starts it
}

func stopBrowser() {
	if browser.stop != nil {
		browser.stop()
	}
}

// withoutRaceDetector skips what runs in a browser where the server is watched for races: it would take minutes more, and the same handlers
// are driven there by the tests without one.
func withoutRaceDetector(t *testing.T) {
	t.Helper()
	if raceDetector {
		t.Skip("runs without the race detector")
	}
}

// newBrowser is a tab of a headless Chromium, and what its console says that it should not. With CI=true there must be one.
func newBrowser(t *testing.T) (context.Context, func() []string) {
	t.Helper()
	withoutRaceDetector(t)
	browser.Do(startBrowser)
	if errors.Is(browser.err, exec.ErrNotFound) {
		if os.Getenv("CI") == "true" {
			t.Fatal("no Chromium was found, and with CI=true the browser test must run: apt-get install -y chromium")
		}
		t.Skip("no Chromium was found, so the pages are not tried in a browser: apt-get install -y chromium")
	}
	require.NoError(t, browser.err)
	ctx, cancel := chromedp.NewContext(browser.ctx, chromedp.WithNewBrowserContext())
	require.NoError(t, chromedp.Do(ctx, chromedp.Navigate("about:blank")))
	timed, cancelTimed := context.WithTimeout(ctx, 4*time.Minute)

	var (
		mu       sync.Mutex
		problems []string
		read     = make(chan struct{})
	)
	messages := chromedp.Console(timed)
	go func() {
		defer close(read)
		for m, err := range messages {
			if err != nil {
				return
			}
			if m.Type == chromedp.ConsoleError || m.Type == chromedp.ConsoleWarning || m.IsException() {
				mu.Lock()
				problems = append(problems, m.Text)
				mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() {
		cancelTimed()
		_ = chromedp.Cancel(ctx)
		cancel()
		<-read
	})
	return timed, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(problems)
	}
}

// enter gives the tab the session that the panel's client has.
func (p *panel) enter(ctx context.Context) {
	p.t.Helper()
	base, err := url.Parse(p.url)
	require.NoError(p.t, err)
	for _, cookie := range p.client.Jar.Cookies(base) {
		_, err := chromedp.Call(ctx, network.SetCookie, network.SetCookieParams{Name: cookie.Name, Value: cookie.Value, URL: p.url, HTTPOnly: new(true)})
		require.NoError(p.t, err)
	}
}

func TestPanelInABrowser(t *testing.T) {
	t.Parallel()
	ctx, problems := newBrowser(t)
	p := newPanel(t)
	text := func(sel string) string {
		t.Helper()
		got, err := chromedp.Run(ctx, chromedp.Text(chromedp.CSS(sel)))
		require.NoError(t, err)
		return got
	}

	// The first administrator follows the link.
	require.NoError(t, chromedp.Do(ctx,
		chromedp.Navigate(p.url+"/welcome?token="+p.invite()),
		chromedp.SendKeys(chromedp.CSS("#name"), "Ada"),
		chromedp.SendKeys(chromedp.CSS("#password"), testPassword),
	))
	_, err := chromedp.RunResponse(ctx, chromedp.Click(chromedp.CSS("button.primary")))
	require.NoError(t, err)
	require.Contains(t, text("main"), "Welcome, Ada")
	require.Contains(t, text("main"), "No destinations yet")

	// A destination is made, and its secret shown.
	require.NoError(t, chromedp.Do(ctx,
		chromedp.Navigate(p.url+"/destinations/new"),
		chromedp.SendKeys(chromedp.CSS("#name"), `Acme <b>"warehouse"`),
		chromedp.SendKeys(chromedp.CSS("#url"), "http://127.0.0.1:9/hook"),
	))
	_, err = chromedp.RunResponse(ctx, chromedp.Click(chromedp.CSS("form.sheet button.primary")))
	require.NoError(t, err)
	require.Contains(t, text("#secret"), "whsec_")

	// The list has it, and stays current by itself.
	require.NoError(t, chromedp.Do(ctx, chromedp.Navigate(p.url+"/destinations")))
	require.Contains(t, text("table"), `Acme <b>"warehouse"`)
	p.exec("UPDATE destination SET state = 'disabled', state_reason = 'the receiver answered 410'")
	_, err = chromedp.Run(ctx, chromedp.Poll[bool](`document.querySelector("table").innerText.includes("disabled")`))
	require.NoError(t, err)

	// An action asks first, in a dialog; Escape leaves everything as it was.
	require.NoError(t, chromedp.Do(ctx,
		chromedp.Navigate(p.url+"/destinations/dst_1"),
		chromedp.Click(chromedp.CSS("#delete > summary")),
		chromedp.WaitVisible(chromedp.CSS("dialog[open]")),
	))
	require.Contains(t, text("dialog"), "This cannot be undone")
	require.NoError(t, chromedp.Do(ctx, chromedp.KeyEvent("\x1b"), chromedp.WaitNotPresent(chromedp.CSS("dialog"))))
	require.NoError(t, chromedp.Do(ctx, chromedp.Click(chromedp.CSS("#resume > summary")), chromedp.WaitVisible(chromedp.CSS("dialog[open]"))))
	_, err = chromedp.RunResponse(ctx, chromedp.Click(chromedp.CSS("dialog button.primary")))
	require.NoError(t, err)
	require.Contains(t, text("main"), "Resumed.")

	// What changed elsewhere changes the actions, too.
	p.exec("UPDATE destination SET state = 'paused', state_reason = 'from elsewhere'")
	_, err = chromedp.Run(ctx, chromedp.Poll[bool](`!!document.querySelector("#resume") && document.querySelector("main").innerText.includes("from elsewhere")`))
	require.NoError(t, err)

	for _, path := range []string{"/deliveries", "/discovery", "/tokens", "/"} {
		require.NoError(t, chromedp.Do(ctx, chromedp.Navigate(p.url+path)))
	}
	require.Empty(t, problems(), "no violation of the content security policy, no error of the script")
}
