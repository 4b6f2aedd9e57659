package otlp

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/exporter"
)

// TestReconnects counts how often a client dials a collector that hangs up. With
// gRPC's own backoff the sixth time would be after 16 seconds, because attempts in
// between fail without trying.
func TestReconnects(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dials := make(chan struct{}, 100)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				close(dials)
				return
			}
			conn.Close()
			dials <- struct{}{}
		}
	}()
	ctx, cancel := context.WithCancel(t.Context())
	c := newClient(t, Config{Endpoint: "http://" + l.Addr().String()})
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for ctx.Err() == nil {
			_ = c.UploadTraces(ctx, encodeRequest(&tracepb.ResourceSpans{}))
			time.Sleep(10 * time.Millisecond)
		}
	}()
	deadline := time.After(12 * time.Second)
	for n := range 6 {
		select {
		case <-dials:
		case <-deadline:
			t.Fatalf("%d dials", n)
		}
	}
	cancel()
	<-stopped
	_ = c.Stop(t.Context())
	l.Close()
	for range dials {
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
