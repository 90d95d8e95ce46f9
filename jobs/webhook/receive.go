package webhook

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// maxLocation is how much of a redirect's target is kept, in bytes.
const maxLocation = 200

// receive turns a response into an outcome and leaves its connection either clean for the next request or closed.
func (s *Sender) receive(response *http.Response, r Request) Outcome {
	o := judge(response.StatusCode, response.Header, r.Policy, s.now())
	if o.Status >= 300 && o.Status < 400 {
		o.Location = redactLocation(response.Header.Get("Location"))
	}
	o.Excerpt, o.Truncated = s.readBody(response, r.Headers)
	if r.KeepHeaders || o.Verdict != Delivered {
		o.Headers = keptHeaders(response.Header, r.Headers)
	}

	return o
}

// readBody returns the beginning of the body and whether that may not be all of it. A body that is endless, slow or
// broken is given up, with its connection, at maxDrain bytes or when the request's time is over; it changes no verdict.
func (s *Sender) readBody(response *http.Response, headers map[string]string) (excerpt []byte, truncated bool) {
	defer response.Body.Close() // before the end of the body this closes the connection, too

	if response.StatusCode == http.StatusSwitchingProtocols {
		return nil, false // the "body" is the open connection
	}

	secrets := secretsIn(headers)
	longest := 0
	for _, secret := range secrets {
		longest = max(longest, len(secret))
	}
	keep := s.maxResponse + longest

	var buffer bytes.Buffer
	n, err := io.Copy(&buffer, io.LimitReader(response.Body, int64(keep)+1))
	if err == nil && n > int64(keep) {
		_, err = io.CopyN(io.Discard, response.Body, maxDrain-n)
		if err == io.EOF { //nolint:errorlint // CopyN returns it bare: the body ended, the connection can be used again
			err = nil
		}
	}

	excerpt = buffer.Bytes()
	for _, secret := range secrets {
		excerpt = bytes.ReplaceAll(excerpt, []byte(secret), []byte("[redacted]"))
	}
	if n > int64(keep) {
		excerpt = excerpt[:len(excerpt)-min(longest, len(excerpt))] // where the buffer ends, half a secret may stand
	}
	truncated = err != nil || n > int64(keep) || len(excerpt) > s.maxResponse
	if len(excerpt) > s.maxResponse {
		excerpt = excerpt[:s.maxResponse:s.maxResponse]
	}

	return excerpt, truncated
}

// secretsIn returns the values of custom headers, whole and without a leading scheme such as "Bearer": receivers that
// echo a request in their response would otherwise put credentials into the attempt log. Very short values are left:
// they would match everywhere.
func secretsIn(headers map[string]string) []string {
	const shortest = 6

	var secrets []string
	for _, value := range headers {
		if len(value) >= shortest {
			secrets = append(secrets, value)
		}
		if _, credential, ok := strings.Cut(value, " "); ok && len(credential) >= shortest {
			secrets = append(secrets, credential)
		}
	}

	return secrets
}

// redactLocation returns where a redirect points without userinfo, query and fragment, or "" when it cannot be read.
func redactLocation(location string) string {
	u, err := url.Parse(location)
	if err != nil {
		return ""
	}
	u.User, u.RawQuery, u.ForceQuery, u.Fragment, u.RawFragment = nil, "", false, "", ""

	return printable(u.String(), maxLocation)
}
