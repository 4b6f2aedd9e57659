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

// kill leaves the log as a process does that is killed now.
func kill(t *testing.T, e *Exporter, s *spool.Spool) {
	t.Helper()
	synctest.Wait() // the log is written
	open, err := filepath.Glob(filepath.Join(s.Dir, "*.log"))
	must(t, err)
	logs := map[string][]byte{}
	for _, path := range open {
		logs[path], err = os.ReadFile(path)
		must(t, err)
	}
	e.log.Close("", nil)
	for path, b := range logs {
		must(t, os.WriteFile(path, b, 0o600))
	}
}

// recovered returns the names of the spans that would be recovered after a kill now.
func recovered(t *testing.T, e *Exporter, s *spool.Spool) (names []string) {
	t.Helper()
	kill(t, e, s)
	killed, _ := kept(t, s, spool.Killed)
	return namesOf(killed)
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
		{"before the first snapshot", nil, func(_ *testing.T, e *Exporter) { exportAll(e, numbered(0, 2, 300)) }, "[0000 0001]"},
		{"a span is open", nil, func(t *testing.T, e *Exporter) { snapshot(t, e, open...) }, "[open]"},
		{"spans are in the queue", nil, func(t *testing.T, e *Exporter) {
			exportAll(e, numbered(0, 2, 300))
			snapshot(t, e, open...)
		}, "[0000 0001 open]"},
		{"spans end after the snapshot", nil, func(t *testing.T, e *Exporter) {
			snapshot(t, e, open...)
			exportAll(e, numbered(0, 2, 300))
		}, "[0000 0001 open]"},
		{"spans are delivered", nil, func(t *testing.T, e *Exporter) {
			exportAll(e, numbered(0, 2, 300))
			time.Sleep(2 * time.Second)
			synctest.Wait()
			snapshot(t, e, open...)
		}, "[open]"},
		{"spans fly", hang, func(t *testing.T, e *Exporter) {
			exportAll(e, numbered(0, 2, 300))
			time.Sleep(2 * time.Second)
			synctest.Wait()
			exportAll(e, numbered(2, 3, 300))
			snapshot(t, e, open...)
		}, "[0000 0001 0002 open]"},
		{"it ends all the same", nil, func(t *testing.T, e *Exporter) {
			snapshot(t, e, open...)
			ended := proto.CloneOf(open[0])
			ended.Name = "ended"
			export(e, ended)
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

func snapshot(t *testing.T, e *Exporter, open ...*tracepb.Span) {
	t.Helper()
	if err := exportOpen(e, open...); err != nil {
		t.Fatal(err)
	}
}

func TestACleanEndLeavesNoLog(t *testing.T) {
	for _, answer := range []error{nil, errRefused, errBad} {
		synctest.Test(t, func(t *testing.T) {
			s := newSpool(t)
			e := New(Config{Client: &fake{answer: answers(answer)}, Spool: s})
			snapshot(t, e, numbered(10, 11, 300)...)
			exportAll(e, numbered(0, 3, 300))
			snapshot(t, e, numbered(10, 11, 300)...)
			closeKeeping(t, e, time.Second)
			snapshot(t, e, numbered(10, 11, 300)...)
			entries, _ := s.List()
			for _, left := range entries {
				if left.State == spool.Open || left.State == spool.Killed {
					t.Errorf("left %+v", left)
				}
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
				snapshot(t, e, open...)
			}
			exportAll(e, all[:3])
			time.Sleep(2 * time.Second)
			synctest.Wait() // they are delivered
			if !early {
				snapshot(t, e, open[3:]...)
			}
			exportAll(e, all[3:])

			start := time.Now()
			r := closeKeeping(t, e, 2*time.Second)
			if took := time.Since(start); took > 2*time.Second {
				t.Errorf("took %v", took)
			}
			wantFates(t, r, 3, 3, 0, 0)
			if killed, _ := kept(t, s, spool.Killed); len(killed) > 0 {
				t.Errorf("%q of a process that was not killed", namesOf(killed))
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

// Without a spool there is nothing to keep: the spans count as lost.
func TestWhatAHungClientHasIsLostWithoutASpool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		e := New(Config{Client: &fake{answer: func(context.Context, []*tracepb.Span) error { <-release; return nil }}})
		exportAll(e, numbered(0, 3, 300))
		wantFates(t, closeKeeping(t, e, time.Second), 0, 0, 0, 3)
		close(release)
	})
}
