package viewer

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Open spans have content. They stay on this machine even if a server there says that they
// should go elsewhere.
func TestFeedFollowsNoRedirect(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		t.Error("the redirect was followed")
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	defer elsewhere.Close()
	for _, code := range []int{http.StatusMovedPermanently, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		s := httptest.NewServer(http.RedirectHandler(elsewhere.URL, code))
		for _, overGRPC := range []bool{false, true} {
			if Answers(s.URL, overGRPC, "test") {
				t.Errorf("%d: a viewer answers", code)
			}
		}
		s.Close()
	}
}

// A viewer is found however often nobody was there before.
func TestFeedFindsALateViewer(t *testing.T) {
	usual := reconnect
	defer func() { reconnect = usual }()
	reconnect.Backoff.BaseDelay, reconnect.Backoff.MaxDelay = time.Millisecond, time.Millisecond
	v := start(t, Config{GRPC: "127.0.0.1:0"})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	go func() {
		for n := 0; ; n++ {
			in, err := l.Accept()
			if err != nil {
				return
			}
			defer in.Close()
			if n < 10 {
				in.Close()
				continue
			}
			out, err := net.Dial("tcp", strings.TrimPrefix(v.GRPCEndpoint(), "http://"))
			if err != nil {
				return
			}
			defer out.Close()
			go func() { _, _ = io.Copy(out, in) }()
			go func() { _, _ = io.Copy(in, out) }()
		}
	}()
	feed := NewFeed("http://"+l.Addr().String(), true, "spantee/test", 0)
	defer feed.Close()
	for timeout := time.After(20 * time.Second); !feed.Found(); {
		select {
		case <-time.After(time.Millisecond):
			feed.Show(nil)
		case <-timeout:
			t.Fatal("never")
		}
	}
}

// A viewer that stops reading, or floods the connection, does not hold up the end of a run.
func TestFeedCloseIsBounded(t *testing.T) {
	for name, overGRPC := range map[string]bool{"gRPC": true, "HTTP": false} {
		t.Run(name, func(t *testing.T) {
			v := start(t, Config{GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0"})
			to := v.HTTPEndpoint()
			if overGRPC {
				to = v.GRPCEndpoint()
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			must(t, err)
			defer l.Close()
			stopped, flooded := make(chan struct{}), new(atomic.Int64)
			go func() {
				for {
					in, err := l.Accept()
					if err != nil {
						return
					}
					defer in.Close()
					out, err := net.Dial("tcp", strings.TrimPrefix(to, "http://"))
					if err != nil {
						return
					}
					defer out.Close()
					go func() { _, _ = io.Copy(in, out) }()
					go func() {
						b := make([]byte, 1<<10)
						for {
							n, err := in.Read(b)
							if err != nil {
								return
							}
							select {
							case <-stopped: // reads no more
								return
							default:
							}
							_, _ = out.Write(b[:n])
						}
					}()
					go func() {
						<-stopped
						ping := []byte("\x00\x00\x08\x06\x00\x00\x00\x00\x00abcdefgh")
						for pings, more := bytes.Repeat(ping, 4096), true; more && overGRPC; {
							n, err := in.Write(pings) // whose answers fill all buffers
							flooded.Add(int64(n))
							more = err == nil
						}
					}()
				}
			}()
			f := NewFeed("http://"+l.Addr().String(), overGRPC, "test", 0)
			for !f.Found() {
				time.Sleep(time.Millisecond)
			}
			close(stopped)
			f.Show(make([]byte, 1<<20))
			for before := int64(-1); flooded.Load() != before; { // until the client is stuck, too
				before = flooded.Load()
				time.Sleep(50 * time.Millisecond)
			}
			closed := make(chan struct{})
			go func() { f.Close(); close(closed) }()
			select {
			case <-closed:
			case <-time.After(3 * time.Second): // gRPC takes five
				t.Error("Close waits for the viewer")
			}
		})
	}
}
