package exporter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/exporter/spool"
)

// A span that the receiver will never accept does not cost those it was sent with.
func TestTheRejectedSpanIsFound(t *testing.T) {
	const spans = 60 // fewer than maxHalvings can tell apart
	s := newSpool(t)
	leave(t, s, new(fake).Destination(), spooled(new(spool.Origin), numbered(0, spans, 300)...))
	c := &fake{answer: func(_ context.Context, spans []*tracepb.Span) error {
		for _, span := range spans {
			if span.Name == "0037" {
				return errBad
			}
		}
		return nil
	}}
	sum, err := drainAll(t, s, c)
	if want := (Earlier{Delivered: spans - 1, Rejected: 1}); err != nil || sum != want || c.attempts > 1+2*maxHalvings {
		t.Errorf("%+v in %d attempts, %v", sum, c.attempts, err)
	}
	rejected, _ := kept(t, s, spool.Rejected)
	if got := fmt.Sprint(namesOf(rejected)); got != "[0037]" {
		t.Errorf("rejected are %s", got)
	}
}

func TestAReceiverThatRejectsEverythingIsNotStormed(t *testing.T) {
	s := newSpool(t)
	leave(t, s, new(fake).Destination(), spooled(new(spool.Origin), numbered(0, 300, 300)...))
	c := &fake{answer: answers(errBad)}
	sum, err := drainAll(t, s, c)
	if most := 2 << maxHalvings; err != nil || sum.Rejected != 300 || c.attempts > most {
		t.Errorf("%+v in %d attempts, want %d at most, %v", sum, c.attempts, most, err)
	}
}

// A receiver that takes new spans, but not yet the old ones, is not asked again
// with every new one.
func TestAFailedBacklogRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpool(t)
		wait(t, s, numbered(0, 5, 300))
		asked := 0
		c := &fake{answer: func(_ context.Context, spans []*tracepb.Span) error {
			if earlier(spans) {
				asked++
				return errBusy
			}
			return nil
		}}
		e := New(Config{Client: c, Spool: s})
		const seconds = 60
		for i := range seconds {
			exportAll(e, numbered(100+i, 101+i, 300))
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if most := 2 * (seconds/int(drainRest/time.Second) + 1); asked < 2 || asked > most {
			t.Errorf("asked %d times in %d s, want %d at most", asked, seconds, most)
		}
		closeKeeping(t, e, time.Second)
	})
}

// Between two requests of a backlog there is time for others.
func TestABacklogLeavesRoomForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const requests, each = 20, 100 * time.Millisecond
		s := newSpool(t)
		wait(t, s, numbered(0, requests, unjoinable))
		var busy time.Duration
		c := &fake{answer: func(_ context.Context, spans []*tracepb.Span) error {
			if earlier(spans) {
				time.Sleep(each)
				busy += each
			}
			return nil
		}}
		e := New(Config{Client: c, Spool: s})
		exportAll(e, numbered(100, 101, 300))
		start := time.Now()
		for len(c.names()) < requests+1 {
			time.Sleep(each / 10)
		}
		synctest.Wait()
		if took := time.Since(start) - e.cfg.Interval; busy != requests*each || took < busy*5/4 || took > 3*busy {
			t.Errorf("busy for %v of %v", busy, took)
		}
		closeKeeping(t, e, time.Second)
	})
}

// A path that was found in a spool is told to nobody who could write to it.
func TestFlushNamesNoFile(t *testing.T) {
	s := newSpool(t)
	to := spool.Destination{Protocol: spool.File, Endpoint: "/home/victim/.profile"}
	leave(t, s, to, spooled(new(spool.Origin), numbered(0, 2, 300)...))
	var named Client
	flush := func() *Flushed {
		all, err := Flush(t.Context(), *s, func(to spool.Destination) (Client, error) {
			if to != (spool.Destination{Protocol: spool.File}) {
				t.Errorf("dial is told %+v", to)
			}
			return named, nil
		}, nil)
		if err != nil || len(all) != 1 || all[0].To != to {
			t.Fatalf("%+v, %v", all, err)
		}
		return all[0]
	}
	f := flush()
	if e, ok := errors.AsType[*Error](f.Err); !ok || e.Hint == "" || f.Delivered > 0 {
		t.Errorf("%+v", f)
	}
	c := new(fake)
	named = c
	if f := flush(); f.Err != nil || f.Delivered != 2 || len(c.names()) != 2 {
		t.Errorf("%+v", f)
	}
}

// leaveTwoResources leaves five spans, two of one resource and three of another.
func leaveTwoResources(t *testing.T, s *spool.Spool, c *fake) {
	t.Helper()
	other := spool.NewOrigin(nil, &commonpb.InstrumentationScope{Name: "other"})
	leave(t, s, c.Destination(), append(spooled(new(spool.Origin), numbered(0, 2, 300)...), spooled(other, numbered(2, 5, 300)...)...))
}

