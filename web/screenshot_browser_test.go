package web

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// Takes a picture of every page, in both themes, on a desk and on a telephone, with the data that pages are audited with. task screenshots
// runs it: it shows, and proves nothing.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv("WEIR_SCREENSHOTS")
	if dir == "" {
		t.Skip("WEIR_SCREENSHOTS names no directory")
	}
	require.NoError(t, os.MkdirAll(dir, 0o755))
	ctx, _ := newBrowser(t)
	p := newPanel(t).signIn()
	fillPanel(p)
	p.enter(ctx)
	for _, path := range pagesOf(t, p.server.panelRoutes()) {
		for _, as := range []struct {
			theme, name string
			width       int64
		}{{"light", "wide", 1400}, {"dark", "wide", 1400}, {"light", "narrow", 390}, {"dark", "narrow", 390}} {
			_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: as.theme}}})
			require.NoError(t, err)
			require.NoError(t, chromedp.Do(ctx, chromedp.EmulateViewport(as.width, 900), chromedp.Navigate(p.url+path)), path)
			picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
			require.NoError(t, err, path)
			require.NoError(t, os.WriteFile(filepath.Join(dir, pictureName(path)+"-"+as.name+"-"+as.theme+".png"), picture, 0o644))
		}
	}
}

// pictureName is a path as the name of a file: "overview" for "/", "destinations-dst_1-edit" for the form.
func pictureName(path string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		default:
			return '-'
		}
	}, strings.Trim(path, "/"))
	if name == "" {
		return "overview"
	}
	return name[:min(len(name), 60)]
}
