package exporter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/spool"
)

// A scripted client answers as told; upload sees the number of the attempt,
// from 1. The methods are called by one goroutine.
type scripted struct {
	upload func(ctx context.Context, n int, spans []*tracepb.Span) error
	at     []time.Time // of each attempt
	taken  []string    // names of the spans that were delivered
}

func (s *scripted) Stop(context.Context) error { return nil }

func (s *scripted) Destination() spool.Destination {
	return spool.Destination{Protocol: "grpc", Endpoint: "http://scripted:4317"}
}

func (s *scripted) UploadTraces(ctx context.Context, request []byte) error {
	s.at = append(s.at, time.Now())
	full, err := decode(request)
	if err != nil {
		return err
	}
	spans := full.ScopeSpans[0].Spans
	if s.upload != nil {
		if err := s.upload(ctx, len(s.at), spans); err != nil {
			return err
		}
	}
	for _, span := range spans {
		s.taken = append(s.taken, span.Name)
	}
	return nil
}

func always(err error) func(context.Context, int, []*tracepb.Span) error {
	return func(context.Context, int, []*tracepb.Span) error { return err }
}

var (
	errBusy    = &UploadError{Verdict: Retryable, Err: errors.New("503 Service Unavailable")}
	errRefused = &UploadError{Verdict: Unreachable, Err: &Error{errors.New("connection refused"), "nothing listens"}}
	errBad     = &UploadError{Verdict: Permanent, Err: errors.New("400 Bad Request")}
)

// sized is a span that is so many bytes on the wire.
func sized(name string, size int) *tracepb.Span {
	span := &tracepb.Span{Name: name, SpanId: []byte("12345678")}
	for n := size - proto.Size(span); proto.Size(span) != size; n-- { // n bytes and their framing
		span.TraceState = strings.Repeat("x", n)
	}
	return span
}

func closeWithin(t *testing.T, e *Exporter, d time.Duration) Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	r := e.Close(ctx)
	checkReport(t, r)
	return r
}

func checkReport(t *testing.T, r Report) {
	t.Helper()
	if r.Ended != r.Delivered+r.Dropped {
		t.Errorf("%d spans ended, but %d delivered + %d dropped", r.Ended, r.Delivered, r.Dropped)
	}
	if (r.Cause != nil) != (r.Dropped > 0) {
		t.Errorf("%d spans dropped, cause %v", r.Dropped, r.Cause)
	}
}

func wantReport(t *testing.T, r Report, delivered, dropped int, cause string) {
	t.Helper()
	if r.Delivered != delivered || r.Dropped != dropped {
		t.Errorf("%d delivered and %d dropped, want %d and %d", r.Delivered, r.Dropped, delivered, dropped)
	}
	if got := fmt.Sprint(r.Cause); dropped > 0 && !strings.Contains(got, cause) {
		t.Errorf("cause is %q, want %q", got, cause)
	}
}

func TestSpansLeaveTogetherAfterAnInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, start := new(scripted), time.Now()
		e := New(Config{Client: c})
		export(e, sized("a", 100))
		time.Sleep(900 * time.Millisecond)
		export(e, sized("b", 100))
		time.Sleep(4100 * time.Millisecond)
		export(e, sized("c", 100))
		time.Sleep(5 * time.Second)
		wantReport(t, closeWithin(t, e, time.Second), 3, 0, "")

		var got []time.Duration
		for _, at := range c.at {
			got = append(got, at.Sub(start))
		}
		if want := []time.Duration{1 * time.Second, 6 * time.Second}; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("requests left after %v, want %v", got, want)
		}
	})
}

func TestAFullRequestLeavesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, start := new(scripted), time.Now()
		c.upload = func(_ context.Context, _ int, spans []*tracepb.Span) error {
			if len(spans) > 3 {
				t.Errorf("%d spans in a request, want 3 at most", len(spans))
			}
			return nil
		}
		e := New(Config{Client: c, MaxRequest: 1000})
		for i := range 4 {
			export(e, sized(fmt.Sprint(i), 300))
		}
		synctest.Wait()
		if len(c.at) != 1 || !c.at[0].Equal(start) {
			t.Errorf("requests at %v, want one at once", c.at)
		}
		wantReport(t, closeWithin(t, e, time.Second), 4, 0, "")
	})
}

func TestRetriesBackOffAndGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &scripted{upload: func(_ context.Context, n int, _ []*tracepb.Span) error {
			if n <= 12 {
				return errBusy
			}
			return nil
		}}
		e := New(Config{Client: c})
		export(e, sized("a", 100))
		time.Sleep(time.Minute)
		wantReport(t, closeWithin(t, e, 0), 1, 0, "")
		wait := minBackoff
		for i := range len(c.at) - 1 {
			if got := c.at[i+1].Sub(c.at[i]); got < wait/2 || got > wait*3/2 {
				t.Errorf("wait %d is %v, want about %v", i, got, wait)
			}
			wait = min(2*wait, maxBackoff)
		}
	})
}

