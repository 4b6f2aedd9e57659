package viewer

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
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
