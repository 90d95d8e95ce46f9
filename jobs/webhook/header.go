package webhook

import (
	"fmt"
	"strings"

	"golang.org/x/net/http/httpguts"
)

const (
	maxHeaderName  = 128  // bytes
	maxHeaderValue = 4096 // bytes; many receivers end at 8 KiB for all headers together
)

// reservedHeaders are set by Weir or by the HTTP client, or belong to one connection rather than to the request
// (RFC 9110 §7.6.1). The value says why, as the end of a sentence.
var reservedHeaders = map[string]string{
	"idempotency-key":   "is the event id",
	"x-idempotency-key": "would let the HTTP client repeat requests by itself",
	"content-type":      "is always application/json",
	"user-agent":        "names Weir",
	"host":              "follows from the URL",
	"content-length":    "follows from the body",
	"content-encoding":  "would not describe the body, which is sent as it is",
	"connection":        hopByHop,
	"keep-alive":        hopByHop,
	"proxy-connection":  hopByHop,
	"te":                hopByHop,
	"trailer":           hopByHop,
	"transfer-encoding": hopByHop,
	"upgrade":           hopByHop,
	"expect":            hopByHop,
	"http2-settings":    hopByHop,
}

const hopByHop = "belongs to the connection, not to the request"

// CheckHeader says whether a destination may have a custom header with this name and value. It returns nil, or a
// sentence for the form's field. The value is never part of it, because it is often a credential.
//
// Names are compared with '_' read as '-': CGI-like receivers cannot tell webhook_id from webhook-id.
func CheckHeader(name, value string) error {
	if name == "" {
		return fmt.Errorf("the header name is empty")
	}
	if len(name) > maxHeaderName {
		return fmt.Errorf("the header name is longer than %d bytes", maxHeaderName)
	}
	if !httpguts.ValidHeaderFieldName(name) {
		return fmt.Errorf("%q is not a header name: only letters, digits and !#$%%&'*+-.^_`|~ are allowed", name)
	}

	lower := strings.ReplaceAll(strings.ToLower(name), "_", "-")
	if strings.HasPrefix(lower, "webhook-") || strings.HasPrefix(lower, "weir-") {
		return fmt.Errorf("%s is reserved: Weir sets all webhook-* and weir-* headers itself", name)
	}
	if strings.HasPrefix(lower, "proxy-") {
		return fmt.Errorf("%s is reserved: it %s", name, hopByHop)
	}
	if why, ok := reservedHeaders[lower]; ok {
		return fmt.Errorf("%s is reserved: it %s", name, why)
	}

	return checkHeaderValue(name, value)
}

func checkHeaderValue(name, value string) error {
	if len(value) > maxHeaderValue {
		return fmt.Errorf("the value of %s is longer than %d bytes", name, maxHeaderValue)
	}
	if strings.ContainsAny(value, "\r\n") {
		return fmt.Errorf("the value of %s contains a line break; it may have been copied with the value", name)
	}
	for i := range len(value) {
		if c := value[i]; (c < ' ' && c != '\t') || c == 0x7f {
			return fmt.Errorf("the value of %s contains a control character", name)
		}
		if value[i] >= 0x80 {
			return fmt.Errorf("the value of %s contains a character outside ASCII; receivers disagree on how to read those", name)
		}
	}
	if strings.TrimSpace(value) != value {
		return fmt.Errorf("the value of %s begins or ends with a blank, which would be lost on the way", name)
	}
	if value == "" {
		return fmt.Errorf("the value of %s is empty", name)
	}

	return nil
}
