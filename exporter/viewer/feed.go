package viewer

import (
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

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/spantee/spantee/exporter/internal/httpclient"
	"github.com/spantee/spantee/exporter/receiver"
)

// A Feed tells the viewer at an OTLP endpoint which spans are open. A different
// backend gets one empty request, to a method or path that it does not know, and
// never sees a span.
type Feed struct {
	endpoint  string // with scheme and port
	userAgent string
	source    string
	conn      *grpc.ClientConn // nil over HTTP
	http      *http.Client     // nil over gRPC

	latest chan []byte // the newest that was not sent yet
	over   atomic.Bool // another backend has answered
	found  atomic.Bool // a viewer has answered
	cancel context.CancelFunc
	done   sync.WaitGroup
}

const (
	// feedTimeout bounds a request. The next one comes a second later.
	feedTimeout = 2 * time.Second

	// goodbyeTimeout bounds what the end of a stream waits for a viewer.
	goodbyeTimeout = 200 * time.Millisecond
)

var errNoViewer = errors.New("the endpoint is not a spantee viewer")

// NewFeed returns a Feed for the trace exporter's endpoint, or nil if no viewer can
// be there: a viewer listens on loopback, without TLS. A gRPC endpoint needs no
// path; an HTTP endpoint may end in /v1/traces. The Feed connects once delay is over.
func NewFeed(endpoint string, overGRPC bool, userAgent string, delay time.Duration) *Feed {
	f := newFeed(endpoint, overGRPC, userAgent)
	if f == nil {
		return nil
	}
	var ctx context.Context
	ctx, f.cancel = context.WithCancel(context.Background())
	f.done.Go(func() { f.run(ctx, delay) })
	return f
}

// Answers asks once whether a viewer is at an endpoint.
func Answers(endpoint string, overGRPC bool, userAgent string) bool {
	f := newFeed(endpoint, overGRPC, userAgent)
	if f == nil {
		return false
	}
	f.cancel = func() {}
	defer f.Close()
	return f.send(context.Background(), nil) == nil
}

func newFeed(endpoint string, overGRPC bool, userAgent string) *Feed {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" || !isLoopback(u.Hostname()) {
		return nil
	}
	base := "http://" + u.Host
	if !overGRPC {
		base += strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/v1/traces")
	}
	f := &Feed{endpoint: base, userAgent: userAgent, source: fmt.Sprintf("%016x", rand.Uint64()), latest: make(chan []byte, 1)}
	if !overGRPC {
		f.http = httpclient.New(func(t *http.Transport) { t.Proxy = nil })
		return f
	}
	if f.conn, err = grpc.NewClient("passthrough:///"+u.Host, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUserAgent(userAgent), grpc.WithNoProxy(),
		grpc.WithConnectParams(reconnect), grpc.WithIdleTimeout(feedTimeout)); err != nil {
		return nil
	}
	return f
}

// reconnect makes gRPC look for a viewer about every second while spans are sent. By default
// it would do so less and less often, and at last every two minutes.
var reconnect = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: time.Second, Multiplier: 1, MaxDelay: time.Second},
	MinConnectTimeout: feedTimeout,
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// Show sends the open spans, an encoded TracesData, in the background. They replace those of an earlier
// call that were not sent yet. Call it every second: a viewer assumes that a source
// is dead after ten seconds of silence. The spans must not be modified afterwards.
func (f *Feed) Show(spans []byte) {
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

// Wanted reports whether a viewer has answered, or may still. If not, open spans need
// not be collected.
func (f *Feed) Wanted() bool { return f != nil && !f.over.Load() }

// Found reports whether a viewer has answered.
func (f *Feed) Found() bool { return f != nil && f.found.Load() }

// Close ends the feed, whatever the viewer does. Nothing is open any more: call it when the ends have been
// sent.
func (f *Feed) Close() {
	if f == nil {
		return
	}
	f.cancel()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		f.done.Wait()
		if f.http != nil {
			f.http.CloseIdleConnections()
			return
		}
		_ = f.conn.Close() // takes up to five seconds if the viewer does not read
	}()
	select {
	case <-closed:
	case <-time.After(goodbyeTimeout + goodbyeTimeout/4): // a viewer that was stopped must not hold the run
	}
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
		case spans := <-f.latest:
			if f.found.Load() && errors.Is(f.send(ctx, spans), errNoViewer) {
				return // another backend took the viewer's place
			}
		}
	}
}

// sayGoodbye reports that nothing is open any more: some ids may have been provisional,
// and no span with such an id ever ends.
func (f *Feed) sayGoodbye() {
	if !f.found.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), goodbyeTimeout)
	defer cancel()
	select {
	case spans := <-f.latest: // the viewer follows it from provisional ids to the final ones
		_ = f.send(ctx, spans)
	default:
	}
	_ = f.send(ctx, nil)
}

func (f *Feed) send(ctx context.Context, spans []byte) error {
	ctx, cancel := context.WithTimeout(ctx, feedTimeout)
	defer cancel()
	if f.http == nil {
		request := new(coltracepb.ExportTraceServiceRequest)
		request.ProtoReflect().SetUnknown(spans)
		err := f.conn.Invoke(metadata.AppendToOutgoingContext(ctx, receiver.SourceHeader, f.source), receiver.OpenMethod, request, new(coltracepb.ExportTraceServiceResponse))
		if isRefusal(err) {
			return errNoViewer
		}
		return err
	}
	post, err := newPost(ctx, f.endpoint+receiver.OpenPath, spans)
	if err != nil {
		return err
	}
	post.Header.Set("User-Agent", f.userAgent)
	post.Header.Set(receiver.SourceHeader, f.source)
	resp, err := f.http.Do(post)
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

// isRefusal reports whether an error is the answer of a backend. Other errors come
// from the network, and are temporary.
func isRefusal(err error) bool {
	st, ok := status.FromError(err)
	if !ok {
		return true // of another kind of server
	}
	switch st.Code() {
	case codes.OK, codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.InvalidArgument, codes.ResourceExhausted:
		return false
	}
	return true
}
