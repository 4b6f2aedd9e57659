package otlp

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// A dialledAhead is a transport that makes its first connection before the first
// request comes. net/http dials only for a request, and the first one of a short
// session is also its last, which everybody waits for. Once that connection takes no
// more requests, the Transport makes others.
type dialledAhead struct {
	*http.Transport

	stop context.CancelFunc // ends dialling
	done chan struct{}      // closed when dialling has ended
	conn *http.ClientConn   // nil if dialling has failed; set before done is closed
}

// dialAhead begins to connect to the host of a URL.
func dialAhead(t *http.Transport, to *url.URL) *dialledAhead {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	d := &dialledAhead{Transport: t, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(d.done)
		defer cancel()
		d.conn, _ = t.NewClientConn(ctx, to.Scheme, net.JoinHostPort(to.Hostname(), to.Port())) // the first request meets the same error
	}()
	return d
}

// RoundTrip implements [http.RoundTripper].
func (d *dialledAhead) RoundTrip(req *http.Request) (*http.Response, error) {
	if !d.reserve(req.Context()) {
		return d.Transport.RoundTrip(req)
	}
	resp, err := d.conn.RoundTrip(req)
	if err == nil || req.GetBody == nil || !isUnprocessed(err) {
		return resp, err
	}
	again := *req
	if again.Body, err = req.GetBody(); err != nil {
		return nil, err
	}
	return d.Transport.RoundTrip(&again)
}

// isUnprocessed reports whether an error says that the server has not processed the
// request. A Transport sends such a request again by itself, a ClientConn does not.
func isUnprocessed(err error) bool {
	for _, text := range []string{"REFUSED_STREAM", "graceful shutdown GOAWAY", "client conn not usable"} { // net/http exports no values for them
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}

// reserve waits for the first connection, and reports whether it takes a request.
func (d *dialledAhead) reserve(ctx context.Context) bool {
	select {
	case <-d.done:
		return d.conn != nil && d.conn.Reserve() == nil
	case <-ctx.Done():
		return false
	}
}

// end ends dialling.
func (d *dialledAhead) end() {
	d.stop()
	<-d.done
}
