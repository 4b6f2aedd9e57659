package viewer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/internal/unary"
	"github.com/spantee/spantee/exporter/receiver"
)

// A Feed tells the viewer at an OTLP endpoint which spans are open. A different
// backend gets one empty request, to a method or path that it does not know, and
// never sees a span.
type Feed struct {
	endpoint  string // with scheme and port
	userAgent string
	source    string
	overGRPC  bool
	conn      Conn

	latest chan []*tracepb.ResourceSpans // the newest that was not sent yet
	over   atomic.Bool                   // another backend is there
	found  atomic.Bool                   // a viewer is there
	cancel context.CancelFunc
	done   sync.WaitGroup
}

const (
	// feedTimeout bounds a request. The next one comes a second later.
	feedTimeout = 2 * time.Second

	// goodbyeTimeout bounds what the end of a stream waits for a viewer.
	goodbyeTimeout = 250 * time.Millisecond
)

var errNoViewer = errors.New("the endpoint is not a spantee viewer")

// A Conn is a connection to the endpoint, or a share in one.
type Conn interface {
	unary.Client
	Close() error
}

// An ownConn is a connection that is not shared.
type ownConn struct{ *http.Client }

func (c ownConn) Close() error {
	c.CloseIdleConnections()
	return nil
}

// NewFeed returns a Feed for the trace exporter's endpoint, or nil if no viewer can
// be there: a viewer listens on loopback, without TLS. A gRPC endpoint needs no
// path; an HTTP endpoint may end in /v1/traces. conn, if not nil, is used for a
// gRPC endpoint, and is closed with the Feed, or at once if NewFeed returns nil. The
// Feed sends nothing before delay is over.
func NewFeed(endpoint string, overGRPC bool, userAgent string, conn Conn, delay time.Duration) *Feed {
	f := newFeed(endpoint, overGRPC, userAgent, conn)
	if f == nil {
		if conn != nil {
			_ = conn.Close()
		}
		return nil
	}
	var ctx context.Context
	ctx, f.cancel = context.WithCancel(context.Background())
	f.done.Go(func() { f.run(ctx, delay) })
	return f
}

// Answers asks once whether a viewer is at an endpoint.
func Answers(endpoint string, overGRPC bool, userAgent string) bool {
	f := newFeed(endpoint, overGRPC, userAgent, nil)
	if f == nil {
		return false
	}
	f.cancel = func() {}
	defer f.Close()
	return f.send(context.Background(), nil) == nil
}

func newFeed(endpoint string, overGRPC bool, userAgent string, conn Conn) *Feed {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" || !isLoopback(u.Hostname()) {
		return nil
	}
	base := "http://" + u.Host
	if !overGRPC {
		base += strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/v1/traces")
	}
	f := &Feed{endpoint: base, userAgent: userAgent, source: fmt.Sprintf("%016x", rand.Uint64()), overGRPC: overGRPC, conn: conn, latest: make(chan []*tracepb.ResourceSpans, 1)}
	if f.conn == nil {
		transport := &http.Transport{MaxIdleConns: 1, IdleConnTimeout: time.Minute}
		if overGRPC {
			transport.Protocols = unary.Protocols()
		}
		f.conn = ownConn{&http.Client{Transport: transport}}
	}
	return f
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// Show sends the open spans in the background. They replace those of an earlier
// call that were not sent yet. Call it every second: a viewer assumes that a source
// is dead after ten seconds of silence. The spans must not be modified afterwards.
func (f *Feed) Show(spans []*tracepb.ResourceSpans) {
	if f == nil {
		return
	}
	select {
	case <-f.latest:
	default:
	}
	select {
	case f.latest <- spans:
	default: // somebody else was faster
	}
}

// Wanted reports whether a viewer is there, or may be. If not, open spans need not
// be collected.
func (f *Feed) Wanted() bool { return f != nil && !f.over.Load() }

// Found tells whether a viewer has answered.
func (f *Feed) Found() bool { return f != nil && f.found.Load() }

// Close ends the feed. Nothing is open any more: call it when the ends have been
// sent.
func (f *Feed) Close() {
	if f == nil {
		return
	}
	f.cancel()
	f.done.Wait()
	_ = f.conn.Close()
}

// run sends until another backend answers. While nobody listens, a viewer may still
// be started.
func (f *Feed) run(ctx context.Context, delay time.Duration) {
	defer f.over.Store(true)
	defer f.found.Store(false)
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		return
	}
	var spans []*tracepb.ResourceSpans
	for {
		if !f.found.Load() {
			err := f.send(ctx, nil)
			if errors.Is(err, errNoViewer) {
				return
			}
			f.found.Store(err == nil)
		}
		select {
		case <-ctx.Done():
			f.sayGoodbye()
			return
		case spans = <-f.latest:
			if f.found.Load() && errors.Is(f.send(ctx, spans), errNoViewer) {
				return // another backend took its place
			}
		}
	}
}

// sayGoodbye tells that nothing is open any more: ids may have been provisional,
// and then no end ever arrives for them.
func (f *Feed) sayGoodbye() {
	if !f.found.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), goodbyeTimeout)
	defer cancel()
	select {
	case spans := <-f.latest: // it leads from provisional ids to the others
		_ = f.send(ctx, spans)
	default:
	}
	_ = f.send(ctx, nil)
}

func (f *Feed) send(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	ctx, cancel := context.WithTimeout(ctx, feedTimeout)
	defer cancel()
	var body []byte
	if len(spans) > 0 {
		var err error
		if body, err = proto.Marshal(&tracepb.TracesData{ResourceSpans: spans}); err != nil { // encoded as a request is
			return err
		}
	}
	if f.overGRPC {
		return f.call(ctx, body)
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, f.endpoint+receiver.OpenPath, bytes.NewReader(body))
	if err != nil {
		return err
	}
	post.Header.Set("Content-Type", "application/x-protobuf")
	post.Header.Set("User-Agent", f.userAgent)
	post.Header.Set(receiver.SourceHeader, f.source)
	resp, err := f.conn.Do(post)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<10)) // so that the connection can be used again
	switch {
	case resp.StatusCode == http.StatusOK && resp.Header.Get("Content-Type") == "application/x-protobuf":
		return nil
	case len(spans) > 0 && resp.StatusCode == http.StatusBadRequest:
		return fmt.Errorf("the viewer refused the open spans: %s", resp.Status) // too big, this time
	}
	return errNoViewer
}

// call sends encoded spans over gRPC.
func (f *Feed) call(ctx context.Context, body []byte) error {
	_, err := unary.Call(ctx, f.conn, unary.Request{
		URL: f.endpoint + receiver.OpenMethod, UserAgent: f.userAgent,
		Metadata: map[string]string{receiver.SourceHeader: f.source}, Message: body,
	})
	if _, ok := errors.AsType[*unary.HTTPError](err); ok || isRefusal(err) {
		return errNoViewer
	}
	return err
}

// isRefusal reports whether an error is the answer of a backend. Other errors come
// from the network, and are temporary.
func isRefusal(err error) bool {
	st, ok := status.FromError(err)
	if !ok {
		return false
	}
	switch st.Code() {
	case codes.OK, codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.InvalidArgument, codes.ResourceExhausted:
		return false
	}
	return true
}
