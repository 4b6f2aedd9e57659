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

func TestABacklogGoesInFewRequests(t *testing.T) {
	s := newSpool(t)
	wait(t, s, numbered(0, 300, 300))
	c := new(fake)
	sum, err := drainAll(t, s, c)
	if err != nil || sum.Delivered != 300 || c.attempts != 1 {
		t.Errorf("%+v in %d requests, %v", sum, c.attempts, err)
	}
}

// A request that the receiver will never accept does not cost those it was
// joined with.
func TestTheRejectedOneOfAJoinedRequestIsFound(t *testing.T) {
	const requests = 60 // fewer than maxHalvings can tell apart
	s := newSpool(t)
	wait(t, s, numbered(0, requests, 300))
	c := &fake{answer: func(_ context.Context, spans []*tracepb.Span) error {
		for _, span := range spans {
			if span.Name == "0037" {
				return errBad
			}
		}
		return nil
	}}
	sum, err := drainAll(t, s, c)
	if want := (Earlier{Fates: Fates{Delivered: requests - 1, Rejected: 1}}); err != nil || sum != want || c.attempts > 1+2*maxHalvings {
		t.Errorf("%+v in %d attempts, %v", sum, c.attempts, err)
	}
	rejected, _ := kept(t, s, spool.Rejected)
	if got := fmt.Sprint(namesOf(rejected)); got != "[0037]" {
		t.Errorf("rejected are %s", got)
	}
}

func TestAReceiverThatRejectsEverythingIsNotStormed(t *testing.T) {
	s := newSpool(t)
	wait(t, s, numbered(0, 300, 300))
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
		if most := seconds/int(drainRest/time.Second) + 1; asked < 2 || asked > most {
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
	if err := s.Put(t.Context(), to, requestOfNumbers(t, 0, 2), ""); err != nil {
		t.Fatal(err)
	}
	var named Client
	flush := func() Flushed {
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

func requestOfNumbers(t *testing.T, from, to int) spool.Request {
	t.Helper()
	return spool.RequestOf(spooled(new(spool.Origin), numbered(from, to, 300)...))
}

// putTwoResources keeps a file of five spans, two of one resource and three of another.
func putTwoResources(t *testing.T, s *spool.Spool, c *fake) {
	t.Helper()
	other := newOrigin(nil, &commonpb.InstrumentationScope{Name: "other"})
	spans := append(spooled(new(spool.Origin), numbered(0, 2, 300)...), spooled(other, numbered(2, 5, 300)...)...)
	must(t, s.Put(t.Context(), c.Destination(), spool.RequestOf(spans), "it was down"))
}

// A file with spans of two resources goes in two requests, and draining may end between
// them.
func TestDrainingMayEndWithinAFile(t *testing.T) {
	s, c := newSpool(t), new(fake)
	putTwoResources(t, s, c)
	for _, want := range []int{2, 3} {
		asked := 0
		b := Backlog{Spool: *s, To: c.Destination(), sender: &sender{client: c}, More: func(time.Duration) bool { asked++; return asked == 1 }}
		if err := b.Send(t.Context(), t.Context()); err != nil || b.Earlier != (Earlier{Fates: Fates{Delivered: want}}) {
			t.Errorf("%+v, %v", b.Earlier, err)
		}
	}
	if got := fmt.Sprint(c.names()); got != "[0000 0001 0002 0003 0004]" || c.attempts != 2 {
		t.Errorf("taken are %s in %d requests", got, c.attempts)
	}
}

// TestDrainingOthers sends a file of another process whose second request has to wait once:
// it stays the other's.
func TestDrainingOthers(t *testing.T) {
	s, c := newSpool(t), new(fake)
	putTwoResources(t, s, c)
	s.Owner = spool.NewOwner()
	requests := 0
	c.answer = func(context.Context, []*tracepb.Span) error {
		if requests++; requests == 2 {
			return &UploadError{Verdict: Retryable, Err: errors.New("busy")}
		}
		return nil
	}
	b := Backlog{Spool: *s, To: c.Destination(), sender: &sender{client: c}, More: func(time.Duration) bool { return true }}
	_ = b.Send(t.Context(), t.Context()) // its error says why the second request had to wait
	if b.Earlier != (Earlier{Fates: Fates{Delivered: 5}}) || b.own != (Fates{}) || len(c.names()) != 5 {
		t.Errorf("earlier %+v, own %+v", b.Earlier, b.own)
	}
}

// What no destination is known of is lost all the same.
func TestFlushCountsWhatCannotBeRead(t *testing.T) {
	s := newSpool(t)
	must(t, s.Put(t.Context(), new(fake).Destination(), requestOfNumbers(t, 0, 2), ""))
	entries, err := s.List(t.Context())
	must(t, err)
	must(t, os.WriteFile(entries[0].Path, make([]byte, entries[0].Bytes), 0o600))
	all, err := Flush(t.Context(), *s, func(spool.Destination) (Client, error) { return new(fake), nil }, nil)
	if err != nil || len(all) != 1 || all[0].Dropped != 2 {
		t.Errorf("%+v, %v", all, err)
	}
}
