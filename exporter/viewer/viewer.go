// Package viewer is an embedded tracing backend. It keeps traces in memory and
// shows them on a web page on the local machine.
//
//	OTLP, open spans -> receiver -> Store -> page (server-sent events, JSON)
//	                                    \--> Jaeger's query API
//
// Open spans are sent to the same endpoint as finished spans, but to a gRPC method or
// an HTTP path that only a spantee viewer serves. A [Feed] first sends an empty
// request, so that no other backend ever sees an open span.
package viewer

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/file"
	"github.com/spantee/spantee/exporter/receiver"
)

// A Config says where a Viewer listens and what it keeps. Addresses are
// host:port; port 0 is any free one.
type Config struct {
	Page      string
	GRPC      string // OTLP; empty for none
	HTTP      string
	MaxMemory int    // bytes of traces
	File      string // received spans are appended to it, and it is read at the start
	Kept      *Kept  // where sessions survive a restart; nil for nowhere
	Restore   bool   // show what was kept

	// ReadFile adds the sessions of a file that was dropped on the page. If it
	// is nil, the page takes none.
	ReadFile func(store *Store, name string, content io.Reader) error

	// Problem is called, once for each, with errors that do not stop the viewer.
	Problem func(error)
}

// A Viewer runs until Close.
type Viewer struct {
	Store    *Store
	cfg      Config
	file     exporter.Client // nil without a File
	failed   sync.Once       // guards the report that the file or the disk failed
	page     net.Listener
	http     *http.Server
	server   *server
	receiver *receiver.Receiver // nil if nothing is received
	keeper   *keeper            // nil if nothing is kept
	serving  sync.WaitGroup
}

// Start starts a Viewer. Its error may be an *exporter.Error.
func Start(cfg Config) (*Viewer, error) {
	v := &Viewer{Store: NewStore(cfg.MaxMemory), cfg: cfg}
	if cfg.File != "" {
		if err := v.openFile(); err != nil {
			return nil, err
		}
	}
	var err error
	v.page, err = new(net.ListenConfig).Listen(context.Background(), "tcp", cfg.Page)
	if err != nil {
		v.closeFile()
		return nil, listenError(err)
	}
	v.keeper = cfg.Kept.keeper()
	receives := receiver.Config{
		GRPC: cmp.Or(cfg.GRPC, receiver.Off), HTTP: cmp.Or(cfg.HTTP, receiver.Off),
		Handle: v.receive, Open: v.Store.Open, MaxCost: maxRequestCost,
	}
	if v.receiver, err = receiver.Start(receives); err != nil {
		_ = v.page.Close()
		v.closeFile()
		return nil, listenError(err)
	}
	host, _, _ := net.SplitHostPort(cfg.Page)
	v.server = &server{
		store: v.Store, host: host, streams: make(chan struct{}, maxStreams), done: make(chan struct{}),
		epoch: rand.Text(), otlp: receiver.Handler(receives), readFile: cfg.ReadFile,
	}
	v.http = &http.Server{
		Handler:           v.server.handler(),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       headerTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ConnState:         new(limiter).change,
		ErrorLog:          log.New(io.Discard, "", 0), // by default it prints to stderr
	}
	v.serving.Go(func() { _ = v.http.Serve(v.page) }) // returns when closed, with an error that says so
	v.serving.Go(v.watch)
	if cfg.Kept != nil && cfg.Restore {
		v.serving.Go(v.restore)
	}
	return v, nil
}

// maxRequestCost is more than the largest gRPC request takes, unless it was crafted
// to be expensive.
const maxRequestCost = 24 << 20

// watch notices sources that died.
func (v *Viewer) watch() {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for {
		select {
		case now := <-second.C:
			v.Store.expire(now)
		case <-v.server.done:
			return
		}
	}
}

// restore reads the sessions that were kept, while the page is up already.
func (v *Viewer) restore() {
	for spans, err := range v.cfg.Kept.read(v.server.done) {
		if err != nil {
			v.problem(fmt.Errorf("kept sessions: %w", err))
			continue
		}
		v.Store.Add(spans)
	}
}

func (v *Viewer) problem(err error) {
	if v.cfg.Problem != nil {
		v.cfg.Problem(err)
	}
}

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

// receive handles a request. The spans are in memory before the file is written,
// which may fail.
func (v *Viewer) receive(ctx context.Context, spans []*tracepb.ResourceSpans) (receiver.Rejected, error) {
	rejected := v.take(ctx, spans)
	if rejected == 0 {
		return receiver.Rejected{}, nil
	}
	return receiver.Rejected{Spans: int64(rejected), Message: "spans without a valid id, or with text that is not UTF-8"}, nil
}

// Take adds spans from this process, as if they were received.
func (v *Viewer) Take(spans []*tracepb.ResourceSpans) { v.take(context.Background(), spans) }

func (v *Viewer) take(ctx context.Context, spans []*tracepb.ResourceSpans) (rejected int) {
	rejected = v.Store.Add(spans)
	var err error
	if v.file != nil {
		err = v.writeFile(ctx, spans)
	}
	if err = errors.Join(err, v.keeper.write(spans)); err != nil {
		v.failed.Do(func() { v.problem(fmt.Errorf("traces are in memory only: %w", err)) })
	}
	return rejected
}

// Close ends all connections.
func (v *Viewer) Close() {
	v.receiver.Close()
	close(v.server.done)
	_ = v.http.Close()
	v.serving.Wait()
	v.closeFile()
	v.keeper.close()
}

// openFile reads the file, and ends a torn last line so that the next one starts on
// its own.
func (v *Viewer) openFile() error {
	if info, err := os.Stat(v.cfg.File); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file: reading it back could hang", v.cfg.File)
	}
	f, err := os.OpenFile(v.cfg.File, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if bad, err := v.Store.Read(f); bad > 0 {
		v.problem(fmt.Errorf("%s: %d of its lines could not be read, the first: %w", v.cfg.File, bad, err))
	}
	if err := endLine(f); err != nil {
		return err
	}
	v.file, err = file.New(v.cfg.File, v.problem)
	return err
}

// endLine ends a last line that was cut short.
func endLine(f *os.File) error {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 || !info.Mode().IsRegular() {
		return err
	}
	last := make([]byte, 1)
	if _, err := f.ReadAt(last, info.Size()-1); err != nil || last[0] == '\n' {
		return err
	}
	_, err = f.WriteString("\n")
	return err
}

func (v *Viewer) writeFile(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	request, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	return v.file.UploadTraces(ctx, request)
}

func (v *Viewer) closeFile() {
	if v.file != nil {
		_ = v.file.Stop(context.Background()) // each line was written at once
	}
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
		s.Add(spans)
	}
	return bad, first
}
