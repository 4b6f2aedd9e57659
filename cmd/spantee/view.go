package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/spantee/spantee/cmd/spantee/internal/proc"
	"github.com/spantee/spantee/cmd/spantee/internal/recording"
	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/exporter/spool"
	"github.com/spantee/spantee/exporter/viewer"
	contentlevel "github.com/spantee/spantee/mapping/content"
)

const viewUsage = `view shows traces in the browser. It receives OTLP, so that spantee and any
other sender on this machine need no configuration, and it reads FILEs: recorded
streams of an agent or OTLP JSON lines, which may be compressed with gzip or
zstd. Sessions are kept on disk and shown again next time.

If a viewer is already running, view hands it the FILEs and exits.

  spantee view                         and in another terminal: ... | spantee
  spantee view session.jsonl
  spantee view --export run.html session.jsonl`

// defaultKept is how many bytes of sessions are kept on disk.
const defaultKept = 2 << 30

// maxUnkept is how many bytes of sessions are kept in memory if none are kept on disk.
const maxUnkept = 128 << 20

// viewOptions are the flags of view.
type viewOptions struct {
	address        string
	noOpen         bool
	grpc           string
	http           string
	keep           retention
	stallAfter     time.Duration
	prices         string
	export         string
	contentOptions // of the streams in FILEs
}

func viewCommand() *cobra.Command {
	o := viewOptions{keep: retention{Retention: viewer.Retention{Bytes: defaultKept}}}
	cmd := &cobra.Command{
		Use:   "view [FILE...]",
		Short: "Show traces in the browser",
		Long:  viewUsage,
		RunE:  func(_ *cobra.Command, files []string) error { return runViewer(&o, files, os.Stderr) },
	}
	f := cmd.Flags()
	f.StringVar(&o.address, "listen", defaultPage, "serve the page at `HOST:PORT`; port 0 is any free one")
	f.StringVar(&o.grpc, "otlp-grpc", "127.0.0.1:4317", "receive OTLP/gRPC at `HOST:PORT`; empty to disable")
	f.StringVar(&o.http, "otlp-http", "127.0.0.1:4318", "receive OTLP/HTTP at `HOST:PORT`; empty to disable")
	f.Var(&o.keep, "keep", "keep sessions up to `LIMITS`, such as 30d or 30d,2GiB; pinned ones stay, 0 keeps none")
	f.DurationVar(&o.stallAfter, "stall-after", defaultStall, "show a session as stuck if it is silent for `TIME`; 0s: never")
	addPricesFlag(cmd, &o.prices)
	f.StringVar(&o.export, "export", "", "write the sessions to `FILE`, as OTLP if its name ends in .json or else as HTML, and exit")
	f.BoolVar(&o.noOpen, "no-open", false, "do not open the browser")
	o.addFlags(cmd)
	f.Lookup("content").Usage = "record content of streams from FILEs: `WHAT` is none, details or full (default full, or none with --export)"
	return cmd
}

// runViewer runs until Ctrl-C.
func runViewer(o *viewOptions, files []string, stderr *os.File) error {
	if err := cmp.Or(checkAddress("--listen", o.address), checkAddress("--otlp-grpc", o.grpc), checkAddress("--otlp-http", o.http)); err != nil {
		return err
	}
	if o.export == "" && os.Getenv(captureVariable) == "" { // who opens a file can read it; who exports one may give it away
		o.content = cmp.Or(o.content, string(contentlevel.Full))
	}
	reporter := newPlainReporter(stderr)
	defer reporter.w.Flush()
	content, err := o.resolve(reporter.now)
	if err != nil {
		return err
	}
	content.keepWhole()
	prices, err := readPrices(o.prices)
	if err != nil {
		return err
	}
	limitMemory(largeMemoryLimit)
	read := fileReader{content, reporter.now}
	switch {
	case o.export != "":
		return o.exportFiles(read, files)
	case viewer.Running(o.address):
		return o.join(read, files, stderr, reporter)
	}
	v, added, err := o.start(read, files, prices)
	if err != nil {
		return err
	}
	signals := proc.CatchSignals() // before that, they end the process
	url := v.URL()
	if len(added) == 1 {
		url += "#/trace/" + added[0]
	}
	reporter.say("showing traces at %s until Ctrl-C; %s", url, receiving(v))
	openPage(url, !o.noOpen && isTerminal(stderr))
	<-signals
	proc.DieOfNext(signals)
	if _, err := spool.Await(func() (any, error) { v.Close(); v.Store.Close(); return nil, nil }); err != nil {
		return fmt.Errorf("the database of sessions was not closed: %w", err)
	}
	return nil
}

