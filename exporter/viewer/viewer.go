// Package viewer is an embedded tracing backend. It keeps traces in a database and
// shows them on a web page on the local machine.
//
//	OTLP ->                       receiver -\
//	logs of running processes ->  lookout --> Store -> page (server-sent events, JSON)
//
// What processes of this user have open is read from their logs in the spool.
//
// In this order, each file uses only the ones after it: viewer, server, running; runs, list,
// steps; export, withhold; queue; open, with what a store does in the background: retention,
// index; search, page; live, update; outline, summary, read, batch; store, span, database.
package viewer

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/file"
	"github.com/spantee/spantee/exporter/receiver"
	"github.com/spantee/spantee/exporter/runs"
)

// A Config says where a Viewer listens and what it shows. Addresses are
// host:port; port 0 is any free one.
type Config struct {
	Page  string
	GRPC  string // OTLP; empty for none
	HTTP  string
	Store *Store // remains open when the viewer is closed

	Prices runs.Prices // of models, for runs that do not state their cost

	// StateDir is the state folder of the processes whose open spans are shown, and that are
	// told of this viewer; empty for none.
	StateDir string

	// ReadFile adds the sessions of a file that was dropped on the page. If it
	// is nil, the page takes none.
	ReadFile func(store *Store, name string, content io.Reader) error
}

// A Viewer runs until Close.
type Viewer struct {
	Store    *Store
	page     net.Listener
	http     *http.Server
	server   *server
	receiver *receiver.Receiver // nil if nothing is received
	serving  sync.WaitGroup
}

// Start starts a Viewer. Its error may be an *exporter.Error.
func Start(cfg Config) (*Viewer, error) {
	v := &Viewer{Store: cfg.Store}
	var err error
	v.page, err = new(net.ListenConfig).Listen(context.Background(), "tcp", cfg.Page)
	if err != nil {
		return nil, listenError(err)
	}
	v.page = receiver.Limit(v.page)
	receives := receiver.Config{
		GRPC: cmp.Or(cfg.GRPC, receiver.Off), HTTP: cmp.Or(cfg.HTTP, receiver.Off),
		Handle: v.receive, MaxCost: maxRequestCost,
	}
	if v.receiver, err = receiver.Start(receives); err != nil {
		_ = v.page.Close()
		return nil, listenError(err)
	}
	host, _, _ := net.SplitHostPort(cfg.Page)
	v.server = &server{
		store: v.Store, host: host, streams: make(chan struct{}, maxStreams),
		answers: make(chan struct{}, maxAnswers), exports: make(chan struct{}, maxExports), done: make(chan struct{}),
		epoch: rand.Text(), prices: cfg.Prices, otlp: receiver.Handler(receives), readFile: cfg.ReadFile,
	}
	v.http = &http.Server{
		Handler:           v.server.handler(),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       headerTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          log.New(io.Discard, "", 0), // by default it prints to stderr
	}
	v.serving.Go(func() { _ = v.http.Serve(v.page) }) // returns when closed, with an error that says so
	if cfg.StateDir != "" {
		v.serving.Go(func() { lookOut(v.Store, cfg.StateDir, v.ports(), v.server.done) })
	}
	return v, nil
}

// maxRequestCost is more than the largest gRPC request takes, unless it was crafted
// to be expensive.
const maxRequestCost = 24 << 20

func listenError(err error) error {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	return &exporter.Error{Err: err, Hint: "another viewer or a collector may be running there: choose other ports with --listen, --otlp-grpc or --otlp-http; port 0 is any free one"}
}

// URL returns the address of the page.
func (v *Viewer) URL() string { return "http://" + v.page.Addr().String() + "/" }

// GRPCEndpoint returns the value of OTEL_EXPORTER_OTLP_ENDPOINT for gRPC, empty if
// gRPC is off.
func (v *Viewer) GRPCEndpoint() string { return v.receiver.GRPCEndpoint() }

// HTTPEndpoint returns the value of OTEL_EXPORTER_OTLP_ENDPOINT for HTTP, empty if
// HTTP is off.
func (v *Viewer) HTTPEndpoint() string { return v.receiver.HTTPEndpoint() }

// ports are the ports at which the viewer receives spans.
func (v *Viewer) ports() (ports []string) {
	for _, endpoint := range []string{v.URL(), v.GRPCEndpoint(), v.HTTPEndpoint()} {
		if u, err := url.Parse(endpoint); err == nil && u.Port() != "" {
			ports = append(ports, u.Port())
		}
	}
	return ports
}

// receive handles a request. A sender keeps spans that could not be stored, and tries again.
func (v *Viewer) receive(ctx context.Context, request []byte) (receiver.Rejected, error) {
	rejected, err := v.Store.Add(request)
	if err != nil {
		if ctx.Err() == nil { // else it came too late
			v.Store.failed(err)
		}
		return receiver.Rejected{}, status.Error(codes.Unavailable, err.Error())
	}
	if rejected == 0 {
		return receiver.Rejected{}, nil
	}
	return receiver.Rejected{Spans: int64(rejected), Message: "spans without a valid id, or of a session that has too many"}, nil
}

// drainTimeout is how long Close waits for the answers to requests.
const drainTimeout = time.Second

// Close answers the requests that have come, and ends all connections.
func (v *Viewer) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	close(v.server.done)
	var drained sync.WaitGroup
	drained.Go(func() { v.receiver.Drain(ctx) })
	drained.Go(func() { _ = v.http.Shutdown(ctx) })
	drained.Wait()
	v.receiver.Close()
	_ = v.http.Close()
	v.serving.Wait()
}

// Read adds traces from OTLP JSON lines. It returns how many lines it could not
// read, and the error of the first.
func (s *Store) Read(r io.Reader) (bad int, first error) {
	for spans, err := range file.Read(r) {
		if err != nil {
			if bad++; first == nil {
				first = err
			}
			continue
		}
		if err := s.addSpans(spans, time.Now()); err != nil {
			return bad, err
		}
	}
	return bad, first
}
