package otlp

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

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/internal/httpclient"
)

const (
	hintTLS               = "try https://"
	hintPlain             = "try http://"
	hintHTTP              = "4318 is the HTTP port: use 4317, or set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"
	hintGRPC              = "4317 is the gRPC port: use 4318, or set OTEL_EXPORTER_OTLP_PROTOCOL=grpc"
	hintLangfuse          = "Langfuse takes no gRPC: set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"
	hintClientCertificate = "set OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY"
	hintProxy             = "check the user and password in $HTTPS_PROXY or $HTTP_PROXY"
)

// hintAddress returns the hint for a server that is no OTLP receiver.
func (s *Settings) hintAddress() string {
	if s.isLangfuse() {
		return hintLangfuse
	}
	return fmt.Sprintf("is %s the right address?", s.shown())
}

// isLangfuse reports whether gRPC is set for Langfuse.
func (s *Settings) isLangfuse() bool {
	return s.protocol == "grpc" && strings.Contains(s.endpoint.Hostname(), "langfuse")
}

// A step is a part of the path to a receiver.
type step struct {
	name string
	do   func(context.Context) (result string, failed *exporter.UploadError)
}

// steps returns the steps up to a receiver or, if there is one, a proxy.
func (s *Settings) steps() []step {
	network, address := s.target()
	proxy := s.proxy()
	if proxy != nil {
		address = hostPort(proxy)
	}
	resolve := step{"name", func(ctx context.Context) (string, *exporter.UploadError) {
		name, _, _ := net.SplitHostPort(address)
		addresses, err := net.DefaultResolver.LookupHost(ctx, name)
		if err != nil {
			return "", s.unreachable(err, proxy)
		}
		return name + " is " + strings.Join(addresses, ", "), nil
	}}
	connect := step{"connection", func(ctx context.Context) (string, *exporter.UploadError) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return "", s.unreachable(err, proxy)
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
	case proxy != nil && s.protocol == "grpc" && proxy.Scheme != "http":
		return []step{{"proxy", func(context.Context) (string, *exporter.UploadError) {
			return "", uploadError(exporter.Misconfigured, fmt.Sprintf("a %s:// proxy is not supported over gRPC", proxy.Scheme), "use an http:// proxy, or OTLP over HTTP")
		}}}
	case proxy != nil && s.protocol == "grpc":
		return []step{resolve, connect, {"tunnel", s.askProxy}}
	case proxy == nil && s.endpoint.Scheme == "https":
		return []step{resolve, connect, {"TLS", s.handshake}}
	}
	return []step{resolve, connect}
}

// probe returns why a receiver cannot be reached, nil if it can. The error of a request
// does not say why: gRPC's errors are texts, and a server of another protocol just hangs up.
func (s *Settings) probe(ctx context.Context) *exporter.UploadError {
	for _, step := range s.steps() {
		if _, failed := step.do(ctx); failed != nil {
			return failed
		}
	}
	if s.endpoint.Scheme != "https" && s.proxy() == nil {
		return s.greet(ctx)
	}
	return nil
}

// explain returns the error for a request that was not answered because of err.
func (s *Settings) explain(ctx context.Context, err error) *exporter.UploadError {
	if e, ok := errors.AsType[*exporter.UploadError](err); ok { // of a proxy
		return e
	}
	failed := s.probe(ctx)
	switch {
	case ctx.Err() != nil:
		return &exporter.UploadError{Verdict: exporter.Retryable, Err: errTimeout}
	case failed != nil:
		return failed
	}
	if e, ok := errors.AsType[grpcError](err); ok {
		return uploadError(exporter.Retryable, oneLine(e.GRPCStatus().Message()), "")
	}
	return uploadError(exporter.Retryable, oneLine(err.Error()), "")
}

