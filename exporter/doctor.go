package exporter

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

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// A Check is one thing that has to work for spans to arrive.
type Check struct {
	Name   string
	Result string // if it went well, or what to know of it
	Took   time.Duration
	Err    error // which may be an *Error
}

// Diagnose checks the way to a collector, step by step: the name, the
// connection, TLS, and then a span. Only the last decides: the others may fail
// where a proxy stands between.
func Diagnose(ctx context.Context, cfg OTLP, span *tracepb.Span, resource *resourcepb.Resource) iter.Seq[Check] {
	return func(yield func(Check) bool) {
		s, err := cfg.settings()
		if err != nil {
			yield(Check{Name: "span", Err: err})
			return
		}
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
		err = deliverOne(ctx, s.client(), span, resource)
		yield(Check{"span", "delivered", time.Since(began), err})
	}
}

// portHint tells of a port that is known for the other protocol.
func (s *settings) portHint() string {
	switch {
	case s.protocol == "grpc" && s.endpoint.Port() == "4318":
		return "4318 is usually the HTTP port, and the protocol is grpc"
	case s.protocol != "grpc" && s.endpoint.Port() == "4317":
		return "4317 is usually the gRPC port, and the protocol is " + s.protocol
	}
	return ""
}

type check struct {
	name string
	do   func(context.Context) (string, error)
}

func (s *settings) checks() []check {
	network, host := "tcp", s.address()
	if s.endpoint.Scheme == "unix" {
		network, host = "unix", s.endpoint.Opaque+s.endpoint.Path
	}
	connect := check{"connection", func(ctx context.Context) (string, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, host)
		if err != nil {
			return "", s.explain(err)
		}
		defer conn.Close()
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
		defer conn.Close()
		state := conn.(*tls.Conn).ConnectionState()
		cert := state.PeerCertificates[0]
		return fmt.Sprintf("%s, certificate of %s by %s, valid until %s", tls.VersionName(state.Version),
			nameOf(cert.DNSNames, cert.Subject.CommonName), cert.Issuer.CommonName, cert.NotAfter.Format(time.DateOnly)), nil
	}}
	switch proxy := s.proxy(); {
	case proxy != nil: // it has the rest to do
		connect.name = "connection to the proxy"
		return []check{resolve, connect}
	case s.tls != nil:
		return []check{resolve, connect, handshake}
	default:
		return []check{resolve, connect}
	}
}

// address is the host and port to connect to.
func (s *settings) address() string {
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

// proxy is the one that $HTTPS_PROXY and its like ask for, nil for none.
func (s *settings) proxy() *url.URL {
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

// explain makes of an error what the clients make of it.
func (s *settings) explain(err error) error {
	if f := readSigns(err.Error(), s.endpoint.Redacted()); f != nil {
		return &Error{f.cause, f.hint}
	}
	return err
}

func nameOf(names []string, otherwise string) string {
	if len(names) > 0 {
		return names[0]
	}
	return otherwise
}

func deliverOne(ctx context.Context, client Client, span *tracepb.Span, resource *resourcepb.Resource) error {
	wire, err := encode(span)
	if err != nil {
		return err
	}
	if f := attempt(ctx, client.Start); f != nil {
		return hinted(f)
	}
	out := send(ctx, client, request{resource: resource, scope: new(commonpb.InstrumentationScope), spans: [][]byte{wire}})
	_ = attempt(ctx, client.Stop)
	switch {
	case out.delivered == 1:
		return nil
	case out.why == nil:
		return errors.New("it was not taken")
	}
	return hinted(out.why)
}
