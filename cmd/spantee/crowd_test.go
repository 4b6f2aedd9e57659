package main

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// TestCrowdOnOneSpool runs many commands at once over one spool, while the collector
// hangs. Each span is spooled, none is said to be lost, and a later flush sends each
// once.
func TestCrowdOnOneSpool(t *testing.T) {
	t.Parallel()
	runs := cases(10, 300)
	c := newCollector(t)
	c.start("hung")
	env := append(c.environment("grpc"), "XDG_STATE_HOME="+t.TempDir())
	all := map[string]*tracepb.Span{}
	var commands sync.WaitGroup
	var mu sync.Mutex
	spooled, lost := 0, 0
	for i := range runs {
		lines := stream(fmt.Sprint("s", i), 3)
		ended, _ := spansIn(t, lines, false)
		for id, span := range ended {
			all[id] = span
		}
		commands.Go(func() {
			said := pipe(t, lines, env, "--flush-timeout=1s").stderr.String()
			mu.Lock()
			defer mu.Unlock()
			kept, gone := numberBefore(said, "spooled for retry"), numberBefore(said, "lost")
			spooled += kept
			lost += gone
			if kept != len(ended) || gone > 0 {
				t.Logf("a command of %d spans said: %q", len(ended), said)
			}
		})
	}
	commands.Wait()
	if spooled != len(all) || lost > 0 {
		t.Errorf("%d spans ended: %d are said to be spooled, %d lost", len(all), spooled, lost)
	}
	c.kill()
	c.start("well")
	flushed := spantee(t, env, "flush")
	if err := flushed.Run(); err != nil {
		t.Error(err)
	}
	if said := flushed.stdout.Bytes(); bytes.Contains(said, []byte("recovered")) {
		t.Errorf("flush recovered spans of processes that were not killed: %s", said)
	}
	got, again := c.taken()
	wantSpans(t, got, all)
	if again > 0 {
		t.Errorf("%d spans came twice", again)
	}
	faults.add(fmt.Sprintf("a crowd of processes while the collector hangs, %d", runs), len(all), 0, spooled, lost)
}