// unreachable returns what an error of connecting means.
func (s *Settings) unreachable(err error, proxy *url.URL) *exporter.UploadError {
	at, nobody := s.shown(), "nothing listens on %s"
	if proxy != nil {
		at, nobody = Shown(proxy.String()), "nothing listens on %s, the proxy of $HTTPS_PROXY or $HTTP_PROXY"
	} else if ip := net.ParseIP(s.endpoint.Hostname()); s.endpoint.Hostname() == "localhost" || ip.IsLoopback() {
		nobody += `; try "spantee view"`
	}
	where := fmt.Sprintf("is %s the right address?", at)
	timeout, _ := errors.AsType[net.Error](err)
	name, _ := errors.AsType[*net.DNSError](err)
	call, _ := errors.AsType[*os.SyscallError](err)
	switch {
	case timeout != nil && timeout.Timeout():
		return &exporter.UploadError{Verdict: exporter.Retryable, Err: errTimeout}
	case name != nil && name.IsNotFound:
		return uploadError(exporter.Unreachable, "no such host", where)
	case errors.Is(err, fs.ErrNotExist):
		return uploadError(exporter.Unreachable, "no such socket", fmt.Sprintf(nobody, at))
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH), call == nil:
		return uploadError(exporter.Unreachable, oneLine(err.Error()), where)
	}
	return uploadError(exporter.Unreachable, oneLine(call.Err.Error()), fmt.Sprintf(nobody, at)) // connection refused
}

// handshake makes a TLS connection.
func (s *Settings) handshake(ctx context.Context) (string, *exporter.UploadError) {
	cfg, err := s.tls.load()
	if err != nil {
		return "", uploadError(exporter.Misconfigured, oneLine(err.Error()), "")
	}
	cfg.NextProtos = []string{"h2"}
	if s.protocol != "grpc" {
		cfg.NextProtos = append(cfg.NextProtos, "http/1.1")
	}
	conn, err := (&tls.Dialer{Config: cfg}).DialContext(ctx, "tcp", hostPort(s.endpoint))
	if _, plain := errors.AsType[tls.RecordHeaderError](err); plain {
		return "", uploadError(exporter.Unreachable, "the server does not speak TLS", hintPlain)
	}
	if name, ok := errors.AsType[x509.HostnameError](err); ok { // whatever authority signed it
		return "", uploadError(exporter.Unreachable, oneLine(name.Error()), "use a name of the certificate in the endpoint")
	}
	if bad, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "", uploadError(exporter.Unreachable, oneLine(bad.Err.Error()), "set OTEL_EXPORTER_OTLP_CERTIFICATE to its CA certificate")
	}
	if err != nil {
		return "", uploadError(exporter.Unreachable, oneLine(err.Error()), s.hintAddress())
	}
	defer conn.Close() //nolint:errcheck // nothing is lost by it
	state := conn.(*tls.Conn).ConnectionState()
	if s.protocol == "grpc" && state.NegotiatedProtocol != "h2" {
		return "", uploadError(exporter.Unreachable, "the server does not speak gRPC", s.hintAddress())
	}
	if state.NegotiatedProtocol == "h2" { // the server speaks next, also if it wants a certificate
		if deadline, ok := ctx.Deadline(); ok {
			_ = conn.SetReadDeadline(deadline) // the connection is open
		}
		_, err := conn.Read(make([]byte, 1))
		if alert, ok := errors.AsType[*net.OpError](err); ok && alert.Op == "remote error" {
			return "", uploadError(exporter.Unreachable, "the server refuses the client: "+oneLine(alert.Err.Error()), hintClientCertificate)
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
func (s *Settings) greet(ctx context.Context) *exporter.UploadError {
	network, address := s.target()
	ctx, cancel := context.WithTimeout(ctx, greetTimeout)
	defer cancel()
	// Nothing is sent over this connection, so nobody needs to be trusted.
	conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, ServerName: "localhost"}}).DialContext(ctx, network, address)
	if err == nil {
		_ = conn.Close()
		return uploadError(exporter.Unreachable, "the server wants TLS", hintTLS)
	}
	if remote, ok := errors.AsType[*net.OpError](err); ok && remote.Op == "remote error" { // an alert of TLS
		return uploadError(exporter.Unreachable, "the server wants TLS", hintTLS)
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
	case s.protocol == "grpc" && speaksHTTP:
		return uploadError(exporter.Unreachable, "the server speaks HTTP, not gRPC", hintHTTP)
	case s.protocol == "grpc" && !speaksGRPC:
		return uploadError(exporter.Unreachable, "the server does not speak gRPC", s.hintAddress())
	case s.protocol != "grpc" && speaksGRPC:
		return uploadError(exporter.Unreachable, "the server speaks gRPC, not HTTP", hintGRPC)
	}
	return nil
}

