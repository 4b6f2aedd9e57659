package exporter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/exporter/spool"
)

// unjoinable is the size of a span that is joined with no other in a request.
const unjoinable = 1600 << 10

// leave leaves spans as a process does that ends.
func leave(t *testing.T, s *spool.Spool, to spool.Destination, spans []*spool.Span) {
	t.Helper()
	log := s.NewLog(to, nil)
	must(t, log.Append(spans, nil))
	if !log.Close("it was down", nil) {
		t.Fatal("nothing was kept")
	}
}

// wait leaves each of the spans in a log of its own, earlier ones first.
func wait(t *testing.T, s *spool.Spool, spans []*tracepb.Span) {
	t.Helper()
	for _, span := range spans {
		leave(t, s, new(fake).Destination(), spooled(new(spool.Origin), span))
		time.Sleep(time.Microsecond) // in a bubble two files might be of one instant
	}
}

func spooled(of *spool.Origin, spans ...*tracepb.Span) (all []*spool.Span) {
	for _, span := range spans {
		all = append(all, &spool.Span{Wire: spool.AppendSpan(nil, encode(span)), Of: of})
	}
	return all
}

func TestASuccessSendsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpool(t)
		wait(t, s, numbered(0, 5, 300))
		c := new(fake)
		e := New(Config{Client: c, Spool: s})
		exportAll(e, numbered(100, 101, 300))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := fmt.Sprint(c.names()); got != "[0100 0000 0001 0002 0003 0004]" {
			t.Errorf("taken are %s", got)
		}
		r := closeKeeping(t, e, time.Second)
		wantFates(t, r, 1, 0, 0, 0)
		if want := (Earlier{Delivered: 5}); r.Earlier != want {
			t.Errorf("earlier %+v, want %+v", r.Earlier, want)
		}
	})
}

func TestWithoutASuccessNothingThatWaitsIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpool(t)
		wait(t, s, numbered(0, 5, 300))
		e := New(Config{Client: &fake{answer: answers(errBusy)}, Spool: s})
		exportAll(e, numbered(100, 101, 300))
		time.Sleep(2 * time.Second)
		r := closeKeeping(t, e, time.Second)
		wantFates(t, r, 0, 1, 0, 0)
		if waiting, _ := kept(t, s, spool.Waiting); len(waiting) != 6 || r.Earlier != (Earlier{}) {
			t.Errorf("%d wait, earlier %+v", len(waiting), r.Earlier)
		}
	})
}

// earlier tells spans of a spool from new ones.
func earlier(spans []*tracepb.Span) bool { return spans[0].Name < "0100" }

func TestNewSpansAreNotDelayedByWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpool(t)
		wait(t, s, numbered(0, 1, 300))
		release := make(chan struct{})
		c := &fake{answer: func(_ context.Context, spans []*tracepb.Span) error {
			if earlier(spans) {
				<-release
			}
			return nil
		}}
		e := New(Config{Client: c, Spool: s})
		for i := range 20 {
			exportAll(e, numbered(100+i, 101+i, 300))
			time.Sleep(1001 * time.Millisecond)
			synctest.Wait()
			if n := len(c.names()); n != i+1 {
				t.Fatalf("%d of %d spans arrived after their second", n, i+1)
			}
		}
		close(release)
		r := closeKeeping(t, e, time.Second)
		wantFates(t, r, 20, 0, 0, 0)
		if r.Earlier.Delivered != 1 {
			t.Errorf("earlier %+v", r.Earlier)
		}
	})
}

func TestCloseStopsSendingWhatWaits(t *testing.T) {
	const each = 30 * time.Millisecond
	slow := func(_ context.Context, spans []*tracepb.Span) error {
		if earlier(spans) {
			time.Sleep(each)
		}
		return nil
	}
	hang := func(ctx context.Context, spans []*tracepb.Span) error {
		if !earlier(spans) {
			return nil
		}
		<-ctx.Done()
		return errTimeout
	}
	for _, tt := range []struct {
		name   string
		answer func(context.Context, []*tracepb.Span) error
		takes  time.Duration
		sent   int
	}{
		{"slow", slow, drainGrace + each, 7},
		{"hung", hang, 2*time.Second - diskReserve, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSpool(t)
				wait(t, s, numbered(0, 20, unjoinable))
				e := New(Config{Client: &fake{answer: tt.answer}, Spool: s})
				exportAll(e, numbered(100, 101, 300))
				start := time.Now()
				r := closeKeeping(t, e, 2*time.Second)
				if took := time.Since(start); took > tt.takes {
					t.Errorf("took %v, want %v at most", took, tt.takes)
				}
				wantFates(t, r, 1, 0, 0, 0)
				waiting, _ := kept(t, s, spool.Waiting)
				if r.Earlier.Delivered != tt.sent || len(waiting) != 20-tt.sent {
					t.Errorf("earlier %+v, %d wait", r.Earlier, len(waiting))
				}
			})
		})
	}
}

