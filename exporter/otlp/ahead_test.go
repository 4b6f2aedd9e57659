package otlp

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"golang.org/x/net/http2"

	"github.com/spantee/spantee/exporter/internal/unary"
	"github.com/spantee/spantee/exporter/receiver/receivertest"
)

// TestDialsAhead has a client that connects when it is started. All requests go over
// that connection.
func TestDialsAhead(t *testing.T) {
	r := receivertest.Start(t)
	greeted := make(chan struct{})
	var conns atomic.Int32
	address := serveConns(t, func(conn net.Conn) {
		if conns.Add(1) == 1 {
			close(greeted)
		}
		relay(conn, strings.TrimPrefix(r.GRPCEndpoint(), "http://"), func() {})
	})
	c := started(t, Config{Endpoint: "http://" + address})
	<-greeted
	for range 3 {
		if err := c.UploadTraces(t.Context(), encodeRequest(&tracepb.ResourceSpans{})); err != nil {
			t.Error(err)
		}
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// TestDialsLater has a collector that comes after the client has tried to connect.
func TestDialsLater(t *testing.T) {
	r := receivertest.Start(t)
	path := filepath.Join(t.TempDir(), "socket")
	c := started(t, Config{Endpoint: "unix:" + path})
	<-c.connect().ahead.done
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err == nil {
			relay(conn, strings.TrimPrefix(r.GRPCEndpoint(), "http://"), func() {})
		}
	}()
	if err := c.UploadTraces(t.Context(), encodeRequest(&tracepb.ResourceSpans{})); err != nil {
		t.Error(err)
	}
}

// started returns a client that has been started and is stopped at the end of the test.
func started(t *testing.T, cfg Config) *client {
	t.Helper()
	c := newClient(t, cfg).(*client)
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop(context.Background()) })
	return c
}

// TestDialsAnew has a collector that hangs up before the first request comes, or does
// not process the first request of a connection. The client dials anew.
func TestDialsAnew(t *testing.T) {
	stream := func(f *http2.Framer, stream uint32) error {
		return f.WriteRSTStream(stream, http2.ErrCodeRefusedStream)
	}
	connection := func(f *http2.Framer, _ uint32) error { return f.WriteGoAway(0, http2.ErrCodeNo, nil) }
	for name, test := range map[string]struct {
		refuse func(f *http2.Framer, stream uint32) error
		closed int32 // connections that are closed at once
	}{
		"hangs up":                   {nil, 1},
		"refuses a stream":           {stream, 0},
		"refuses a connection":       {connection, 0},
		"refuses a later connection": {connection, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var conns, requests atomic.Int32
			r := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				_, _ = io.Copy(io.Discard, r.Body)
				unary.Respond(w, nil)
			}))
			r.Config.Protocols = unary.Protocols()
			r.Start()
			defer r.Close()
			c := started(t, Config{Endpoint: "http://" + serveConns(t, func(conn net.Conn) {
				switch n := conns.Add(1); {
				case n <= test.closed:
					conn.Close()
				case n == test.closed+1 && test.refuse != nil:
					refuseFirst(conn, test.refuse)
				default:
					relay(conn, r.Listener.Addr().String(), func() {})
				}
			})})
			err := c.UploadTraces(t.Context(), encodeRequest(&tracepb.ResourceSpans{}))
			if err != nil && test.closed > 0 { // net/http had not noticed yet that the first one is closed
				err = c.UploadTraces(t.Context(), encodeRequest(&tracepb.ResourceSpans{}))
			}
			if err != nil || requests.Load() != 1 {
				t.Errorf("%v, %d requests", err, requests.Load())
			}
		})
	}
}

// refuseFirst refuses the first request over a connection, and reads on.
func refuseFirst(conn net.Conn, refuse func(f *http2.Framer, stream uint32) error) {
	defer conn.Close()
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	framer := http2.NewFramer(conn, conn)
	if framer.WriteSettings() != nil {
		return
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		if f, ok := frame.(*http2.HeadersFrame); ok && refuse(framer, f.StreamID) != nil {
			return
		}
	}
}
