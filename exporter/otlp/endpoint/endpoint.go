// Package endpoint finds out why an OTLP receiver cannot be reached: because of its name, the
// connection, a proxy, TLS or its protocol. The error of a request does not tell: gRPC's is a
// text, and a server of another protocol just hangs up.
package endpoint

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/internal/httpclient"
)

// An Endpoint is where a receiver is, and the way there.
type Endpoint struct {
	URL      *url.URL
	Protocol string // grpc, http/protobuf or http/json
	TLS      func() (*tls.Config, error)
}

// String returns the endpoint as it may be printed.
func (e *Endpoint) String() string { return Shown(e.URL.String()) }

// A Check is the result of one diagnostic step.
type Check struct {
	Name   string
	Result string // if it succeeded, or what to know about it
	Took   time.Duration
	Err    error // may wrap an *exporter.Error
}

// Diagnose checks the path to a receiver step by step: the name, the connection, TLS, and
// finally whether it accepts what deliver sends. Only the last check decides: the others may
// fail behind a proxy.
func (e *Endpoint) Diagnose(ctx context.Context, deliver func(context.Context) error) iter.Seq[Check] {
	return func(yield func(Check) bool) {
		if hint := e.portHint(); hint != "" && !yield(Check{Name: "port", Result: hint}) {
			return
		}
		for _, step := range e.steps() {
			began := time.Now()
			check := Check{Name: step.name}
			result, failed := step.do(ctx)
			check.Result, check.Took = result, time.Since(began)
			if failed != nil {
				check.Err = failed
			}
			if !yield(check) {
				return
			}
			if failed != nil {
				break
			}
		}
		began := time.Now()
		err := deliver(ctx)
		if failed, ok := errors.AsType[*exporter.UploadError](err); ok && failed.Verdict == exporter.Partial && failed.Rejected <= 0 {
			err = nil // accepted, with a warning
		}
		yield(Check{"span", "delivered", time.Since(began), err})
	}
}

// portHint returns a hint if the endpoint looks like one of the other protocol.
func (e *Endpoint) portHint() string {
	switch {
	case e.isLangfuse():
		return hintLangfuse
	case e.Protocol == "grpc" && e.URL.Port() == "4318":
		return "4318 is usually the HTTP port, but the protocol is grpc"
	case e.Protocol != "grpc" && e.URL.Port() == "4317":
		return "4317 is usually the gRPC port, but the protocol is " + e.Protocol
	}
	return ""
}

// HintAddress returns the hint for a server that is no OTLP receiver.
func (e *Endpoint) HintAddress() string {
	if e.isLangfuse() {
		return hintLangfuse
	}
	return fmt.Sprintf("is %s the right address?", e.String())
}

// isLangfuse reports whether gRPC is set for Langfuse.
func (e *Endpoint) isLangfuse() bool {
	return e.Protocol == "grpc" && strings.Contains(e.URL.Hostname(), "langfuse")
}

// A step is a part of the path to a receiver.
type step struct {
	name string
	do   func(context.Context) (result string, failed *exporter.UploadError)
}

// steps returns the steps up to a receiver or, if there is one, a proxy.
func (e *Endpoint) steps() []step {
	network, address := e.Target()
	proxy := e.Proxy()
	if proxy != nil {
		address = hostPort(proxy)
	}
	resolve := step{"name", func(ctx context.Context) (string, *exporter.UploadError) {
		name, _, _ := net.SplitHostPort(address)
		addresses, err := net.DefaultResolver.LookupHost(ctx, name)
		if err != nil {
			return "", e.unreachable(err, proxy)
		}
		return name + " is " + strings.Join(addresses, ", "), nil
	}}
	connect := step{"connection", func(ctx context.Context) (string, *exporter.UploadError) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return "", e.unreachable(err, proxy)
		}
		defer conn.Close() //nolint:errcheck // nothing is lost by it
		return "to " + conn.RemoteAddr().String(), nil
	}}
	if proxy != nil {
		connect.name = "connection to the proxy"
	}
	switch {
	case network == "unix":
		return []step{connect}
	case proxy != nil && e.Protocol == "grpc" && proxy.Scheme != "http":
		return []step{{"proxy", func(context.Context) (string, *exporter.UploadError) {
			return "", Failure(exporter.Misconfigured, fmt.Sprintf("a %s:// proxy is not supported over gRPC", proxy.Scheme), "use an http:// proxy, or OTLP over HTTP")
		}}}
	case proxy != nil && e.Protocol == "grpc":
		return []step{resolve, connect, {"tunnel", e.askProxy}}
	case proxy == nil && e.URL.Scheme == "https":
		return []step{resolve, connect, {"TLS", e.handshake}}
	}
	return []step{resolve, connect}
}

