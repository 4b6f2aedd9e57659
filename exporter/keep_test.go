package exporter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/spantee/spantee/exporter/internal/field"
	"github.com/spantee/spantee/exporter/spool"
)

var errDenied = &UploadError{Verdict: Misconfigured, Err: &Error{errors.New("401 Unauthorized"), "check the token"}}

// A fake client answers as answer says, and may be used by several goroutines. A request
// for which answer returns nil is accepted.
type fake struct {
	answer func(ctx context.Context, spans []*tracepb.Span) error

	mu       sync.Mutex
	taken    []*tracepb.Span
	attempts int
}

func (f *fake) Stop(context.Context) error { return nil }

func (f *fake) Destination() spool.Destination {
	return spool.Destination{Protocol: "grpc", Endpoint: "http://fake:4317"}
}

func (f *fake) UploadTraces(ctx context.Context, request []byte) (failed error) {
	var spans []*tracepb.Span
	full, err := decode(request)
	if err != nil {
		return err
	}
	spans = append(spans, full.ScopeSpans[0].Spans...)
	f.mu.Lock()
	f.attempts++
	f.mu.Unlock()
	if f.answer != nil {
		err := f.answer(ctx, spans)
		if p, ok := errors.AsType[*UploadError](err); ok && p.Verdict == Partial {
			spans = spans[min(max(p.Rejected, 0), len(spans)):]
		} else if err != nil {
			return err
		}
		defer func() { failed = err }()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.taken = append(f.taken, spans...)
	return nil
}

func (f *fake) names() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return namesOf(f.taken)
}

func namesOf(spans []*tracepb.Span) (names []string) {
	for _, span := range spans {
		names = append(names, span.Name)
	}
	return names
}

// answers makes of one error what all requests get.
func answers(err error) func(context.Context, []*tracepb.Span) error {
	return func(context.Context, []*tracepb.Span) error { return err }
}

// numbered are spans of one size with ids of their own.
func numbered(from, to, size int) (spans []*tracepb.Span) {
	for i := from; i < to; i++ {
		span := sized(fmt.Sprintf("%04d", i), size)
		span.SpanId = fmt.Appendf(nil, "span%04d", i)
		spans = append(spans, span)
	}
	return spans
}

func newSpool(t *testing.T) *spool.Spool {
	t.Helper()
	return &spool.Spool{Dir: filepath.Join(t.TempDir(), "state", "spool"), Max: 64 << 20}
}

func exportAll(e *Exporter, spans []*tracepb.Span) {
	for _, span := range spans {
		export(e, span)
	}
}

// kept are the spans that a spool has in a state, and why.
func kept(t *testing.T, s *spool.Spool, state spool.State) (spans []*tracepb.Span, reasons []string) {
	t.Helper()
	entries, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.State != state {
			continue
		}
		before := len(spans)
		spans = append(spans, inFile(t, entry)...)
		if n := len(spans) - before; n != entry.Spans {
			t.Errorf("%s claims %d spans and has %d", entry.Path, entry.Spans, n)
		}
		if !slices.Contains(reasons, entry.Reason) {
			reasons = append(reasons, entry.Reason)
		}
	}
	return spans, reasons
}

// inFile are the spans in a file.
func inFile(t *testing.T, entry spool.Entry) (spans []*tracepb.Span) {
	t.Helper()
	b, err := os.ReadFile(entry.Path)
	must(t, err)
	if entry.State == spool.Rejected {
		return rejectedIn(t, b)
	}
	alone := newSpool(t)
	must(t, errors.Join(os.MkdirAll(alone.Dir, 0o700), os.WriteFile(filepath.Join(alone.Dir, filepath.Base(entry.Path)), b, 0o600)))
	for claim, err := range alone.Claims(1) {
		must(t, err)
		for _, r := range spool.Requests(claim.Spans) {
			full, err := decode(spool.Encode(r))
			must(t, err)
			spans = append(spans, full.ScopeSpans[0].Spans...)
		}
		must(t, claim.Close())
	}
	return spans
}

