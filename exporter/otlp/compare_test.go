package otlp

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc/credentials"

	"github.com/spantee/spantee/exporter"
)

// A hostile server is anything at the other end of a connection. Whatever it does, this
// package's client must not be worse than the client it is made of.
type hostile struct {
	name     string
	protocol string
	serve    func(*peer) // returns when the connection is to be closed
	tls      *tls.Config // nil for a server without TLS
	plain    bool        // the client expects no TLS although the server has it, or the other way round
	big      bool        // it sends as much as it can: memory is measured
	success  bool        // by the specification it has accepted the request, whatever OpenTelemetry's client makes of it
	refused  string      // why our client takes no such answer for a delivery, or does not repeat the request, on purpose
}

// A tally is what a server saw.
type tally struct {
	once     bool         // only the first request, or connection, meets with hostility
	turns    atomic.Int32 // of hostility
	received atomic.Int32 // requests that were read whole
	wrote    atomic.Int64 // bytes that a client took
}

// isHostile reports whether it is time to be hostile.
func (t *tally) isHostile() bool { return t.turns.Add(1) == 1 || !t.once }

// A peer is a server's end of a connection.
type peer struct {
	net.Conn
	in *bufio.Reader
	*tally
}

func (p *peer) Write(b []byte) (int, error) {
	n, err := p.Conn.Write(b)
	p.wrote.Add(int64(n))
	return n, err
}

// drain reads until the client closes the connection.
func (p *peer) drain() {
	for {
		if _, err := p.in.Discard(4 << 10); err != nil {
			return
		}
	}
}

// start runs the server until stop is called.
func (h *hostile) start(t *testing.T, saw *tally) (address string, stop func()) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
			serving.Go(func() {
				defer conn.Close()
				served := conn
				if h.tls != nil {
					served = tls.Server(conn, h.tls)
				}
				h.serve(&peer{served, bufio.NewReader(served), saw})
			})
		}
	})
	return l.Addr().String(), func() {
		l.Close()
		mu.Lock()
		for _, conn := range open {
			conn.Close()
		}
		open = nil
		mu.Unlock()
		serving.Wait()
	}
}

// An outcome is what a client made of a server.
type outcome struct {
	delivered bool // as the client says
	err       error
	received  int32 // requests that the server has read whole
	wrote     int64
	late      bool // beyond its timeout
}

func (o outcome) String() string {
	return fmt.Sprintf("delivered %t, received %d, late %t, %d bytes taken, error %v", o.delivered, o.received, o.late, o.wrote, o.err)
}

// A sender makes requests to an address until one is delivered, or no other could be.
type sender func(ctx context.Context, h *hostile, address string) (delivered bool, err error)

// meet has a client send spans to a server.
func (h *hostile) meet(t *testing.T, once bool, timeout time.Duration, send sender) (o outcome) {
	t.Helper()
	saw := &tally{once: once}
	address, stop := h.start(t, saw)
	defer stop()
	defer time.AfterFunc(timeout+tooLate, stop).Stop() // or a client may hang for ever
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	began := time.Now()
	o.delivered, o.err = send(ctx, h, address)
	o.late = time.Since(began) > timeout+tooLate
	o.received, o.wrote = saw.received.Load(), saw.wrote.Load()
	return o
}

// tooLate is far beyond what a busy machine costs.
const tooLate = 5 * time.Second

func (h *hostile) url(address string) string {
	if (h.tls != nil) != h.plain {
		return "https://" + address
	}
	return "http://" + address
}

const retryInterval = 100 * time.Millisecond