// Probe returns why a receiver cannot be reached, nil if it can. The error of a request
// does not say why: gRPC's errors are texts, and a server of another protocol just hangs up.
func (e *Endpoint) Probe(ctx context.Context) *exporter.UploadError {
	for _, step := range e.steps() {
		if _, failed := step.do(ctx); failed != nil {
			return failed
		}
	}
	if e.URL.Scheme != "https" && e.Proxy() == nil {
		return e.greet(ctx)
	}
	return nil
}

// unreachable returns what an error of connecting means.
func (e *Endpoint) unreachable(err error, proxy *url.URL) *exporter.UploadError {
	at, nobody := e.String(), "nothing listens on %s"
	if proxy != nil {
		at, nobody = Shown(proxy.String()), "nothing listens on %s, the proxy of $HTTPS_PROXY or $HTTP_PROXY"
	} else if ip := net.ParseIP(e.URL.Hostname()); e.URL.Hostname() == "localhost" || ip.IsLoopback() {
		nobody += `; try "spantee view"`
	}
	where := fmt.Sprintf("is %s the right address?", at)
	timeout, _ := errors.AsType[net.Error](err)
	name, _ := errors.AsType[*net.DNSError](err)
	call, _ := errors.AsType[*os.SyscallError](err)
	switch {
	case timeout != nil && timeout.Timeout():
		return &exporter.UploadError{Verdict: exporter.Retryable, Err: ErrTimeout}
	case name != nil && name.IsNotFound:
		return Failure(exporter.Unreachable, "no such host", where)
	case errors.Is(err, fs.ErrNotExist):
		return Failure(exporter.Unreachable, "no such socket", fmt.Sprintf(nobody, at))
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH), call == nil:
		return Failure(exporter.Unreachable, OneLine(err.Error()), where)
	}
	return Failure(exporter.Unreachable, OneLine(call.Err.Error()), fmt.Sprintf(nobody, at)) // connection refused
}

// handshake makes a TLS connection.
func (e *Endpoint) handshake(ctx context.Context) (string, *exporter.UploadError) {
	cfg, err := e.TLS()
	if err != nil {
		return "", Failure(exporter.Misconfigured, OneLine(err.Error()), "")
	}
	cfg.NextProtos = []string{"h2"}
	if e.Protocol != "grpc" {
		cfg.NextProtos = append(cfg.NextProtos, "http/1.1")
	}
	conn, err := (&tls.Dialer{Config: cfg}).DialContext(ctx, "tcp", hostPort(e.URL))
	if _, plain := errors.AsType[tls.RecordHeaderError](err); plain {
		return "", Failure(exporter.Unreachable, "the server does not speak TLS", hintPlain)
	}
	if name, ok := errors.AsType[x509.HostnameError](err); ok { // whatever authority signed it
		return "", Failure(exporter.Unreachable, OneLine(name.Error()), "use a name of the certificate in the endpoint")
	}
	if bad, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "", Failure(exporter.Unreachable, OneLine(bad.Err.Error()), "set OTEL_EXPORTER_OTLP_CERTIFICATE to its CA certificate")
	}
	if err != nil {
		return "", Failure(exporter.Unreachable, OneLine(err.Error()), e.HintAddress())
	}
	defer conn.Close() //nolint:errcheck // nothing is lost by it
	state := conn.(*tls.Conn).ConnectionState()
	if e.Protocol == "grpc" && state.NegotiatedProtocol != "h2" {
		return "", Failure(exporter.Unreachable, "the server does not speak gRPC", e.HintAddress())
	}
	if state.NegotiatedProtocol == "h2" { // the server speaks next, also if it wants a certificate
		if deadline, ok := ctx.Deadline(); ok {
			_ = conn.SetReadDeadline(deadline) // the connection is open
		}
		_, err := conn.Read(make([]byte, 1))
		if alert, ok := errors.AsType[*net.OpError](err); ok && alert.Op == "remote error" {
			return "", Failure(exporter.Unreachable, "the server refuses the client: "+OneLine(alert.Err.Error()), hintClientCertificate)
		}
	}
	cert := state.PeerCertificates[0]
	name := cert.Subject.CommonName
	if len(cert.DNSNames) > 0 {
		name = cert.DNSNames[0]
	}
	return fmt.Sprintf("%s, certificate of %s by %s, valid until %s", tls.VersionName(state.Version), name, cert.Issuer.CommonName, cert.NotAfter.Format(time.DateOnly)), nil
}

