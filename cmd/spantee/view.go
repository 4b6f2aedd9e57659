package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/cli/browser"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/viewer"
	"github.com/spantee/spantee/mapping"
)

// defaultPage is next to OTLP's own ports, 4317 and 4318.
const defaultPage = "127.0.0.1:4319"

const viewUsage = `view shows traces in the browser. It takes them by OTLP, so that spantee and any
other sender on this machine need no configuration, and from FILEs: recorded
streams of an agent or OTLP JSON lines, packed by gzip or not.

  spantee view                         and in another terminal: ... | spantee
  spantee view session.jsonl`

// defaultMemory is what a viewer keeps, in bytes.
const defaultMemory = 256 << 20

// addViewFlags adds those of --view.
func (o *options) addViewFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.show, "view", false, "also show each trace in the browser, until Ctrl-C")
	f.StringVar(&o.view.page, "listen", "", "serve that page at `HOST:PORT` (default "+defaultPage+", or a free port)")
	f.BoolVar(&o.view.noOpen, "no-open", false, "do not open the browser")
}

// viewOptions are the flags of view. The filter has the first two.
type viewOptions struct {
	page           string
	noOpen         bool
	grpc           string
	http           string
	maxMemory      size
	file           string
	contentOptions // of the streams in FILEs
}

func viewCommand() *cobra.Command {
	o := viewOptions{maxMemory: size{defaultMemory}}
	cmd := &cobra.Command{
		Use:   "view [FILE...]",
		Short: "Show traces in the browser",
		Long:  viewUsage,
		RunE:  func(_ *cobra.Command, files []string) error { return view(&o, files, os.Stderr) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.page, "listen", defaultPage, "serve the page at `HOST:PORT`; port 0 is any free one, as it is for the next two")
	f.StringVar(&o.grpc, "otlp-grpc", "127.0.0.1:4317", "take OTLP/gRPC at `HOST:PORT`")
	f.StringVar(&o.http, "otlp-http", "127.0.0.1:4318", "take OTLP/HTTP at `HOST:PORT`")
	f.Var(&o.maxMemory, "max-memory", "keep so much of traces, by `SIZE`; then the oldest are given up")
	f.StringVar(&o.file, "store", "", "append what arrives to `FILE` as OTLP JSON lines, and read it back at the start")
	f.BoolVar(&o.noOpen, "no-open", false, "do not open the browser")
	o.addFlags(f)
	return cmd
}

// view runs until Ctrl-C.
func view(o *viewOptions, files []string, stderr *os.File) error {
	var problems []error
	content, err := o.contentOptions.resolve(func(err error) { problems = append(problems, err) })
	if err != nil {
		return err
	}
	signals := catchSignals()
	say := func(format string, args ...any) { fmt.Fprintf(stderr, "spantee: "+format+"\n", args...) }
	for _, problem := range problems {
		say("%s", withHint(problem))
	}
	limitMemory(o.maxMemory.bytes)
	v, err := viewer.Start(viewer.Config{
		Page: o.page, GRPC: o.grpc, HTTP: o.http, MaxMemory: int(o.maxMemory.bytes), File: o.file,
		Problem: func(err error) { say("%v", err) },
	})
	if err != nil {
		return err
	}
	defer v.Close()
	for _, file := range files {
		if err := readFile(v.Store, file, content); err != nil {
			return err
		}
	}
	url := v.URL()
	if l := v.Store.List(viewer.Query{Limit: 1}); len(files) > 0 && l.Total == 1 {
		url += "#/trace/" + l.Sessions[0].ID
	}
	say("showing traces at %s, taking them at %s (gRPC) and %s (HTTP), until Ctrl-C", url, v.GRPCEndpoint(), v.HTTPEndpoint())
	if !o.noOpen && isTerminal(stderr) {
		openBrowser(url)
	}
	<-signals
	return nil
}

// limitMemory has the garbage of a store that is full collected while it is
// small: by itself Go would let the heap grow to twice what is in use.
func limitMemory(store int64) { debug.SetMemoryLimit(store + 64<<20) }

// openBrowser does not wait: some browsers run for as long as their window is open.
func openBrowser(url string) {
	browser.Stdout, browser.Stderr = io.Discard, io.Discard // stdout carries the stream
	go func() { _ = browser.OpenURL(url) }()
}

// readFile adds the traces in a file.
func readFile(store *viewer.Store, name string, content contentConfig) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	r := bufio.NewReader(f)
	if r, err = unpack(r); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if head, _ := r.Peek(512); isOTLP(head) {
		if bad, err := store.Read(r); err != nil {
			return fmt.Errorf("%s: %d lines could not be read, the first for this: %w", name, bad, err)
		}
		return nil
	}

	p := newPage(store)
	opts := mapping.Options{Replay: info.ModTime(), Emit: p.takeEncoded}
	content.applyTo(&opts)
	m, err := mapping.New(opts)
	if err != nil {
		return err
	}
	if _, err := io.Copy(m, r); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	m.Close(false)
	if m.Stats().Runs == 0 {
		return &exporter.Error{
			Err:  fmt.Errorf("%s: no session in it", name),
			Hint: "a file holds the stream of " + strings.Join(mapping.Agents, " or ") + ", or OTLP JSON lines",
		}
	}
	return nil
}

