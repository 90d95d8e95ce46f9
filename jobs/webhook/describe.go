package webhook

import "net/http"

// Headers are what a request carries besides the timestamp, the signatures and the destination's custom headers, so that a page can show
// them. version is the product's, for User-Agent.
func (m Message) Headers(version string) http.Header {
	h := http.Header{}
	m.setHeaders(h, version)
	return h
}
