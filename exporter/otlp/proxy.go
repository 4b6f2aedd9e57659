package otlp

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"net"
	"net/http"
	"net/url"

	"github.com/spantee/spantee/exporter"
)

// openTunnel makes a proxy pass everything on to address.
func openTunnel(ctx context.Context, conn net.Conn, proxy *url.URL, address string) (net.Conn, error) {
	if proxy.Scheme == "https" {
		secure := tls.Client(conn, &tls.Config{ServerName: proxy.Hostname()})
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, err
		}
		conn = secure
	}
	connect := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{"User-Agent": {exporterAgent}}}
	if u := proxy.User; u != nil {
		password, _ := u.Password()
		connect.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+password)))
	}
	if err := connect.Write(conn); err != nil {
		return nil, err
	}
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, connect) //nolint:bodyclose // the answer to CONNECT has no body
	for err == nil && resp.StatusCode/100 == 1 {
		resp, err = http.ReadResponse(r, connect) //nolint:bodyclose // the same
	}
	switch {
	case err != nil:
		return nil, uploadError(exporter.Retryable, "the proxy does not answer as a proxy: "+oneLine(err.Error()), "")
	case resp.StatusCode/100 == 2:
		return &tunnel{conn, r}, nil
	case resp.StatusCode == http.StatusProxyAuthRequired:
		return nil, uploadError(exporter.Misconfigured, "the proxy answers "+resp.Status, hintProxy)
	case resp.StatusCode == http.StatusForbidden:
		return nil, uploadError(exporter.Misconfigured, "the proxy answers "+resp.Status, "")
	}
	return nil, uploadError(exporter.Retryable, "the proxy answers "+oneLine(resp.Status), "")
}

// A tunnel is a connection through a proxy. The reader may hold what the receiver has
// sent right after the proxy's answer.
type tunnel struct {
	net.Conn
	r *bufio.Reader
}

func (t *tunnel) Read(p []byte) (int, error) { return t.r.Read(p) }
