// Package viewer is the embedded backend: it keeps traces in memory and shows
// them on a web page, on the machine where they are made.
//
//	OTLP -> receiver -> Store -> page (server-sent events, JSON)
//	                        \--> Jaeger's query API
package viewer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/file"
	"github.com/spantee/spantee/exporter/receiver"
)

// A Config says where a Viewer listens and what it keeps. Addresses are
// host:port; port 0 is any free one.
type Config struct {
	Page      string
	GRPC      string // OTLP; if this and HTTP are empty, nothing is received
	HTTP      string
	MaxMemory int    // bytes of traces
	File      string // to which what is received is appended, and from which it is read at the start

	// Problem is told, once each, what went wrong without stopping anything.
	Problem func(error)
}

// A Viewer runs until Close.
type Viewer struct {
	Store    *Store
	cfg      Config
	file     otlptrace.Client // nil without a File
	told     sync.Once
	page     net.Listener
	http     *http.Server
	server   *server
	receiver *receiver.Receiver // nil if nothing is received
	serving  sync.WaitGroup
}

// Start listens. Its error may be an *exporter.Error.
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
	if cfg.GRPC != "" || cfg.HTTP != "" {
		v.receiver, err = receiver.Start(receiver.Config{GRPC: cfg.GRPC, HTTP: cfg.HTTP, Handle: v.receive})
		if err != nil {
			_ = v.page.Close()
			v.closeFile()
			return nil, listenError(err)
		}
	}
	host, _, _ := net.SplitHostPort(cfg.Page)
	v.server = &server{store: v.Store, host: host, streams: make(chan struct{}, maxStreams), done: make(chan struct{})}
	v.http = &http.Server{
		Handler:           v.server.handler(),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       headerTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          log.New(io.Discard, "", 0), // it would print to stderr
	}
	v.serving.Go(func() { _ = v.http.Serve(v.page) }) // returns when closed, with an error that says so
	return v, nil
}

func listenError(err error) error {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	return &exporter.Error{Err: err, Hint: "another viewer or a collector may be running there; port 0 takes any free port"}
}

// URL is the address of the page.
func (v *Viewer) URL() string { return "http://" + v.page.Addr().String() + "/" }

// GRPCEndpoint is what OTEL_EXPORTER_OTLP_ENDPOINT has to be for gRPC.
func (v *Viewer) GRPCEndpoint() string { return v.receiver.GRPCEndpoint() }

// HTTPEndpoint is what OTEL_EXPORTER_OTLP_ENDPOINT has to be for HTTP.
func (v *Viewer) HTTPEndpoint() string { return v.receiver.HTTPEndpoint() }

// receive takes a request. Its spans are in memory before the file is written,
// which may fail.
func (v *Viewer) receive(ctx context.Context, req *coltracepb.ExportTraceServiceRequest) (*coltracepb.ExportTraceServiceResponse, error) {
	rejected := v.Store.Add(req.GetResourceSpans())
	if v.file != nil {
		if err := v.file.UploadTraces(ctx, req.GetResourceSpans()); err != nil {
			v.told.Do(func() { v.cfg.Problem(fmt.Errorf("traces are kept in memory only: %w", err)) })
		}
	}
	if rejected == 0 {
		return nil, nil
	}
	return &coltracepb.ExportTraceServiceResponse{PartialSuccess: &coltracepb.ExportTracePartialSuccess{
		RejectedSpans: int64(rejected), ErrorMessage: "spans without a valid id, or with text that is not UTF-8",
	}}, nil
}

// Close ends all connections.
func (v *Viewer) Close() {
	if v.receiver != nil {
		v.receiver.Close()
	}
	close(v.server.done)
	_ = v.http.Close()
	v.serving.Wait()
	v.closeFile()
}

// openFile reads the file, and makes the next line appended to it one of its own.
func (v *Viewer) openFile() error {
	f, err := os.OpenFile(v.cfg.File, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if bad, err := v.Store.Read(f); bad > 0 {
		v.cfg.Problem(fmt.Errorf("%s: %d lines could not be read, the first for this: %w", v.cfg.File, bad, err))
	}
	if err := endLine(f); err != nil {
		return err
	}
	v.file, err = file.New(v.cfg.File)
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

func (v *Viewer) closeFile() {
	if v.file != nil {
		_ = v.file.Stop(context.Background()) // each line was written at once
	}
}

// Read adds lines of OTLP JSON. It counts those it could not read, and returns
// what was wrong with the first.
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
