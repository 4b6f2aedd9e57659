package exporter

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/exporter/spool"
)

// after is a receiver's wish for no requests until a time has passed.
func after(delay time.Duration) *UploadError {
	return &UploadError{Verdict: Retryable, RetryAfter: delay, Err: fmt.Errorf("429 Too Many Requests; retry after %v", delay)}
}

func TestNoRequestBeforeTheDelayIsOver(t *testing.T) {
	for _, delay := range []time.Duration{3 * time.Second, 40 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			c := &scripted{upload: func(_ context.Context, n int, _ []*tracepb.Span) error {
				if n <= 2 {
					return after(delay)
				}
				return nil
			}}
			e := New(Config{Client: c})
			export(e, sized("a", 100))
			time.Sleep(time.Second)
			synctest.Wait()
			wantReport(t, closeWithin(t, e, 3*delay), 1, 0, "") // which waits on
			if len(c.at) != 3 {
				t.Fatalf("%d requests, want 3", len(c.at))
			}
			for i := range 2 {
				if got := c.at[i+1].Sub(c.at[i]); got < delay || got > delay+time.Second {
					t.Errorf("request %d came %v after the one before, want %v", i+1, got, delay)
				}
			}
		})
	}
}

func TestCloseDoesNotWaitForADelayThatOutlastsIt(t *testing.T) {
	for name, before := range map[string]time.Duration{"known before": 10 * time.Second, "asked for during Close": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSpool(t)
				c := &fake{answer: answers(after(time.Minute))}
				e := New(Config{Client: c, Spool: s, MaxRequest: 1000})
				exportAll(e, numbered(0, 10, 300))
				time.Sleep(before)
				start := time.Now()
				r := closeKeeping(t, e, 2*time.Second)
				if took := time.Since(start); took > 200*time.Millisecond {
					t.Errorf("took %v", took)
				}
				wantFates(t, r, 0, 10, 0, 0)
				_, why := kept(t, s, spool.Waiting)
				if fmt.Sprint(why) != "[429 Too Many Requests; retry after 1m0s]" {
					t.Errorf("reasons %q", why)
				}
				if c.attempts != 1 {
					t.Errorf("%d requests, want 1", c.attempts)
				}
			})
		})
	}
}

// The backlog is sent to the same receiver, and waits like everything else.
func TestADelayHoldsForTheBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpool(t)
		wait(t, s, numbered(0, 5, 300))
		c := new(fake)
		c.answer = func(_ context.Context, spans []*tracepb.Span) error {
			if earlier(spans) {
				return after(20 * time.Second)
			}
			return nil
		}
		e := New(Config{Client: c, Spool: s})
		exportAll(e, numbered(100, 101, 300))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if c.attempts != 2 { // the new one, and the first of the backlog
			t.Errorf("%d requests, want 2", c.attempts)
		}
		exportAll(e, numbered(101, 102, 300))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := fmt.Sprint(c.names()); got != "[0100]" {
			t.Errorf("taken within the delay: %s", got)
		}
		r := closeKeeping(t, e, time.Minute)
		wantFates(t, r, 2, 0, 0, 0)
	})
}

func TestARecordingWaitsForADelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &scripted{upload: func(_ context.Context, n int, _ []*tracepb.Span) error {
			if n%5 == 0 {
				return after(30 * time.Second)
			}
			return nil
		}}
		e := New(Config{Client: c, Patience: time.Minute, MaxRequest: 1000, MaxQueue: 3000})
		const spans = 100
		for i := range spans {
			export(e, sized(fmt.Sprint(i), 300))
		}
		wantReport(t, closeWithin(t, e, time.Hour), spans, 0, "")
	})
}

// A receiver that always asks for another minute does not hold the stream for ever.
func TestARecordingGivesUpOnEndlessDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &scripted{upload: func(context.Context, int, []*tracepb.Span) error { return after(time.Minute) }}
		e := New(Config{Client: c, Patience: time.Minute, MaxRequest: 1000, MaxQueue: 3000})
		began := time.Now()
		const spans = 100
		for i := range spans {
			export(e, sized(fmt.Sprint(i), 300))
		}
		if took := time.Since(began); took < maxDelays || took > maxDelays+2*maxDelay {
			t.Errorf("the stream waited %v", took)
		}
		if r := closeWithin(t, e, time.Second); r.Ended != spans || r.Dropped != spans {
			t.Errorf("%+v", r)
		}
	})
}

func TestFlushObeysDelays(t *testing.T) {
	for _, tt := range []struct {
		name      string
		answer    func(n int) error
		delivered int
		takes     time.Duration
		failed    bool
	}{
		{"short", func(n int) error {
			if n%2 == 1 {
				return after(10 * time.Second)
			}
			return nil
		}, 5, 50 * time.Second, false},
		{"longer than anybody waits", func(n int) error {
			if n == 2 {
				return after(time.Hour)
			}
			return nil
		}, 1, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSpool(t)
				wait(t, s, numbered(0, 5, unjoinable))
				c := new(fake)
				c.answer = func(context.Context, []*tracepb.Span) error { return tt.answer(c.attempts) }
				start, told := time.Now(), 0
				all, err := Flush(t.Context(), *s, func(spool.Destination) (Client, error) { return c, nil }, func(n int) { told += n })
				if err != nil || len(all) != 1 {
					t.Fatalf("%+v, %v", all, err)
				}
				if took := time.Since(start).Round(time.Millisecond); took != tt.takes {
					t.Errorf("took %v, want %v", took, tt.takes)
				}
				if f := all[0]; f.Delivered != tt.delivered || (f.Err != nil) != tt.failed || told != tt.delivered {
					t.Errorf("%+v, told of %d", f, told)
				}
				if waiting, _ := kept(t, s, spool.Waiting); len(waiting) != 5-tt.delivered {
					t.Errorf("%d wait", len(waiting))
				}
			})
		})
	}
}

// Clients from elsewhere return all kinds of errors.
func TestErrorsOfAForeignClient(t *testing.T) {
	broken := errors.New("broken")
	for _, tt := range []struct {
		name              string
		err               error
		spooled, rejected int
	}{
		{"retryable", fmt.Errorf("wrapped: %w", &UploadError{Verdict: Retryable, Err: broken}), 1, 0},
		{"misconfigured", &UploadError{Verdict: Misconfigured, Err: broken}, 1, 0},
		{"permanent", &UploadError{Verdict: Permanent, Err: broken}, 0, 1},
		{"its deadline", fmt.Errorf("upload: %w", context.DeadlineExceeded), 1, 0},
		{"any other", broken, 0, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := New(Config{Client: &fake{answer: answers(tt.err)}, Spool: newSpool(t)})
				exportAll(e, numbered(0, 1, 300))
				wantFates(t, closeKeeping(t, e, time.Second), 0, tt.spooled, tt.rejected, 0)
			})
		})
	}
}
