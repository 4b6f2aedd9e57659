package exporter

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/spantee/spantee/exporter/spool"
)

// kill leaves the journal as a process does that is killed now.
func kill(t *testing.T, e *Exporter, s *spool.Spool) {
	t.Helper()
	synctest.Wait() // the journal is written
	open, err := filepath.Glob(filepath.Join(s.Dir, "open", "*.otlp"))
	must(t, err)
	logs := map[string][]byte{}
	for _, path := range open {
		logs[path], err = os.ReadFile(path)
		must(t, err)
	}
	e.journal.Close(t.Context(), "")
	for path, b := range logs {
		must(t, os.WriteFile(path, b, 0o600))
	}
}

// recovered returns the names of the spans that would be recovered after a kill now.
func recovered(t *testing.T, e *Exporter, s *spool.Spool) (names []string) {
	t.Helper()
	kill(t, e, s)
	n, err := s.Recover(t.Context())
	must(t, err)
	waiting, _ := kept(t, s, spool.Waiting)
	if len(waiting) < n {
		t.Errorf("%d recovered, and %d wait", n, len(waiting))
	}
	return namesOf(waiting)
}

func TestAKillLosesNothing(t *testing.T) {
	open := []*tracepb.Span{sized("open", 300)}
	open[0].SpanId = []byte("openopen")
	hang := func(ctx context.Context, _ []*tracepb.Span) error { <-ctx.Done(); return errTimeout }
	for _, tt := range []struct {
		name   string
		answer func(context.Context, []*tracepb.Span) error
		live   func(*testing.T, *Exporter)
		want   string
	}{
		{"before the first checkpoint", nil, func(_ *testing.T, e *Exporter) { exportAll(e, numbered(0, 2, 300)) }, "[]"},
		{"a span is open", nil, func(t *testing.T, e *Exporter) { checkpoint(t, e, open...) }, "[open]"},
		{"spans are in the queue", nil, func(t *testing.T, e *Exporter) {
			exportAll(e, numbered(0, 2, 300))
			checkpoint(t, e, open...)
		}, "[0000 0001 open]"},
		{"spans end after the checkpoint", nil, func(t *testing.T, e *Exporter) {
			checkpoint(t, e, open...)
			exportAll(e, numbered(0, 2, 300))
		}, "[0000 0001 open]"},
		{"spans are delivered", nil, func(t *testing.T, e *Exporter) {
			exportAll(e, numbered(0, 2, 300))
			time.Sleep(2 * time.Second)
			synctest.Wait()
			checkpoint(t, e, open...)
		}, "[open]"},
		{"spans fly", hang, func(t *testing.T, e *Exporter) {
			exportAll(e, numbered(0, 2, 300))
			time.Sleep(2 * time.Second)
			synctest.Wait()
			exportAll(e, numbered(2, 3, 300))
			checkpoint(t, e, open...)
		}, "[0000 0001 0002 open]"},
		{"it ends all the same", nil, func(t *testing.T, e *Exporter) {
			checkpoint(t, e, open...)
			ended := proto.CloneOf(open[0])
			ended.Name = "ended"
			e.Export(encode(ended), nil)
		}, "[ended]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSpool(t)
				e := New(Config{Client: &fake{answer: tt.answer}, Spool: s})
				tt.live(t, e)
				if got := fmt.Sprint(recovered(t, e, s)); got != tt.want {
					t.Errorf("recovered %s, want %s", got, tt.want)
				}
				closeKeeping(t, e, 0)
			})
		})
	}
}

func checkpoint(t *testing.T, e *Exporter, open ...*tracepb.Span) {
	t.Helper()
	if err := e.Checkpoint(encodeAll(open...)); err != nil {
		t.Fatal(err)
	}
}

func TestACleanEndLeavesNoJournal(t *testing.T) {
	for _, answer := range []error{nil, errRefused, errBad} {
		synctest.Test(t, func(t *testing.T) {
			s := newSpool(t)
			e := New(Config{Client: &fake{answer: answers(answer)}, Spool: s})
			checkpoint(t, e, numbered(10, 11, 300)...)
			exportAll(e, numbered(0, 3, 300))
			checkpoint(t, e, numbered(10, 11, 300)...)
			closeKeeping(t, e, time.Second)
			checkpoint(t, e, numbered(10, 11, 300)...)
			if left, _ := os.ReadDir(filepath.Join(s.Dir, "open")); len(left) > 0 {
				t.Errorf("left %v", left)
			}
		})
	}
}

// A client that ignores its context is left behind, and what it has not
// delivered is recovered: that, as it ended, and nothing else.
func TestWhatAHungClientHasIsRecovered(t *testing.T) {
	for _, early := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := newSpool(t)
			release := make(chan struct{})
			c := &fake{answer: func(_ context.Context, spans []*tracepb.Span) error {
				if spans[0].Name >= "0003" {
					<-release
				}
				return nil
			}}
			e := New(Config{Client: c, Spool: s})
			all := numbered(0, 6, 300)
			all[4].Events = []*tracepb.Span_Event{{Name: "text.delta"}}
			open := numbered(0, 6, 300)
			if early {
				checkpoint(t, e, open...)
			}
			exportAll(e, all[:3])
			time.Sleep(2 * time.Second)
			synctest.Wait() // they are delivered
			if !early {
				checkpoint(t, e, open[3:]...)
			}
			exportAll(e, all[3:])

			start := time.Now()
			r := closeKeeping(t, e, 2*time.Second)
			if took := time.Since(start); took > 2*time.Second {
				t.Errorf("took %v", took)
			}
			wantFates(t, r, 3, 3, 0, 0)
			if recovered, err := s.Recover(t.Context()); recovered > 0 || err != nil {
				t.Errorf("%d recovered of a process that was not killed, %v", recovered, err)
			}
			waiting, _ := kept(t, s, spool.Waiting)
			if diff := cmp.Diff(all[3:], waiting, protocmp.Transform()); diff != "" {
				t.Errorf("recovered (-want +got)\n%s", diff)
			}
			close(release)
			<-e.done
		})
	}
}

// Without a checkpoint there is nothing to keep: the spans count as lost.
func TestWhatAHungClientHasIsLostWithoutAJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		e := New(Config{Client: &fake{answer: func(context.Context, []*tracepb.Span) error { <-release; return nil }}})
		exportAll(e, numbered(0, 3, 300))
		wantFates(t, closeKeeping(t, e, time.Second), 0, 0, 0, 3)
		close(release)
	})
}
