// Package httpclient makes every HTTP client of this module, so that every request goes
// only to the address that it was made for.
package httpclient

import "net/http"

// maxHeader bounds the header of an answer, also of a proxy's answer to CONNECT.
const maxHeader = 1 << 20

// New returns a client that does not follow redirects: it returns them as answers. The
// client shares no connection with others.
func New(configure func(*http.Transport)) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxResponseHeaderBytes = maxHeader
	configure(transport)
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
