package exporter

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"

	"github.com/spantee/spantee/exporter/standstill"
)

func TestMain(m *testing.M) {
	standstill.Used = func() time.Duration { return 0 } // the tests' clock does not follow the processor's
	goleak.VerifyTestMain(m)
}

// Without a log, Export gives a collector that accepts nothing one second, once.
func TestExportWaitsLittle(t *testing.T) {
	tests := []struct {
		name      string
		upload    func(context.Context, int, []*tracepb.Span) error
		cause     string
		delivered bool
	}{
		{"slow", func(_ context.Context, n int, _ []*tracepb.Span) error {
			if n == 1 {
				time.Sleep(time.Minute)
			}
			return nil
		}, "the collector is too slow", true},
		{"stuck", always(errRefused), "connection refused", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &scripted{upload: tt.upload}
				e := New(Config{Client: c, MaxRequest: 1000, MaxQueue: 3000})
				start := time.Now()
				for i := range 100 {
					export(e, sized(fmt.Sprint(i), 300))
					synctest.Wait()
				}
				export(e, sized("root", 300))
				if took := time.Since(start); took != leastPatience {
					t.Errorf("Export waited for %v", took)
				}
				r := closeWithin(t, e, time.Hour)
				if r.Dropped == 0 || (r.Delivered > 0) != tt.delivered {
					t.Errorf("%d dropped, %d delivered", r.Dropped, r.Delivered)
				}
				wantReport(t, r, r.Delivered, r.Dropped, tt.cause)
				if n := len(c.taken); n > 0 && c.taken[n-1] != "root" {
					t.Errorf("the last span delivered is %s, want the root", c.taken[n-1])
				}
			})
		})
	}
}

func TestExportWaitsForRoomInAReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &scripted{upload: func(_ context.Context, n int, _ []*tracepb.Span) error {
			switch n % 10 {
			case 0:
				return errBusy
			case 1:
			default:
				time.Sleep(time.Minute - time.Second)
			}
			return nil
		}}
		e := New(Config{Client: c, Patience: time.Minute, MaxRequest: 1000, MaxQueue: 3000})
		const spans = 300
		for i := range spans {
			export(e, sized(fmt.Sprint(i), 300))
		}
		wantReport(t, closeWithin(t, e, time.Hour), spans, 0, "")
	})
}

func TestExportLosesPatienceInAReplay(t *testing.T) {
	hang := func(ctx context.Context, _ int, _ []*tracepb.Span) error {
		<-ctx.Done()
		return errTimeout
	}
	tests := []struct {
		name   string
		upload func(context.Context, int, []*tracepb.Span) error
		takes  time.Duration
		cause  string
	}{
		{"refused", always(errRefused), shortPatience, "connection refused"},
		{"hung", hang, time.Minute, "the collector is too slow"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := New(Config{Client: &scripted{upload: tt.upload}, Patience: time.Minute, MaxRequest: 1000, MaxQueue: 3000})
				start := time.Now()
				for i := range 1000 {
					export(e, sized(fmt.Sprint(i), 300))
				}
				if took := time.Since(start); took != tt.takes {
					t.Errorf("waited for %v, want %v", took, tt.takes)
				}
				wantReport(t, closeWithin(t, e, time.Second), 0, 1000, tt.cause)
			})
		})
	}
}

