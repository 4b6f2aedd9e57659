package otlp

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"net"
	"net/http"
	"net/url"
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
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, &statusError{code: resp.StatusCode}
	}
	return &tunnel{conn, r}, nil
}

// A tunnel is a connection through a proxy. The reader may hold what the receiver has
// sent right after the proxy's answer.
type tunnel struct {
	net.Conn
	r *bufio.Reader
}

func (t *tunnel) Read(p []byte) (int, error) { return t.r.Read(p) }
