package otlp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/otlp/endpoint"
	"github.com/spantee/spantee/exporter/receiver"
	"github.com/spantee/spantee/exporter/receiver/receivertest"
)

// TestReconnects has a collector that hangs up. Each attempt dials it again.
func TestReconnects(t *testing.T) {
	dials := make(chan struct{}, 100)
	address := serveConns(t, func(conn net.Conn) {
		conn.Close()
		dials <- struct{}{}
	})
	c := newClient(t, Config{Endpoint: "http://" + address})
	for range 6 {
		if c.UploadTraces(t.Context(), encodeRequest(&tracepb.ResourceSpans{})) == nil {
			t.Error("accepted")
		}
		<-dials
		for len(dials) > 0 { // of looking for the cause
			<-dials
		}
	}
	_ = c.Stop(t.Context())
}

// TestResets has a server that resets connections at once, and one that breaks off its
// answers. The spans may be sent again.
func TestResets(t *testing.T) {
	address := serveConns(t, func(conn net.Conn) {
		_ = conn.(*net.TCPConn).SetLinger(0)
		conn.Close()
	})
	for range 20 {
		failed := errorOf(t, Config{Endpoint: "http://" + address})
		if failed == nil || failed.Verdict != exporter.Unreachable && failed.Verdict != exporter.Retryable || errors.Is(failed, endpoint.ErrTimeout) {
			t.Errorf("reset: %s %v", verdictOf(failed), failed)
		}
	}

	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	defer s.Close()
	if failed := errorOf(t, Config{Endpoint: s.URL}); failed == nil || failed.Verdict != exporter.Retryable {
		t.Errorf("broken off: %s %v", verdictOf(failed), failed)
	}
}

// A connection over which no answer came in time is not used again.
func TestTimeoutEndsTheConnection(t *testing.T) {
	for _, protocol := range protocols {
		r := receivertest.Start(t)
		address, connections := forward(t, strings.TrimPrefix(endpointOf(r, protocol), "http://"))
		c := newClient(t, Config{Protocol: protocol, Endpoint: "http://" + address})
		for attempt := range int32(3) {
			ctx, cancel := context.WithCancel(t.Context())
			r.Respond(func(context.Context, int) (rejected receiver.Rejected, err error) {
				if attempt == 1 {
					cancel()
					<-t.Context().Done()
				}
				return rejected, nil
			})
			err := c.UploadTraces(ctx, encodeRequest(&tracepb.ResourceSpans{}))
			cancel()
			if failed := err != nil; failed != (attempt == 1) {
				t.Errorf("%s: %v", protocol, err)
			}
			if n := connections.Load(); n != 1+attempt/2 {
				t.Errorf("%s, attempt %d: %d connections", protocol, attempt, n)
			}
		}
		if err := c.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// Errors of the settings or of a proxy do not reject spans: the spans are spooled or
// retried.
func TestTheAddressIsWrong(t *testing.T) {
	for code, verdict := range map[int]exporter.Verdict{
		200: exporter.Misconfigured, 301: exporter.Misconfigured, 302: exporter.Misconfigured, 307: exporter.Misconfigured,
		308: exporter.Misconfigured, 404: exporter.Misconfigured, 405: exporter.Misconfigured, 407: exporter.Misconfigured,
		408: exporter.Retryable, 411: exporter.Misconfigured, 421: exporter.Misconfigured, 425: exporter.Retryable,
		426: exporter.Misconfigured, 431: exporter.Misconfigured, 511: exporter.Misconfigured,
	} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "/login")
				w.Header().Set("Content-Type", "text/html")
				w.WriteHeader(code)
			}))
			defer s.Close()
			failed := errorOf(t, Config{Protocol: "http/protobuf", Endpoint: s.URL})
			if failed == nil || failed.Verdict != verdict {
				t.Errorf("%v", failed)
			}
		})
	}
}

// A request that has a connection is answered, although another request has dropped the
// connection since.
func TestADroppedConnectionServesThoseThatHaveIt(t *testing.T) {
	receiver := receivertest.Start(t)
	for protocol, endpoint := range map[string]string{"grpc": receiver.GRPCEndpoint(), "http/protobuf": receiver.HTTPEndpoint()} {
		s, err := Resolve(Config{Protocol: protocol, Endpoint: endpoint})
		if err != nil {
			t.Fatal(err)
		}
		l := &client{settings: s}
		conn, err := l.get()
		if err != nil {
			t.Fatal(err)
		}
		l.drop(conn)
		for range 50 {
			if err := conn.traces.UploadTraces(t.Context(), []*tracepb.ResourceSpans{{}}); err != nil {
				t.Errorf("%s: %v", protocol, err)
				break
			}
		}
		conn.using.Done()
	}
}