// rejectedIn are the rejected spans in a log: see package spool.
func rejectedIn(t *testing.T, log []byte) (spans []*tracepb.Span) {
	t.Helper()
	const frame = 1004
	for f := range field.Of(log, frame) {
		data := new(tracepb.TracesData)
		must(t, proto.Unmarshal(f.Bytes, data))
		for _, of := range data.ResourceSpans {
			spans = append(spans, of.ScopeSpans[0].Spans...)
		}
	}
	return spans
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func closeKeeping(t *testing.T, e *Exporter, d time.Duration) Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	r := e.Close(ctx)
	if r.Ended != r.Delivered+r.Spooled+r.Rejected+r.Dropped {
		t.Errorf("%d spans ended, but %d delivered + %d spooled + %d rejected + %d dropped", r.Ended, r.Delivered, r.Spooled, r.Rejected, r.Dropped)
	}
	if (r.Cause != nil) != (r.Delivered < r.Ended) {
		t.Errorf("%d of %d spans delivered, cause %v", r.Delivered, r.Ended, r.Cause)
	}
	return r
}

func wantFates(t *testing.T, r Report, delivered, spooled, rejected, dropped int) {
	t.Helper()
	got := [...]int{r.Delivered, r.Spooled, r.Rejected, r.Dropped}
	if want := [...]int{delivered, spooled, rejected, dropped}; got != want {
		t.Errorf("delivered, spooled, rejected and dropped are %v, want %v (%v, %v)", got, want, r.Cause, r.NotKept)
	}
}

// What becomes of ten spans, in four requests, that are not delivered.
func TestWhatIsNotDeliveredIsKept(t *testing.T) {
	tooLargeFor := func(spans int) func(context.Context, []*tracepb.Span) error {
		return func(_ context.Context, got []*tracepb.Span) error {
			if len(got) > spans {
				return &UploadError{Verdict: TooLarge, Err: errors.New("a request exceeds the receiver's limit")}
			}
			return nil
		}
	}
	hang := func(ctx context.Context, _ []*tracepb.Span) error { <-ctx.Done(); return errTimeout }
	second := func(err error) func(context.Context, []*tracepb.Span) error {
		return func(_ context.Context, spans []*tracepb.Span) error {
			if spans[0].Name == "0003" || spans[0].Name == "0004" {
				return err
			}
			return nil
		}
	}
	for _, tt := range []struct {
		name                                  string
		answer                                func(context.Context, []*tracepb.Span) error
		delivered, spooled, rejected, dropped int
		reason                                string
	}{
		{"taken", nil, 10, 0, 0, 0, ""},
		{"unreachable", answers(errRefused), 0, 10, 0, 0, "connection refused"},
		{"busy", answers(errBusy), 0, 10, 0, 0, "503"},
		{"hung", hang, 0, 10, 0, 0, "did not answer in time"},
		{"denied", answers(errDenied), 0, 10, 0, 0, "401"},
		{"bad", answers(errBad), 0, 0, 10, 0, "400 Bad Request"},
		{"one bad", second(errBad), 7, 0, 3, 0, "400 Bad Request"},
		{"one denied", second(errDenied), 10, 0, 0, 0, ""}, // and sent again by the next success
		{"panic", func(context.Context, []*tracepb.Span) error { panic("out of cheese") }, 0, 0, 10, 0, "out of cheese"},
		{"unknown", answers(errors.New("what?")), 0, 0, 10, 0, "what?"},
		{"two at most", tooLargeFor(2), 10, 0, 0, 0, ""},
		{"none is small enough", tooLargeFor(0), 0, 0, 10, 0, "exceeds the receiver's limit"},
		{"one of each", answers(&UploadError{Verdict: Partial, Rejected: 1, Err: errors.New("too old")}), 6, 0, 0, 4, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSpool(t)
				c := &fake{answer: tt.answer}
				e := New(Config{Client: c, Spool: s, MaxRequest: 1000})
				all := numbered(0, 10, 300)
				exportAll(e, all)
				r := closeKeeping(t, e, 2*time.Second)
				waiting, why := kept(t, s, spool.Waiting)
				if tt.name == "one denied" { // it depends on who is quicker
					if r.Dropped+r.Rejected > 0 || len(c.names())+len(waiting) != 10 {
						t.Errorf("%+v, %d waiting", r, len(waiting))
					}
					return
				}
				wantFates(t, r, tt.delivered, tt.spooled, tt.rejected, tt.dropped)
				rejected, whyRejected := kept(t, s, spool.Rejected)
				if len(waiting) != tt.spooled || len(rejected) != tt.rejected || r.NotKept != nil {
					t.Errorf("%d wait and %d are rejected, %v", len(waiting), len(rejected), r.NotKept)
				}
				for _, reason := range append(why, whyRejected...) {
					if !strings.Contains(reason, tt.reason) || tt.reason == "" {
						t.Errorf("reason %q, want %q", reason, tt.reason)
					}
				}
				if again := e.Close(context.Background()); again != r {
					t.Errorf("closed again: %+v, was %+v", again, r)
				}
				if tt.spooled == len(all) {
					byName := func(a, b *tracepb.Span) int { return strings.Compare(a.Name, b.Name) }
					slices.SortFunc(waiting, byName) // all were kept at one instant
					if diff := cmp.Diff(all, waiting, protocmp.Transform()); diff != "" {
						t.Errorf("kept spans (-want +got)\n%s", diff)
					}
				}
			})
		})
	}
}