// start starts a viewer, and adds the traces in files, whose ids it returns.
func (o *viewOptions) start(read fileReader, files []string, prices runs.Prices) (v *viewer.Viewer, added []string, err error) {
	store, err := openSessions(o.keep.Retention, nil, read.problem)
	if err != nil {
		return nil, nil, err
	}
	store.StallAfter = o.stallAfter
	stateDir, _ := spool.StateDir() // without one no process has a log
	v, err = viewer.Start(viewer.Config{
		Page: o.address, GRPC: o.grpc, HTTP: o.http, Store: store, StateDir: stateDir, Prices: prices,
		ReadFile: func(store *viewer.Store, name string, r io.Reader) error {
			file, err := recording.Copy(r)
			if err != nil {
				return err
			}
			defer file.Close()
			return fileReader{read.content, func(error) {}}.read(store, name, file, time.Now())
		},
	})
	if err != nil {
		store.Close()
		return nil, nil, err
	}
	if added, _, err = read.files(store, files); err != nil {
		v.Close()
		store.Close()
		return nil, nil, err
	}
	return v, added, nil
}

func receiving(v *viewer.Viewer) string {
	grpc, http := v.GRPCEndpoint(), v.HTTPEndpoint()
	at := enumerate(" and ", part{len(grpc), grpc + " (gRPC)"}, part{len(http), http + " (HTTP)"})
	if at == "" {
		return "not receiving OTLP"
	}
	return "receiving OTLP at " + at
}

// A page shows the spans of this process.
type page struct {
	queue  *viewer.Queue
	viewer *viewer.Viewer
	open   bool // it shows spans that have not ended
}

// Span shows a finished span.
func (p *page) Span(s *tracer.Span) { p.queue.Add(wrap(s)) }

// Piece shows what is open.
func (p *page) Piece(open *tracer.Snapshot) error {
	if open != nil && (len(open.Open) > 0 || p.open) {
		p.open = len(open.Open) > 0
		var request []byte
		for _, s := range open.Open {
			request = append(request, wrap(s)...)
		}
		p.queue.Open(request)
	}
	return nil
}

// wrap returns an encoded TracesData with one span.
func wrap(s *tracer.Span) []byte {
	return spool.Encode([]*spool.Span{spool.NewSpan(s.Wire, s.From)})
}

// close waits until everything is shown and stored.
func (p *page) close() (lost int) {
	lost = p.queue.Close()
	p.viewer.Close()
	p.viewer.Store.Close()
	return lost
}

// openPatience bounds how long a stream waits for the disk before it starts.
const openPatience = 2 * time.Second

// startPage implements --view. It uses any free port if the default is taken.
func (o *options) startPage(reporter *reporter) (*page, error) {
	limitMemory(largeMemoryLimit)
	store, err := openSessions(viewer.Retention{Bytes: defaultKept}, time.After(openPatience), reporter.failed)
	if err != nil {
		return nil, err
	}
	store.StallAfter = o.stallAfter
	cfg := viewer.Config{Page: defaultPage, Store: store}
	v, err := viewer.Start(cfg)
	if err != nil {
		cfg.Page = "127.0.0.1:0"
		v, err = viewer.Start(cfg)
	}
	if err != nil {
		store.Close()
		return nil, err
	}
	url := v.URL() + "#/latest"
	reporter.say("the trace is at %s", url)
	openPage(url, !o.noOpen && reporter.terminal)
	return &page{queue: viewer.NewQueue(store, true), viewer: v}, nil
}

// openPage opens url in the user's browser if the user wants that. It does not wait: some
// browsers run for as long as their window is open. Nothing reaches stdout, which carries the
// stream.
func openPage(url string, wanted bool) {
	if !wanted {
		return
	}
	commands := [][]string{{"xdg-open"}, {"x-www-browser"}, {"www-browser"}, {"wslview"}}
	switch runtime.GOOS {
	case "darwin":
		commands = [][]string{{"open"}}
	case "windows":
		commands = [][]string{{"rundll32", "url.dll,FileProtocolHandler"}}
	}
	for _, command := range commands {
		if _, err := exec.LookPath(command[0]); err == nil {
			go func() { _ = exec.CommandContext(context.Background(), command[0], append(command[1:], url)...).Run() }()
			return
		}
	}
}