// Export waits for a collector that takes something, as long as its patience, and not after
// the end of the stream.
func TestPatience(t *testing.T) {
	slow := func(context.Context, int, []*tracepb.Span) error {
		time.Sleep(3 * time.Second)
		return nil
	}
	for _, tt := range []struct {
		name   string
		upload func(context.Context, int, []*tracepb.Span) error
		ends   time.Duration // when the stream ends
		takes  time.Duration
		lost   bool
	}{
		{name: "slow", upload: slow, takes: 6 * time.Second},
		{name: "busy", upload: always(errBusy), takes: time.Minute, lost: true},
		{name: "slow, at the end", upload: slow, ends: time.Second, takes: time.Second},
		{name: "absent", upload: always(errRefused), takes: shortPatience, lost: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := New(Config{Client: &scripted{upload: tt.upload}, Patience: time.Minute, MaxRequest: 1000, MaxQueue: 3000})
				export(e, sized("first", 900)) // is in flight, or fails
				synctest.Wait()
				if tt.ends > 0 {
					time.AfterFunc(tt.ends, e.EndStream)
				}
				start := time.Now()
				const spans = 12
				for range spans {
					export(e, sized("span", 300))
				}
				if took := time.Since(start); took != tt.takes {
					t.Errorf("waited for %v, want %v", took, tt.takes)
				}
				r := closeWithin(t, e, time.Hour)
				if lost := r.Delivered < spans+1; lost != tt.lost {
					t.Errorf("%+v", r)
				}
			})
		})
	}
}

// What a backlog has left in the queue is not dropped for what comes after it.
func TestPieceAfterBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(context.Context, int, []*tracepb.Span) error {
			time.Sleep(3 * time.Second)
			return nil
		}
		e := New(Config{Client: &scripted{upload: slow}, Patience: time.Minute, MaxRequest: 1000, MaxQueue: 3000})
		exportPiece := func(spans int) {
			export(e, slices.Repeat([]*tracepb.Span{sized("span", 300)}, spans)...)
		}
		exportPiece(11)
		e.EndStream()
		exportPiece(1)
		wantReport(t, closeWithin(t, e, time.Hour), 12, 0, "")
	})
}

// A piece for which there was room is delivered whole, however large it is.
func TestLargePieceInBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(context.Context, int, []*tracepb.Span) error {
			time.Sleep(3 * time.Second)
			return nil
		}
		e := New(Config{Client: &scripted{upload: slow}, Patience: time.Minute, MaxRequest: 100 << 10, MaxQueue: 300 << 10})
		const pieces, spans = 3, 30
		for range pieces {
			export(e, slices.Repeat([]*tracepb.Span{sized("span", 50<<10)}, spans)...)
		}
		wantReport(t, closeWithin(t, e, time.Hour), pieces*spans, 0, "")
	})
}

func TestCloseWakesAnExportThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Config{Client: &scripted{upload: always(errBusy)}, Patience: time.Minute, MaxRequest: 1000, MaxQueue: 3000})
		var exporting sync.WaitGroup
		exporting.Go(func() {
			for i := range 20 {
				export(e, sized(fmt.Sprint(i), 300))
			}
		})
		synctest.Wait()
		closeWithin(t, e, 0)
		exporting.Wait()
		wantReport(t, closeWithin(t, e, 0), 0, 20, "")
	})
}

func TestASpanTooLargeForARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Config{Client: new(scripted)})
		export(e, sized("small", 100))
		export(e, sized("big", 3<<20))
		wantReport(t, closeWithin(t, e, time.Second), 1, 1, "exceeds the maximum request size")
	})
}

func TestSpansAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Config{Client: new(scripted)})
		wantReport(t, closeWithin(t, e, time.Second), 0, 0, "")
		export(e, sized("late", 100))
		wantReport(t, closeWithin(t, e, time.Second), 0, 1, "time ran out")
	})
}

func TestExportConcurrentSafe(t *testing.T) {
	for _, patience := range []time.Duration{0, time.Minute} {
		c := new(scripted)
		e := New(Config{Client: c, Patience: patience, MaxRequest: 1000, Interval: time.Microsecond})
		var exporting sync.WaitGroup
		for range 8 {
			exporting.Go(func() {
				for range 500 {
					export(e, sized("a", 300))
				}
			})
		}
		closeWithin(t, e, time.Minute) // in the middle of it
		exporting.Wait()
		r := closeWithin(t, e, time.Minute)
		if r.Ended != 8*500 || r.Delivered != len(c.taken) {
			t.Errorf("%+v, and %d were taken", r, len(c.taken))
		}
	}
}