// What becomes of four spans in one waiting request.
func TestOutcomesOfWhatWaits(t *testing.T) {
	tooLargeFor := func(_ context.Context, spans []*tracepb.Span) error {
		if len(spans) > 1 || spans[0].Name == "0002" {
			return &UploadError{Verdict: TooLarge, Err: errors.New("a request exceeds the receiver's limit")}
		}
		return nil
	}
	halves := func(_ context.Context, spans []*tracepb.Span) error {
		switch {
		case len(spans) > 2:
			return &UploadError{Verdict: TooLarge, Err: errors.New("a request exceeds the receiver's limit")}
		case spans[0].Name == "0002":
			return errBusy
		}
		return nil
	}
	for _, tt := range []struct {
		name              string
		answer            func(context.Context, []*tracepb.Span) error
		want              Earlier
		waiting, rejected string
		err               string
	}{
		{"taken", nil, Earlier{Delivered: 4}, "[]", "[]", "<nil>"},
		{"busy", answers(errBusy), Earlier{}, "[0000 0001 0002 0003]", "[]", "503"},
		{"denied", answers(errDenied), Earlier{}, "[0000 0001 0002 0003]", "[]", "401"},
		{"bad", answers(errBad), Earlier{Rejected: 4}, "[]", "[0000 0001 0002 0003]", "<nil>"},
		{"too large", tooLargeFor, Earlier{Delivered: 3, Rejected: 1}, "[]", "[0002]", "<nil>"},
		{"half of it busy", halves, Earlier{Delivered: 2}, "[0002 0003]", "[]", "503"},
		{"partial", answers(&UploadError{Verdict: Partial, Rejected: 3, Err: errors.New("too old")}), Earlier{Delivered: 1, Dropped: 3}, "[]", "[]", "<nil>"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSpool(t)
			e := New(Config{Client: &fake{answer: answers(errRefused)}, Spool: s})
			exportAll(e, numbered(0, 4, 300))
			closeKeeping(t, e, time.Second)

			sum, err := drainAll(t, s, &fake{answer: tt.answer})
			if sum != tt.want || !strings.Contains(fmt.Sprint(err), tt.err) {
				t.Errorf("got %+v, %v, want %+v, %s", sum, err, tt.want, tt.err)
			}
			waiting, _ := kept(t, s, spool.Waiting)
			rejected, _ := kept(t, s, spool.Rejected)
			if got := fmt.Sprint(namesOf(waiting)); got != tt.waiting {
				t.Errorf("waiting are %s, want %s", got, tt.waiting)
			}
			if got := fmt.Sprint(namesOf(rejected)); got != tt.rejected {
				t.Errorf("rejected are %s, want %s", got, tt.rejected)
			}
		})
	}
}

func TestASuccessRecoversWhatWasKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpool(t)
		dead := New(Config{Client: new(fake), Spool: s})
		if err := exportOpen(dead, numbered(0, 3, 300)...); err != nil {
			t.Fatal(err)
		}
		kill(t, dead, s)
		defer closeKeeping(t, dead, 0)

		c := new(fake)
		e := New(Config{Client: c, Spool: s})
		exportAll(e, numbered(100, 101, 300))
		r := closeKeeping(t, e, time.Second)
		wantFates(t, r, 1, 0, 0, 0)
		if want := (Earlier{Recovered: 3, Delivered: 3}); r.Earlier != want {
			t.Errorf("earlier %+v, want %+v", r.Earlier, want)
		}
		if got := c.names(); !slices.Equal(got, []string{"0100", "0000", "0001", "0002"}) {
			t.Errorf("taken are %q", got)
		}
		if left, _ := os.ReadDir(s.Dir); len(left) > 0 {
			t.Errorf("left %v", left)
		}
	})
}