// sendPlain is what a program does that uses OpenTelemetry's client, and retries soon.
func sendPlain(ctx context.Context, h *hostile, address string) (bool, error) {
	var client tracesClient
	deadline, _ := ctx.Deadline()
	trusted := &tls.Config{RootCAs: x509.NewCertPool()}
	trusted.RootCAs.AddCert(authority.Leaf)
	if h.protocol == "grpc" {
		client = otlptracegrpc.NewClient(otlptracegrpc.WithEndpointURL(h.url(address)), otlptracegrpc.WithTimeout(time.Until(deadline)),
			otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{Enabled: true, InitialInterval: retryInterval, MaxInterval: time.Second}),
			otlptracegrpc.WithTLSCredentials(credentials.NewTLS(trusted)))
		if strings.HasPrefix(h.url(address), "http:") {
			client = otlptracegrpc.NewClient(otlptracegrpc.WithEndpointURL(h.url(address)), otlptracegrpc.WithTimeout(time.Until(deadline)),
				otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{Enabled: true, InitialInterval: retryInterval, MaxInterval: time.Second}))
		}
	} else {
		options := []otlptracehttp.Option{
			otlptracehttp.WithEndpointURL(h.url(address) + "/v1/traces"), otlptracehttp.WithTimeout(time.Until(deadline)),
			otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: retryInterval, MaxInterval: time.Second}),
		}
		if strings.HasPrefix(h.url(address), "https:") {
			options = append(options, otlptracehttp.WithTLSClientConfig(trusted))
		}
		client = otlptracehttp.NewClient(options...)
	}
	if err := client.Start(ctx); err != nil {
		return false, err
	}
	defer client.Stop(context.WithoutCancel(ctx))
	err := client.UploadTraces(ctx, someSpans())
	// A partial success has no type, and stands before the error of a request.
	return err == nil || strings.HasPrefix(err.Error(), "OTLP partial success: ") && !strings.Contains(err.Error(), "\n"), err
}

func someSpans() []*tracepb.ResourceSpans {
	return []*tracepb.ResourceSpans{{ScopeSpans: []*tracepb.ScopeSpans{{Spans: testSpans()}}}}
}

// client returns this package's client for a server.
func (h *hostile) client(address string) (exporter.Client, error) {
	cfg := Config{Protocol: h.protocol, Endpoint: h.url(address)}
	if strings.HasPrefix(cfg.Endpoint, "https:") {
		cfg.CACert = authorityFile
	}
	return New(cfg)
}

// sendOurs does what an Exporter does with this package's client, but for the spool.
func sendOurs(ctx context.Context, h *hostile, address string) (bool, error) {
	client, err := h.client(address)
	if err != nil {
		return false, err
	}
	defer client.Stop(context.WithoutCancel(ctx))
	return deliver(ctx, client, encodeRequest(someSpans()...))
}

// deliver repeats a request while it makes sense.
func deliver(ctx context.Context, client exporter.Client, request []byte) (bool, error) {
	for backoff := retryInterval; ; backoff *= 2 {
		err := client.UploadTraces(ctx, request)
		failed, ok := errors.AsType[*exporter.UploadError](err)
		switch {
		case err == nil:
			return true, nil
		case !ok:
			return false, fmt.Errorf("%w is no UploadError", err)
		case failed.Verdict == exporter.Partial:
			return true, err
		case failed.RetryAfter < 0:
			return false, fmt.Errorf("%w: retry after %v", err, failed.RetryAfter)
		case failed.Verdict != exporter.Retryable && failed.Verdict != exporter.Unreachable:
			return false, err
		}
		select {
		case <-time.After(max(backoff, failed.RetryAfter)):
		case <-ctx.Done():
			return false, err
		}
	}
}

// worse returns in what our client is worse, if it is.
func (h *hostile) worse(once bool, ours, plain outcome) string {
	switch {
	case plain.delivered && !ours.delivered && h.refused == "":
		return "lost"
	case plain.delivered && plain.received <= 1 && ours.received > 1:
		return "sent twice"
	case !once && ours.delivered && !plain.delivered && !h.success:
		return "delivered, it says"
	case ours.late:
		return "late"
	case ours.wrote/int64(max(ours.received, 1)) > maxTaken && ours.wrote > plain.wrote: // ours may ask again
		return "reads without end"
	}
	return ""
}

const maxTaken = 32 << 20 // most of which may be in the system's buffers