// greet looks at the first bytes of a server that should speak without TLS. Asked
// for TLS, most servers answer in a way that shows their protocol.
func (e *Endpoint) greet(ctx context.Context) *exporter.UploadError {
	network, address := e.Target()
	ctx, cancel := context.WithTimeout(ctx, greetTimeout)
	defer cancel()
	// Nothing is sent over this connection, so nobody needs to be trusted.
	conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, ServerName: "localhost"}}).DialContext(ctx, network, address)
	if err == nil {
		_ = conn.Close()
		return Failure(exporter.Unreachable, "the server wants TLS", hintTLS)
	}
	if remote, ok := errors.AsType[*net.OpError](err); ok && remote.Op == "remote error" { // an alert of TLS
		return Failure(exporter.Unreachable, "the server wants TLS", hintTLS)
	}
	answer, answered := errors.AsType[tls.RecordHeaderError](err)
	if !answered {
		return nil
	}
	const settings, goAway = 4, 7 // types of frames; the type is the fourth byte
	first := answer.RecordHeader
	speaksHTTP := string(first[:]) == "HTTP/"
	speaksGRPC := first[3] == settings || first[3] == goAway
	switch {
	case e.Protocol == "grpc" && speaksHTTP:
		return Failure(exporter.Unreachable, "the server speaks HTTP, not gRPC", hintHTTP)
	case e.Protocol == "grpc" && !speaksGRPC:
		return Failure(exporter.Unreachable, "the server does not speak gRPC", e.HintAddress())
	case e.Protocol != "grpc" && speaksGRPC:
		return Failure(exporter.Unreachable, "the server speaks gRPC, not HTTP", hintGRPC)
	}
	return nil
}

// greetTimeout is how long a server may take to show its protocol.
const greetTimeout = 500 * time.Millisecond

// Target returns the network and the address of the receiver.
func (e *Endpoint) Target() (network, address string) {
	if e.URL.Scheme == "unix" {
		return "unix", e.URL.Opaque + e.URL.Path
	}
	return "tcp", hostPort(e.URL)
}

func hostPort(u *url.URL) string {
	port := cmp.Or(u.Port(), "80")
	if u.Port() == "" && u.Scheme == "https" {
		port = "443"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// Proxy returns the proxy set by $HTTPS_PROXY and the like, nil if there is none.
func (e *Endpoint) Proxy() *url.URL {
	if e.URL.Scheme == "unix" {
		return nil
	}
	u := *e.URL
	if e.Protocol == "grpc" {
		u.Scheme = "https" // gRPC looks at no other variable
	}
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: &u})
	if err != nil {
		return nil
	}
	return proxy
}

// askProxy asks the proxy for a tunnel to the receiver, as gRPC does.
func (e *Endpoint) askProxy(ctx context.Context) (string, *exporter.UploadError) {
	errOpen := errors.New("the tunnel is open")
	client := httpclient.New(func(t *http.Transport) {
		t.OnProxyConnectResponse = func(ctx context.Context, proxy *url.URL, request *http.Request, response *http.Response) error {
			if err := CheckProxy(ctx, proxy, request, response); err != nil {
				return err
			}
			return errOpen
		}
	})
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, "https://"+hostPort(e.URL), nil)
	if err != nil {
		return "", Failure(exporter.Misconfigured, OneLine(err.Error()), "")
	}
	_, err = client.Do(request) //nolint:bodyclose // there is never a response
	failed, answered := errors.AsType[*exporter.UploadError](err)
	switch {
	case errors.Is(err, errOpen):
		return "open", nil
	case answered:
		return "", failed
	case ctx.Err() != nil:
		return "", Failure(exporter.Retryable, "the proxy did not answer in time", "")
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	return "", Failure(exporter.Retryable, "the proxy does not answer as a proxy: "+OneLine(err.Error()), "")
}

// CheckProxy returns an UploadError if a proxy has refused a tunnel.
func CheckProxy(_ context.Context, _ *url.URL, _ *http.Request, response *http.Response) error {
	failed := "the proxy answers " + OneLine(response.Status)
	switch response.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusProxyAuthRequired:
		return Failure(exporter.Misconfigured, failed, HintProxy)
	case http.StatusForbidden:
		return Failure(exporter.Misconfigured, failed, "")
	}
	return Failure(exporter.Retryable, failed, "")
}

// What to try.
const (
	hintTLS               = "try https://"
	hintPlain             = "try http://"
	hintHTTP              = "4318 is the HTTP port: use 4317, or set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"
	hintGRPC              = "4317 is the gRPC port: use 4318, or set OTEL_EXPORTER_OTLP_PROTOCOL=grpc"
	hintLangfuse          = "Langfuse takes no gRPC: set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"
	hintClientCertificate = "set OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY"
	HintProxy             = "check the user and password in $HTTPS_PROXY or $HTTP_PROXY"
)

// ErrTimeout is why a request had no answer.
var ErrTimeout = errors.New("the collector did not answer in time")

// Failure returns an UploadError.
func Failure(v exporter.Verdict, cause, hint string) *exporter.UploadError {
	err := errors.New(cause)
	if hint != "" {
		err = &exporter.Error{Err: err, Hint: hint}
	}
	return &exporter.UploadError{Verdict: v, Err: err}
}

// OneLine makes a server's message safe to print on a terminal.
func OneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 200 {
		s = string(r[:200]) + "..."
	}
	return s
}
