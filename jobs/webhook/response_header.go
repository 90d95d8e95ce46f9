package webhook

import (
	"net/http"
	"slices"
	"strings"
)

// Header is one header of a response, as it is kept.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"` // "[redacted]" where it could let somebody in
}

// What is kept of a response's headers at most.
const (
	maxKeptHeaders     = 40
	maxKeptHeaderValue = 300 // bytes
)

// secretHeaders hold credentials, whatever is in them.
var secretHeaders = map[string]bool{
	"Set-Cookie": true, "Set-Cookie2": true, "Authorization": true, "Proxy-Authorization": true, "Authentication-Info": true, "Cookie": true,
}

// keptHeaders are a response's headers by name: printable, cut, and without the values of our own headers, which some receivers send back.
func keptHeaders(response http.Header, ours map[string]string) []Header {
	secrets := secretsIn(ours)
	var kept []Header
	for name, values := range response {
		value := strings.Join(values, ", ")
		switch {
		case secretHeaders[name]:
			value = "[redacted]"
		case name == "Location":
			value = redactLocation(value)
		}
		for _, secret := range secrets {
			value = strings.ReplaceAll(value, secret, "[redacted]")
		}
		kept = append(kept, Header{printable(name, 100), printable(value, maxKeptHeaderValue)})
	}
	slices.SortFunc(kept, func(a, b Header) int { return strings.Compare(a.Name, b.Name) })
	return kept[:min(len(kept), maxKeptHeaders)]
}