func TestADiskThatTakesNothingIsSaid(t *testing.T) {
	for _, answer := range []*UploadError{errRefused, errBad} {
		synctest.Test(t, func(t *testing.T) {
			s := newSpool(t)
			if err := errors.Join(os.MkdirAll(filepath.Dir(s.Dir), 0o700), os.WriteFile(s.Dir, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
			e := New(Config{Client: &fake{answer: answers(answer)}, Spool: s, MaxRequest: 1000})
			exportAll(e, numbered(0, 10, 300))
			if err := exportOpen(e, numbered(10, 11, 300)...); err == nil {
				t.Error("Checkpoint does not say that nothing is protected")
			}
			r := closeKeeping(t, e, 2*time.Second)
			wantFates(t, r, 0, 0, 0, 10)
			if r.NotKept == nil || r.Unprotected == nil || !errors.Is(r.Cause, answer.Err) {
				t.Errorf("cause %v, not kept: %v", r.Cause, r.NotKept)
			}
		})
	}
}

func TestTheSpoolIsTooSmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpool(t)
		s.Max = 1000 << 10 // two requests, and the one that fails
		e := New(Config{Client: &fake{answer: answers(errDenied)}, Spool: s, MaxRequest: 400 << 10})
		for i := range 4 {
			export(e, numbered(3*i, 3*i+3, 100<<10)...)
			time.Sleep(2 * time.Second)
		}
		r := closeKeeping(t, e, 2*time.Second)
		waiting, _ := kept(t, s, spool.Waiting)
		if r.Spooled != 6 || r.Dropped != 6 || r.Earlier.Dropped != 0 || len(waiting) != 6 {
			t.Errorf("%+v, and %q wait", r, namesOf(waiting))
		}
	})
}

