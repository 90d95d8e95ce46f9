// Package static holds the files that browsers load: a style sheet, and scripts. Each is served under a name with the hash of its
// content, so that it may be cached for ever and a new version is seen at once.
package static

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"strings"
)

//go:embed app.css act.js live.js palette.js icon.svg vendor/idiomorph-0.8.0.min.js
var content embed.FS

type file struct {
	body, zipped []byte
	kind         string
}

var urls, files = load()

func load() (map[string]string, map[string]file) {
	const css, js = "text/css; charset=utf-8", "text/javascript; charset=utf-8"
	urls, files := map[string]string{}, map[string]file{}
	for name, kind := range map[string]string{
		"app.css":                       css,
		"act.js":                        js,
		"palette.js":                    js,
		"live.js":                       js,
		"vendor/idiomorph-0.8.0.min.js": js,
		"icon.svg":                      "image/svg+xml",
	} {
		body, err := content.ReadFile(name)
		if err != nil {
			panic(err) // the files are compiled in
		}
		sum := sha256.Sum256(body)
		ext := path.Ext(name)
		hashed := strings.TrimSuffix(path.Base(name), ext) + "." + hex.EncodeToString(sum[:6]) + ext
		urls[name] = "/static/" + hashed
		files[hashed] = file{body, zip(body), kind}
	}
	return urls, files
}

func zip(body []byte) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		panic(err) // the level is one
	}
	_, _ = w.Write(body) // a buffer takes everything
	_ = w.Close()
	return b.Bytes()
}

// URL is where a file is, such as /static/app.3f2a….css for "app.css".
func URL(name string) string { return urls[name] }

// Handler serves the files below /static/.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, ok := files[strings.TrimPrefix(r.URL.Path, "/static/")]
		if !ok {
			w.Header().Set("Cache-Control", "no-store")
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", f.kind)
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		w.Header().Set("Vary", "Accept-Encoding")
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(f.zipped)
			return
		}
		_, _ = w.Write(f.body)
	})
}
