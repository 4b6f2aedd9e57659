package main

import (
	"bytes"
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spantee/spantee/cmd/spantee/internal/proc"
	"github.com/spantee/spantee/cmd/spantee/internal/tee"
	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/spool"
	"github.com/spantee/spantee/exporter/standstill"
	"github.com/spantee/spantee/exporter/tree"
	"github.com/spantee/spantee/mapping"
)

// A hungCollector accepts requests and never answers.
type hungCollector struct{}

func (hungCollector) Stop(context.Context) error { return nil }
func (hungCollector) UploadTraces(ctx context.Context, _ []byte) error {
	<-ctx.Done()
	return ctx.Err()
}
func (hungCollector) Destination() spool.Destination { return spool.Destination{} }

// A fullPipe blocks whoever writes to it.
type fullPipe struct{ emptied chan struct{} }

func (p fullPipe) Write(b []byte) (int, error) {
	<-p.emptied
	return len(b), nil
}

// Whatever hangs at the end, it hangs until one deadline. Time is synctest's.
func TestOneDeadline(t *testing.T) {
	stream := bytes.Repeat(fixture(t, "parallel-tools.jsonl"), 100) // its trees do not fit into stderr's buffer
	for name, test := range map[string]struct{ tree, mapped, recording bool }{
		"collector and stderr":              {false, true, false},
		"collector, stderr and tree":        {true, true, false},
		"collector, stderr and mapper":      {true, false, false},
		"collector and mapper, no tree":     {false, false, false},
		"collector and stderr, a recording": {false, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				used := standstill.Used
				standstill.Used = func() time.Duration { return 0 } // the test's clock does not follow the processor's
				defer func() { standstill.Used = used }()
				stderr := fullPipe{make(chan struct{})}
				defer close(stderr.emptied)
				const timeout = time.Minute
				o := &options{flushTimeout: timeout, summary: true}
				reporter := &reporter{options: o, verbose: true, cfg: new(config), w: proc.NewStderr(stderr, o.patience())}
				e := exporter.New(exporter.Config{Client: hungCollector{}})
				tr := &sinks{opts: o, cfg: reporter.cfg, reporter: reporter, metrics: newMeter(nil, nil, nil), exporter: e}
				tr.common = tracer.Config{Live: !test.recording, Consumers: []tracer.Consumer{&tracer.Delivery{Exporter: e}}}
				if test.tree {
					tr.tree = tree.NewWriter(reporter.w, tree.Style{})
					tr.common.Consumers = append(tr.common.Consumers, tracer.Func(func(span *tracer.Span) { tr.tree.Export(span.Facts()) }))
				}
				mapped, err := tracer.New(tr.streamConfig(mapping.Options{}))
				if err != nil {
					t.Fatal(err)
				}
				p := &mapLoop{
					stream: mapped, sinks: tr, ending: &ending{sinks: tr, reporter: reporter, timeout: timeout}, reporter: reporter, tee: tee.New(bytes.NewReader(stream), io.Discard, tee.Options{Waits: test.recording}), done: make(chan struct{}),
				}
				if test.mapped {
					go p.run()
				}
				if err := p.tee.Copy(); err != nil {
					t.Fatal(err)
				}
				ended := time.Now()
				p.end(false)
				reporter.print(p.ending.result, true)
				if took := time.Since(ended); took > timeout+timeout/10 {
					t.Errorf("the end took %v", took)
				}
			})
		})
	}
}
