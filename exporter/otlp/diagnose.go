package otlp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spantee/spantee/exporter"
)

// A Check is the result of one diagnostic step.
type Check struct {
	Name   string
	Result string // if it succeeded, or what to know about it
	Took   time.Duration
	Err    error // may wrap an *exporter.Error
}

// Diagnose checks the path to a collector step by step: the name, the connection,
// TLS, and finally the delivery of request, an encoded ExportTraceServiceRequest. Only
// the last check decides: the others may fail behind a proxy.
func (s *Settings) Diagnose(ctx context.Context, request []byte) iter.Seq[Check] {
	return func(yield func(Check) bool) {
		if hint := s.portHint(); hint != "" && !yield(Check{Name: "port", Result: hint}) {
			return
		}
		for _, check := range s.checks() {
			began := time.Now()
			result, err := check.do(ctx)
			if !yield(Check{check.name, result, time.Since(began), err}) {
				return
			}
			if err != nil {
				break
			}
		}
		began := time.Now()
		err := s.deliver(ctx, request)
		yield(Check{"span", "delivered", time.Since(began), err})
	}
}

// portHint returns a hint if the port is the default of the other protocol.
func (s *Settings) portHint() string {
	switch {
	case s.protocol == "grpc" && s.endpoint.Port() == "4318":
		return "4318 is usually the HTTP port, but the protocol is grpc"
	case s.protocol != "grpc" && s.endpoint.Port() == "4317":
		return "4317 is usually the gRPC port, but the protocol is " + s.protocol
	}
	return ""
}

type check struct {
	name string
	do   func(context.Context) (string, error)
}

func (s *Settings) checks() []check {
	network, host := "tcp", s.address()
	if s.endpoint.Scheme == "unix" {
		network, host = "unix", s.endpoint.Opaque+s.endpoint.Path
	}
	connect := check{"connection", func(ctx context.Context) (string, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, host)
		if err != nil {
			return "", s.explain(err)
		}
		defer conn.Close() //nolint:errcheck // nothing is lost by it
		return "to " + conn.RemoteAddr().String(), nil
	}}
	if network == "unix" {
		return []check{connect}
	}
	resolve := check{"name", func(ctx context.Context) (string, error) {
		name, _, _ := net.SplitHostPort(host)
		addresses, err := net.DefaultResolver.LookupHost(ctx, name)
		if err != nil {
			return "", s.explain(err)
		}
		return name + " is " + strings.Join(addresses, ", "), nil
	}}
	handshake := check{"TLS", func(ctx context.Context) (string, error) {
		cfg := s.tls.Clone()
		cfg.NextProtos = []string{"h2", "http/1.1"}
		conn, err := (&tls.Dialer{Config: cfg}).DialContext(ctx, network, host)
		if err != nil {
			return "", s.explain(err)
		}
		defer conn.Close() //nolint:errcheck // nothing is lost by it
		state := conn.(*tls.Conn).ConnectionState()
		cert := state.PeerCertificates[0]
		return fmt.Sprintf("%s, certificate of %s by %s, valid until %s", tls.VersionName(state.Version),
			nameOf(cert.DNSNames, cert.Subject.CommonName), cert.Issuer.CommonName, cert.NotAfter.Format(time.DateOnly)), nil
	}}
	switch proxy := s.proxy(); {
	case proxy != nil: // the proxy connects to the endpoint
		connect.name = "connection to the proxy"
		return []check{resolve, connect}
	case s.tls != nil:
		return []check{resolve, connect, handshake}
	default:
		return []check{resolve, connect}
	}
}

// address is the host and port to connect to.
func (s *Settings) address() string {
	u := s.endpoint
	if proxy := s.proxy(); proxy != nil {
		u = proxy
	}
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// proxy returns the proxy set by $HTTPS_PROXY and the like, nil if there is none.
func (s *Settings) proxy() *url.URL {
	u := *s.endpoint
	if s.protocol == "grpc" {
		u.Scheme = "https" // gRPC looks at no other variable
	}
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: &u})
	if err != nil {
		return nil
	}
	return proxy
}

// explain returns an error as the clients would report it.
func (s *Settings) explain(err error) error {
	if signed := readSigns(err.Error(), s.shown()); signed != nil {
		return signed
	}
	return err
}

func nameOf(names []string, otherwise string) string {
	if len(names) > 0 {
		return names[0]
	}
	return otherwise
}

// deliver makes one attempt.
func (s *Settings) deliver(ctx context.Context, request []byte) error {
	c := s.Client()
	if err := c.Start(ctx); err != nil {
		return err
	}
	err := c.UploadTraces(ctx, request)
	_ = c.Stop(ctx)
	if e, ok := errors.AsType[*exporter.UploadError](err); ok && e.Verdict == exporter.Partial && e.Rejected <= 0 {
		return nil // accepted, with a warning
	}
	return err
}