// What Close does to a request that does not get through.
func TestClose(t *testing.T) {
	hung := func(ctx context.Context, _ int, _ []*tracepb.Span) error {
		<-ctx.Done()
		return errTimeout
	}
	tests := []struct {
		name    string
		upload  func(context.Context, int, []*tracepb.Span) error
		cause   string
		takes   time.Duration
		waiting bool // for a retry when Close comes
	}{
		{"refused", always(errRefused), "connection refused", 0, false},
		{"refused before as well", always(errRefused), "connection refused", 0, true},
		{"busy", always(errBusy), "503", 2*time.Second - diskReserve, true},
		{"hung", hung, "did not answer in time", 2*time.Second - diskReserve, false},
		{"refused for good", always(errBad), "400", 0, false},
		{"unknown error", always(errors.New("disk full")), "disk full", 0, false},
		{"ready again", func() func(context.Context, int, []*tracepb.Span) error {
			var first time.Time
			return func(_ context.Context, n int, _ []*tracepb.Span) error {
				if n == 1 {
					first = time.Now()
				}
				if time.Since(first) < 10*time.Second {
					return errRefused
				}
				return nil
			}
		}(), "", 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &scripted{upload: tt.upload}
				e := New(Config{Client: c, MaxRequest: 1000})
				const spans = 30 // ten requests
				for i := range spans {
					export(e, sized(fmt.Sprint(i), 300))
				}
				if tt.waiting {
					time.Sleep(10 * time.Second)
					synctest.Wait()
				}
				start := time.Now()
				r := closeWithin(t, e, 2*time.Second)
				if took := time.Since(start); took != tt.takes {
					t.Errorf("took %v, want %v", took, tt.takes)
				}
				if tt.cause == "" {
					wantReport(t, r, spans, 0, "")
				} else {
					wantReport(t, r, 0, spans, tt.cause)
				}
				if again := e.Close(context.Background()); again != r {
					t.Errorf("closed again: %+v, was %+v", again, r)
				}
			})
		})
	}
}

func TestCloseLeavesAClientThatIgnoresItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		e := New(Config{Client: &scripted{upload: func(context.Context, int, []*tracepb.Span) error {
			<-release
			return nil
		}}})
		export(e, sized("a", 100))
		start := time.Now()
		wantReport(t, closeWithin(t, e, 2*time.Second), 0, 1, "did not answer in time")
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("took %v", took)
		}
		close(release)
	})
}

func TestOneRequestIsRefusedForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, bad := range map[string]func() error{
			"permanent": func() error { return errBad },
			"panic":     func() error { panic("out of cheese") },
		} {
			c := &scripted{upload: func(_ context.Context, n int, _ []*tracepb.Span) error {
				if n == 2 {
					return bad()
				}
				return nil
			}}
			e := New(Config{Client: c, MaxRequest: 1000})
			for i := range 9 {
				export(e, sized(fmt.Sprint(i), 300))
			}
			r := closeWithin(t, e, time.Second)
			wantReport(t, r, 6, 3, "")
			t.Logf("%s: %v", name, r.Cause)
		}
	})
}

func TestPartialSuccess(t *testing.T) {
	for rejected, want := range map[int]int{-1: 0, 0: 0, 1: 1, 3: 3, 99: 3} {
		synctest.Test(t, func(t *testing.T) {
			e := New(Config{Client: &scripted{upload: always(&UploadError{Verdict: Partial, Rejected: rejected, Err: errors.New("too old")})}})
			for range 3 {
				export(e, sized("a", 100))
			}
			wantReport(t, closeWithin(t, e, time.Second), 3-want, want, "too old")
		})
	}
}

func TestARequestTooLargeIsHalved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &scripted{upload: func(_ context.Context, _ int, spans []*tracepb.Span) error {
			size := 0
			for _, span := range spans {
				size += proto.Size(span)
			}
			if size > 1000 {
				return &UploadError{Verdict: TooLarge, Err: errors.New("a request exceeds the receiver's limit")}
			}
			return nil
		}}
		e := New(Config{Client: c})
		for i := range 21 {
			export(e, sized(fmt.Sprint(i), 300))
		}
		export(e, sized("big", 1001))
		wantReport(t, closeWithin(t, e, time.Second), 21, 1, "exceeds the receiver's limit")
		for i, name := range c.taken {
			if name != fmt.Sprint(i) {
				t.Errorf("span %d is %s: out of order", i, name)
			}
		}
	})
}

func TestOnlyInvalidSpansAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := new(scripted)
		e := New(Config{Client: c})
		for i := range 5 {
			export(e, sized(fmt.Sprint(i), 100))
		}
		_ = e.Export([]*spool.Span{spool.NewSpan(bytes.ReplaceAll(encode(sized("field", 100)), []byte("field"), []byte("fi\xffld")), new(spool.Origin))}, nil)
		_ = e.Export([]*spool.Span{spool.NewSpan([]byte("no span"), new(spool.Origin))}, nil)
		wantReport(t, closeWithin(t, e, time.Second), 5, 2, "not UTF-8")
	})
}