// TestNeverWorse runs this package's client side by side with OpenTelemetry's. Each server
// is hostile for good, and, in another run, to the first request only. Only
// SPANTEE_THOROUGH=1 tries all servers.
func TestNeverWorse(t *testing.T) {
	ignored := goleak.IgnoreCurrent()
	defer log.SetOutput(log.Writer())
	log.SetOutput(io.Discard) // net/http reports answers that nobody asked for
	servers := hostileServers()
	if len(servers) < 129 {
		t.Errorf("%d servers, want at least 129", len(servers))
	}
	var runs []run
	for i, h := range servers {
		if i > 0 && servers[i-1].protocol == h.protocol && servers[i-1].name == h.name {
			t.Errorf("two servers are called %s", h.name)
		}
		if os.Getenv("SPANTEE_THOROUGH") == "1" || i%8 == 0 {
			runs = append(runs, run{h, false}, run{h, true})
		}
	}
	// A busy machine makes either client late, so suspects get more time, and company of
	// fewer others.
	suspects := compare(t, runs, 128, time.Second)
	suspects = compare(t, suspects, 4, 3*time.Second)
	for _, r := range suspects {
		if why := r.compare(t, 15*time.Second); why != "" {
			t.Fatal(why)
		}
	}
	goleak.VerifyNone(t, ignored)
}

// A run is a server's meeting with either client.
type run struct {
	server *hostile
	once   bool
}

// compare returns why this package's client is worse, empty if it is not.
func (r run) compare(t *testing.T, timeout time.Duration) string {
	t.Helper()
	ours, plain := r.server.meet(t, r.once, timeout, sendOurs), r.server.meet(t, r.once, timeout, sendPlain)
	why := r.server.worse(r.once, ours, plain)
	if why == "" {
		return ""
	}
	return fmt.Sprintf("%s, %s, once %t: %s\n\tours  %v\n\tplain %v", r.server.protocol, r.server.name, r.once, why, ours, plain)
}

// compare returns the runs in which this package's client is worse.
func compare(t *testing.T, runs []run, atATime int, timeout time.Duration) (suspects []run) {
	t.Helper()
	var mu sync.Mutex
	each(atATime, runs, func(r run) {
		if why := r.compare(t, timeout); why != "" {
			mu.Lock()
			defer mu.Unlock()
			suspects = append(suspects, r)
			t.Logf("in %v: %s", timeout, why)
		}
	})
	return suspects
}

// each calls do with every element, so many at a time.
func each[E any](atATime int, list []E, do func(E)) {
	var running sync.WaitGroup
	turns := make(chan struct{}, atATime)
	for _, e := range list {
		turns <- struct{}{}
		running.Go(func() { do(e); <-turns })
	}
	running.Wait()
}

// TestHostileMemory meets servers that send as much as they can, one after the other.
func TestHostileMemory(t *testing.T) {
	const limit = 64 << 20
	once := func(ctx context.Context, h *hostile, address string) (bool, error) {
		client, err := h.client(address)
		if err != nil {
			return false, err
		}
		defer client.Stop(context.WithoutCancel(ctx))
		err = client.UploadTraces(ctx, encodeRequest(someSpans()...))
		return err == nil, err
	}
	for _, h := range hostileServers() {
		if !h.big {
			continue
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := h.meet(t, false, 500*time.Millisecond, once)
		runtime.ReadMemStats(&after)
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > limit || got.late { // the server's memory is in it, too
			t.Errorf("%s, %s: %d MB, %v", h.protocol, h.name, allocated>>20, got)
		}
	}
}

// hostileServers are all servers.
func hostileServers() (all []*hostile) {
	for _, rows := range [][]hostile{grpcServers(), httpServers(), tlsServers(), otherServers()} {
		for _, row := range rows {
			all = append(all, &row)
		}
	}
	slices.SortFunc(all, func(a, b *hostile) int {
		return cmp.Or(cmp.Compare(a.protocol, b.protocol), cmp.Compare(a.name, b.name))
	})
	return all
}