// greetTimeout is how long a server may take to show its protocol.
const greetTimeout = 500 * time.Millisecond

// target returns the network and the address of the receiver.
func (s *Settings) target() (network, address string) {
	if s.endpoint.Scheme == "unix" {
		return "unix", s.endpoint.Opaque + s.endpoint.Path
	}
	return "tcp", hostPort(s.endpoint)
}

func hostPort(u *url.URL) string {
	port := cmp.Or(u.Port(), "80")
	if u.Port() == "" && u.Scheme == "https" {
		port = "443"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// proxy returns the proxy set by $HTTPS_PROXY and the like, nil if there is none.
func (s *Settings) proxy() *url.URL {
	if s.endpoint.Scheme == "unix" {
		return nil
	}
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

// askProxy asks the proxy for a tunnel to the receiver, as gRPC does.
func (s *Settings) askProxy(ctx context.Context) (string, *exporter.UploadError) {
	errOpen := errors.New("the tunnel is open")
	client := httpclient.New(func(t *http.Transport) {
		t.OnProxyConnectResponse = func(ctx context.Context, proxy *url.URL, request *http.Request, response *http.Response) error {
			if err := checkProxy(ctx, proxy, request, response); err != nil {
				return err
			}
			return errOpen
		}
	})
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, "https://"+hostPort(s.endpoint), nil)
	if err != nil {
		return "", uploadError(exporter.Misconfigured, oneLine(err.Error()), "")
	}
	_, err = client.Do(request) //nolint:bodyclose // there is never a response
	failed, answered := errors.AsType[*exporter.UploadError](err)
	switch {
	case errors.Is(err, errOpen):
		return "open", nil
	case answered:
		return "", failed
	case ctx.Err() != nil:
		return "", uploadError(exporter.Retryable, "the proxy did not answer in time", "")
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	return "", uploadError(exporter.Retryable, "the proxy does not answer as a proxy: "+oneLine(err.Error()), "")
}

// checkProxy returns an UploadError if a proxy has refused a tunnel.
func checkProxy(_ context.Context, _ *url.URL, _ *http.Request, response *http.Response) error {
	failed := "the proxy answers " + oneLine(response.Status)
	switch response.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusProxyAuthRequired:
		return uploadError(exporter.Misconfigured, failed, hintProxy)
	case http.StatusForbidden:
		return uploadError(exporter.Misconfigured, failed, "")
	}
	return uploadError(exporter.Retryable, failed, "")
}

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
		for _, step := range s.steps() {
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
		c := s.Client()
		err := c.UploadTraces(ctx, request)
		_ = c.Stop(ctx)
		if e, ok := errors.AsType[*exporter.UploadError](err); ok && e.Verdict == exporter.Partial && e.Rejected <= 0 {
			err = nil // accepted, with a warning
		}
		yield(Check{"span", "delivered", time.Since(began), err})
	}
}

// portHint returns a hint if the endpoint looks like one of the other protocol.
func (s *Settings) portHint() string {
	switch {
	case s.isLangfuse():
		return hintLangfuse
	case s.protocol == "grpc" && s.endpoint.Port() == "4318":
		return "4318 is usually the HTTP port, but the protocol is grpc"
	case s.protocol != "grpc" && s.endpoint.Port() == "4317":
		return "4317 is usually the gRPC port, but the protocol is " + s.protocol
	}
	return ""
}