// If there is no room, the oldest spans are spooled, in order.
func TestWhatThereIsNoRoomForGoesToTheSpool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpool(t)
		release := make(chan struct{})
		c := &fake{answer: func(context.Context, []*tracepb.Span) error { <-release; return nil }}
		e := New(Config{Client: c, Spool: s, MaxRequest: 1000, MaxQueue: 3000})
		all := numbered(0, 100, 300)
		for _, span := range all {
			start := time.Now()
			export(e, span)
			synctest.Wait()
			if took := time.Since(start); took > 0 {
				t.Errorf("Export waited for %v", took)
			}
			time.Sleep(time.Microsecond) // files are of different instants
		}
		waiting, why := kept(t, s, spool.Waiting)
		close(release)
		r := closeKeeping(t, e, time.Minute)
		if r.Delivered != len(all) || len(waiting) < 80 || fmt.Sprint(why) != "[the collector is too slow]" {
			t.Errorf("%+v, %d were waiting: %q", r, len(waiting), why)
		}
		if names := namesOf(waiting); !slices.IsSorted(names) {
			t.Errorf("out of order: %q", names)
		}
		names := c.names() // what waited was sent on the side
		slices.Sort(names)
		if want := namesOf(all); !slices.Equal(names, want) {
			t.Errorf("%d of %d spans arrived", len(names), len(want))
		}
		if files, _ := kept(t, s, spool.Waiting); len(files) > 0 {
			t.Errorf("%d still wait", len(files))
		}
	})
}

// Spooled spans arrive as they ended.
func TestKeptSpansArriveAsTheyEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpool(t)
		resource := &resourcepb.Resource{Attributes: []*commonpb.KeyValue{{Key: "host.name", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: "here"}}}}}
		scope := &commonpb.InstrumentationScope{Name: "spantee", Version: "1"}
		e := New(Config{Client: &fake{answer: answers(errRefused)}, Spool: s})
		var want []*tracepb.Span
		for i := range 10 {
			want = append(want, everything(fmt.Sprint(i)))
			want[i].SpanId = fmt.Appendf(nil, "span%04d", i)
			_ = e.Export([]*spool.Span{spool.NewSpan(encode(want[i]), spool.NewOrigin(resource, scope))}, nil)
		}
		wantFates(t, closeKeeping(t, e, time.Second), 0, 10, 0, 0)

		c := new(capture)
		all, err := drainAll(t, s, c)
		if err != nil || all.Delivered != 10 {
			t.Errorf("%+v, %v", all, err)
		}
		if diff := cmp.Diff(want, c.spans, protocmp.Transform()); diff != "" {
			t.Errorf("spans (-want +got)\n%s", diff)
		}
		if diff := cmp.Diff(resource, c.resource, protocmp.Transform()); diff != "" {
			t.Errorf("resource (-want +got)\n%s", diff)
		}
		if diff := cmp.Diff(scope, c.scope, protocmp.Transform()); diff != "" {
			t.Errorf("scope (-want +got)\n%s", diff)
		}
	})
}

// A capture takes everything, with its resource and scope.
type capture struct {
	fake
	spans    []*tracepb.Span
	resource *resourcepb.Resource
	scope    *commonpb.InstrumentationScope
}

func (c *capture) UploadTraces(_ context.Context, request []byte) error {
	full, err := decode(request)
	if err != nil {
		return err
	}
	c.spans = append(c.spans, full.ScopeSpans[0].Spans...)
	c.resource, c.scope = full.Resource, full.ScopeSpans[0].Scope
	return nil
}

// drainAll sends what waits, and says what still does, and why.
func drainAll(t *testing.T, s *spool.Spool, c Client) (sum Earlier, err error) {
	t.Helper()
	results, err := Flush(t.Context(), *s, func(spool.Destination) (Client, error) { return c, nil }, nil)
	for _, r := range results {
		sum.add(r.Earlier)
		err = errors.Join(err, r.Err)
	}
	return sum, err
}

func TestSpansAfterCloseGoToTheSpool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpool(t)
		e := New(Config{Client: new(fake), Spool: s})
		wantFates(t, closeKeeping(t, e, time.Second), 0, 0, 0, 0)
		exportAll(e, numbered(0, 3, 300))
		wantFates(t, closeKeeping(t, e, time.Second), 0, 3, 0, 0)
		waiting, _ := kept(t, s, spool.Waiting)
		if len(waiting) != 3 {
			t.Errorf("%d wait", len(waiting))
		}
	})
}