// A log with spans of two resources goes in two requests, and sending may end between them.
func TestSendingMayEndWithinALog(t *testing.T) {
	s, c := newSpool(t), new(fake)
	leaveTwoResources(t, s, c)
	for _, want := range []int{2, 3} {
		asked := 0
		b := backlog{sender: &sender{client: c}, more: func(time.Duration) bool { asked++; return asked == 1 }}
		for claim, err := range s.Claims(1) {
			must(t, err)
			if sum := b.send(t.Context(), claim); sum != (Earlier{Delivered: want}) {
				t.Errorf("%+v", sum)
			}
		}
	}
	if got := fmt.Sprint(c.names()); got != "[0000 0001 0002 0003 0004]" || c.attempts != 2 {
		t.Errorf("taken are %s in %d requests", got, c.attempts)
	}
}

// A request of a log that has to wait is sent by the next flush, and the others are not sent
// again.
func TestARequestThatWaits(t *testing.T) {
	s, c := newSpool(t), new(fake)
	leaveTwoResources(t, s, c)
	requests := 0
	c.answer = func(context.Context, []*tracepb.Span) error {
		if requests++; requests == 2 {
			return &UploadError{Verdict: Retryable, Err: errors.New("busy")}
		}
		return nil
	}
	for _, want := range []int{2, 3} {
		if sum, err := drainAll(t, s, c); sum != (Earlier{Delivered: want}) || (err != nil) != (want == 2) {
			t.Errorf("%+v, %v", sum, err)
		}
	}
}

// A log with metrics is removed when both are delivered.
func TestMetricsOfAKilledProcess(t *testing.T) {
	for _, tt := range []struct {
		name        string
		answer      error
		sent, again int
	}{
		{"accepted", nil, 1, 0},
		{"not wanted", &UploadError{Verdict: Permanent, Err: errors.New("unimplemented")}, 1, 0},
		{"busy", errBusy, 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, c := newSpool(t), &metricsFake{answer: tt.answer}
				killed := New(Config{Client: new(fake), Spool: s, Metrics: c})
				must(t, killed.Export(nil, &spool.Snapshot{Open: spansOf(numbered(0, 1, 300)), Metrics: []byte("totals")}))
				must(t, exportOpen(killed, numbered(0, 1, 300)...)) // the metrics are still good
				kill(t, killed, s)
				_, err := drainAll(t, s, c)
				if (err != nil) != (tt.again > 0) || len(c.requests) != tt.sent || c.requests[0] != "totals" {
					t.Errorf("%q sent, %v", c.requests, err)
				}
				if c.answer, c.requests = nil, nil; true {
					_, _ = drainAll(t, s, c)
				}
				if entries, _ := s.List(); len(c.requests) != tt.again || len(entries) > 0 {
					t.Errorf("%q sent again, left %+v", c.requests, entries)
				}
				closeKeeping(t, killed, 0)
			})
		})
	}
}

// A metricsFake takes metrics, too.
type metricsFake struct {
	fake
	answer   error
	requests []string
}

func (f *metricsFake) UploadMetrics(_ context.Context, request []byte) error {
	f.requests = append(f.requests, string(request))
	return f.answer
}

// LastMetrics gets what became of the spans, and what it returns stays in the log.
func TestLastMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newSpool(t), new(metricsFake)
		e := New(Config{Client: new(fake), Spool: s, Metrics: c, LastMetrics: func(r Report) []byte {
			return fmt.Append(nil, r.Delivered, " delivered")
		}})
		exportAll(e, numbered(0, 2, 300))
		wantFates(t, closeKeeping(t, e, time.Second), 2, 0, 0, 0)
		if sum, err := drainAll(t, s, c); err != nil || sum != (Earlier{}) || fmt.Sprint(c.requests) != "[2 delivered]" {
			t.Errorf("%+v, %v, sent %q", sum, err, c.requests)
		}
	})
}

// What cannot be read is set aside.
func TestFlushSetsAsideWhatCannotBeRead(t *testing.T) {
	s := newSpool(t)
	leave(t, s, new(fake).Destination(), spooled(new(spool.Origin), numbered(0, 2, 300)...))
	entries, err := s.List()
	must(t, err)
	must(t, os.WriteFile(entries[0].Path, make([]byte, entries[0].Bytes), 0o600))
	aside := 0
	s.SetAside = func(*spool.Untrusted) { aside++ }
	for range 2 {
		if sum, err := drainAll(t, s, new(fake)); err != nil || sum != (Earlier{}) || aside != 1 {
			t.Errorf("%+v, %v, %d set aside", sum, err, aside)
		}
	}
}