// isOTLP tells how a line of OTLP JSON begins: spantee's, a collector's, or one
// that was laid out by hand.
func isOTLP(head []byte) bool {
	rest, ok := bytes.CutPrefix(bytes.TrimSpace(head), []byte("{"))
	return ok && bytes.HasPrefix(bytes.TrimSpace(rest), []byte(`"resourceSpans"`))
}

// A page shows spans that are made in this process.
type page struct {
	store    *viewer.Store
	viewer   *viewer.Viewer // nil if another has it
	services services
	resource *resourcepb.Resource // of the agent at hand
	scope    *commonpb.InstrumentationScope
}

func newPage(store *viewer.Store) *page {
	return &page{store: store, services: services{}, scope: scope()}
}

// takeEncoded shows a span that the mapper emitted.
func (p *page) takeEncoded(span []byte, agent string) {
	p.resource, _ = p.services.of(agent) // what is wrong with it is said where spans are sent
	decoded := new(tracepb.Span)
	if proto.Unmarshal(span, decoded) == nil { // the mapper's spans are valid
		p.take(decoded)
	}
}

// take shows a span.
func (p *page) take(span *tracepb.Span) {
	p.store.Add([]*tracepb.ResourceSpans{{
		Resource:   p.resource,
		ScopeSpans: []*tracepb.ScopeSpans{{Scope: p.scope, Spans: []*tracepb.Span{span}}},
	}})
}

// startPage is --view. Where nobody said which port, any will do.
func (o *options) startPage(say *reporter) (*page, error) {
	limitMemory(defaultMemory)
	cfg := viewer.Config{Page: o.view.page, MaxMemory: defaultMemory}
	if cfg.Page == "" {
		cfg.Page = defaultPage
	}
	v, err := viewer.Start(cfg)
	if err != nil && o.view.page == "" {
		cfg.Page = "127.0.0.1:0"
		v, err = viewer.Start(cfg)
	}
	if err != nil {
		return nil, err
	}
	p := newPage(v.Store)
	p.viewer = v
	url := v.URL() + "#/latest"
	if !o.quiet {
		say.line("the trace is at %s", url)
	}
	if !o.view.noOpen && say.terminal {
		openBrowser(url)
	}
	return p, nil
}

// stay keeps the page up after a stream that ended by itself, until a signal.
func (t *tracing) stay(end exitStatus) {
	if t.page == nil {
		return
	}
	if !end.interrupted() {
		signals := catchSignals()
		if !t.quiet {
			t.say.line("the page stays until Ctrl-C")
		}
		<-signals
	}
	t.page.viewer.Close()
}
