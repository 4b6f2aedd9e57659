package exporter

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/exporter/spool"
)

// freeze makes calls of a kind on the disk hang until they are released.
func freeze(t *testing.T, call string) (release func()) {
	t.Helper()
	frozen := make(chan struct{})
	hang := func(c string) {
		if c == call {
			<-frozen
		}
	}
	spool.OnDisk.Store(&hang)
	return func() {
		close(frozen)
		synctest.Wait()
		spool.OnDisk.Store(nil)
	}
}

// patience is how long an idle process waits for a frozen disk.
const patience = 2 * time.Second

// A span is sent only once the log has it, with the ids of its root: otherwise a kill would
// make it an orphan.
func TestNothingIsSentBeforeItIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var start time.Time // of a write that hangs
		c := &fake{answer: func(_ context.Context, spans []*tracepb.Span) error {
			if !start.IsZero() && time.Since(start) < patience {
				t.Error("a span was sent before it was on disk")
			}
			return nil
		}}
		e := New(Config{Client: c, Spool: newSpool(t), Interval: time.Second})
		snapshot(t, e, numbered(50, 51, 300)...)
		release := freeze(t, "append")
		start = time.Now()
		exportAll(e, numbered(1, 2, 300))
		if took := time.Since(start); took < patience || took > 2*patience {
			t.Errorf("waited %v for the disk", took)
		}
		start = time.Time{}
		again := time.Now()
		exportAll(e, numbered(2, 3, 300))
		if took := time.Since(again); took > 0 {
			t.Errorf("waited %v again", took)
		}
		time.Sleep(e.cfg.Interval)
		synctest.Wait()
		if n := len(c.names()); n != 2 {
			t.Errorf("%d spans were sent while the disk hangs", n)
		}
		release()
		closeKeeping(t, e, time.Second)
	})
}

// exportWhileWriting makes the disk slow until restore is called, and exports the spans
// n and n+1.
func exportWhileWriting(e *Exporter, slow func(call string), n int) (restore func()) {
	spool.OnDisk.Store(&slow)
	exportAll(e, numbered(n, n+1, 300))
	synctest.Wait()
	exportAll(e, numbered(n+1, n+2, 300))
	return func() { spool.OnDisk.Store(nil) }
}

// A slow disk is waited for.
func TestCloseWaitsForASlowDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var written atomic.Int32
		slow := func(call string) {
			if call == "append" {
				time.Sleep(500 * time.Millisecond)
				written.Add(1)
			}
		}
		early := false
		c := &fake{answer: func(_ context.Context, spans []*tracepb.Span) error {
			for _, span := range spans { // each in a write of its own
				early = early || fmt.Sprintf("%04d", written.Load()) <= span.Name
			}
			return nil
		}}
		e := New(Config{Client: c, Spool: newSpool(t)})
		snapshot(t, e, numbered(50, 51, 300)...)
		synctest.Wait()
		defer exportWhileWriting(e, slow, 0)()
		wantFates(t, closeKeeping(t, e, 2*time.Second), 2, 0, 0, 0)
		if early {
			t.Error("a span was sent before it was on disk")
		}
	})
}

// Close comes back in time from a disk that does not answer, and counts what the disk has not
// confirmed.
func TestCloseDoesNotWaitForAFrozenDisk(t *testing.T) {
	for call, spooled := range map[string]int{"rename": 3, "create": 0, "append": 0, "": 3} {
		t.Run(call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSpool(t)
				e := New(Config{Client: &fake{answer: answers(errRefused)}, Spool: s})
				var release func()
				if call == "create" { // before there is a log
					release = freeze(t, call)
				}
				_ = exportOpen(e, numbered(50, 51, 300)...) // which may fail
				synctest.Wait()
				if release == nil {
					release = freeze(t, call)
				}
				exportAll(e, numbered(0, 3, 300))
				_ = exportOpen(e) // which may fail
				start := time.Now()
				r := closeKeeping(t, e, 2*time.Second)
				if took := time.Since(start); took > 2*time.Second+patience {
					t.Errorf("took %v", took)
				}
				if r.Spooled+r.Dropped != 3 || r.Spooled != spooled && call != "append" {
					t.Errorf("%+v", r)
				}
				if r.Dropped > 0 && r.NotKept == nil && r.Cause == nil {
					t.Errorf("nothing says why: %+v", r)
				}
				release()
				time.Sleep(time.Second)
				synctest.Wait()
			})
		})
	}
}

// A stream is not held up by a disk that hangs for more than once.
func TestAFrozenDiskHoldsUpAStreamOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpool(t)
		hang := func(ctx context.Context, _ []*tracepb.Span) error { <-ctx.Done(); return errTimeout }
		e := New(Config{Client: &fake{answer: hang}, Spool: s, MaxRequest: 1000, MaxQueue: 3000})
		release := freeze(t, "rename")
		start := time.Now()
		exportAll(e, numbered(0, 100, 300))
		if took := time.Since(start); took > patience+time.Second {
			t.Errorf("Export took %v", took)
		}
		release()
		time.Sleep(time.Second)
		r := closeKeeping(t, e, time.Second)
		if r.NotKept == nil {
			t.Errorf("%+v", r)
		}
	})
}

// A piece waits for the collector before it is queued, and may then overfill the queue.
func TestAPieceWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fake{answer: func(context.Context, []*tracepb.Span) error { time.Sleep(time.Second); return nil }}
		e := New(Config{Client: c, Patience: time.Minute, MaxRequest: 1000, MaxQueue: 2000})
		n := 0
		for range 20 {
			export(e, numbered(n, n+10, 300)...)
			n += 10
			synctest.Wait() // the exporter sleeps, and leaves the queue alone
			if e.queue.bytes > 2000+10*400 {
				t.Errorf("%d bytes are queued", e.queue.bytes)
			}
		}
		wantFates(t, closeKeeping(t, e, time.Hour), n, 0, 0, 0)
	})
}
