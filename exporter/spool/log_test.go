package spool

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// A process that ends by itself leaves what it has not delivered, once.
func TestLeftSpans(t *testing.T) {
	s := newSpool(t, 1<<20)
	l := s.NewLog(here, nil)
	spans := spansOf(t, "a", "b", "c")
	must(t, l.Append(spans, &Snapshot{Open: spansOf(t, "open")}))
	l.Done(spans[1:2])
	want(t, states(t, s), "open 3")
	if !l.Close("connection refused", nil) {
		t.Error(l.Err())
	}
	entries, err := s.List()
	if must(t, err); len(entries) != 1 || entries[0].Reason != "connection refused" || entries[0].Destination != here || entries[0].PID != os.Getpid() {
		t.Errorf("%+v", entries)
	}
	want(t, states(t, s), "waiting 2")
	want(t, take(t, s), "a", "c")
	want(t, filesOf(t, s))
}

// Of a process that delivered everything nothing is left.
func TestNothingLeft(t *testing.T) {
	s := newSpool(t, 1<<20)
	l := s.NewLog(here, nil)
	spans := spansOf(t, "a")
	must(t, l.Append(spans, &Snapshot{Open: spansOf(t, "open"), Metrics: []byte("totals")}))
	if l.Done(spans); l.Close("", nil) {
		t.Error("it says that something is left")
	}
	want(t, filesOf(t, s))
}

// A killed process leaves what had ended, and what was open as of the last snapshot, unless it
// ended since. An open span ends no earlier than the spans within it.
func TestKilled(t *testing.T) {
	s := newSpool(t, 1<<20)
	l := s.NewLog(here, &Destination{Protocol: "grpc", Endpoint: "http://metrics"})
	root, nested, child := spanOf("root"), spanOf("nested"), spanOf("child")
	nested.ParentSpanId = root.SpanId
	child.ParentSpanId, child.EndTimeUnixNano = nested.SpanId, 9
	must(t, l.Append(nil, &Snapshot{Open: spansOf(t, "provisional"), Metrics: []byte("totals")}))
	must(t, l.Append(spansOf(t, "a"), &Snapshot{Open: []*Span{wired(t, nested), wired(t, root), wired(t, spanOf("child"))}}))
	must(t, l.Append([]*Span{wired(t, child)}, nil))
	for range s.Claims(10) {
		t.Error("the log of a living process is claimed")
	}
	kill(t, l)
	want(t, states(t, s), "killed 4")
	for c, err := range s.Claims(10) {
		must(t, err)
		want(t, namesOf(t, c.Spans), "a", "child", "nested", "root")
		if end := decoded(t, c.Spans[3]).EndTimeUnixNano; end != 9 || !c.Killed || string(c.Metrics) != "totals" || c.MetricsTo.Endpoint != "http://metrics" {
			t.Errorf("the root ends at %d; %+v", end, c)
		}
		must(t, c.Done(c.Spans[:1]))
		must(t, c.Done(c.Spans[2:]))
		must(t, c.MetricsDone())
		must(t, c.Close())
	}
	want(t, take(t, s), "child") // is left
	want(t, filesOf(t, s))
}

// However long a process runs, its log has about what is needed.
func TestLogIsWrittenAnew(t *testing.T) {
	s := newSpool(t, 64<<20)
	l := s.NewLog(here, nil)
	big := wired(t, &tracepb.Span{Name: strings.Repeat("x", 10<<10)})
	for i := range 500 {
		ended := spansOf(t, fmt.Sprint(i))
		must(t, l.Append(ended, &Snapshot{Open: []*Span{big}}))
		if i%100 != 0 {
			l.Done(ended)
		}
	}
	info, err := l.file.Stat()
	if must(t, err); info.Size() > 2*slack || info.Size() != int64(l.size) {
		t.Errorf("%d bytes, counted %d", info.Size(), l.size)
	}
	l.Close("down", nil)
	want(t, take(t, s), "0", "100", "200", "300", "400")
}

// What is released may be sent while the process goes on. What it kept is not sent twice.
func TestRelease(t *testing.T) {
	s := newSpool(t, 1<<20)
	l := s.NewLog(here, nil)
	spans := spansOf(t, "a", "b", "c", "d")
	must(t, l.Append(spans, &Snapshot{Open: spansOf(t, "open")}))
	if !l.Release(spans[:2], "too slow") || !l.Owns(filesOf(t, s)[0]) {
		t.Error(l.Err())
	}
	want(t, take(t, s), "a", "b")
	kill(t, l)
	want(t, take(t, s), "c", "d", "open")
}

// Rejected spans are kept for the user, and not sent again.
func TestReject(t *testing.T) {
	s := newSpool(t, 1<<20)
	l := s.NewLog(here, nil)
	spans := spansOf(t, "a", "b", "c")
	must(t, l.Append(spans, nil))
	if !l.Reject(spansOf(t, "was never appended"), "too large") || !l.Reject(spans[:1], "400") || !l.Close("down", nil) {
		t.Error(l.Err())
	}
	for c, err := range s.Claims(10) {
		must(t, err)
		must(t, c.Reject(c.Spans[1:], "400"))
		must(t, c.Close())
	}
	want(t, take(t, s), "b")
	want(t, rejectedIn(t, s), "was never appended", "a", "c")
	want(t, states(t, s), "rejected 3")
}

// The cap counts all files. The oldest logs of processes that have ended make room.
func TestCap(t *testing.T) {
	s := newSpool(t, 4000)
	var lost atomic.Int32
	s.Lost = func(string, int) { lost.Add(1) }
	running := s.NewLog(here, nil)
	must(t, running.Append(spansOf(t, strings.Repeat("r", 1000)), nil))
	for i := range 20 {
		leave(t, s, fmt.Sprintf("%02d%s", i, strings.Repeat("x", 300)))
	}
	var size int64
	for _, name := range filesOf(t, s) {
		info, err := os.Stat(filepath.Join(s.Dir, name))
		must(t, err)
		size += info.Size()
	}
	got := take(t, s)
	if len(got)+int(lost.Load()) != 20 || len(got) == 0 || got[0][:2] != fmt.Sprintf("%02d", 20-len(got)) || size > s.Max+500 {
		t.Errorf("%d bytes; %d are left and %d were evicted: %.4q", size, len(got), lost.Load(), got)
	}
	if l := s.NewLog(here, nil); !errors.Is(l.Append(spansOf(t, strings.Repeat("y", 3500)), nil), errFull) {
		t.Error("what is in use was evicted")
	}
	running.Close("", nil)
}

// Each span is delivered once, or left, however many flush at once.
func TestClaimsAtOnce(t *testing.T) {
	s := newSpool(t, 64<<20)
	const logs = 200
	for i := range logs {
		leave(t, s, fmt.Sprint(i, " a"), fmt.Sprint(i, " b"))
	}
	var mu sync.Mutex
	var got []string
	var flushing sync.WaitGroup
	for g := range 8 {
		flushing.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 0))
			for c, err := range s.Claims(1000) {
				if err != nil {
					t.Error(err)
					return
				}
				n := random.IntN(len(c.Spans) + 1)
				_ = c.Done(c.Spans[:n])
				mu.Lock()
				got = append(got, namesOf(t, c.Spans[:n])...)
				mu.Unlock()
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	flushing.Wait()
	got = append(got, take(t, s)...)
	slices.Sort(got)
	if all := len(got); all != 2*logs || len(slices.Compact(got)) != all {
		t.Errorf("%d spans arrived, %d of them once, want %d", all, len(slices.Compact(got)), 2*logs)
	}
	want(t, filesOf(t, s))
}

// A log of another host, and one on a disk without locks, is sent when nothing was written to
// it for a day, or when its process has said that it ended.
func TestPresumedDead(t *testing.T) {
	s := newSpool(t, 1<<20)
	leave(t, s, "ended")
	l := s.NewLog(here, nil)
	l.note.Host = "elsewhere"
	must(t, l.Append(spansOf(t, "a"), nil))
	kill(t, l)
	want(t, states(t, s), "waiting 1", "open 1")
	want(t, take(t, s), "ended")
	day := time.Now().Add(-presumedDead - time.Minute)
	must(t, os.Chtimes(filepath.Join(s.Dir, l.name), day, day))
	want(t, take(t, s), "a")
}

// What a kill or a full disk leaves of the first write is no log, and nothing is said of it.
func TestTruncatedLog(t *testing.T) {
	s := newSpool(t, 1<<20)
	path := filepath.Join(s.Dir, leave(t, s, "a"))
	b, err := os.ReadFile(path)
	must(t, err)
	s.SetAside = func(u *Untrusted) { t.Errorf("set aside: %v", u) }
	for n := range len(b) {
		must(t, os.WriteFile(path, b[:n], 0o600))
		for c, err := range s.Claims(10) {
			must(t, err)
			if names := namesOf(t, c.Spans); len(names) > 0 && names[0] != "a" {
				t.Errorf("%d bytes: %q", n, names)
			}
			must(t, c.Close())
		}
	}
	must(t, os.WriteFile(path, b[:1], 0o600))
	old := time.Now().Add(-2 * staleAfter)
	must(t, os.Chtimes(path, old, old))
	want(t, take(t, s))
	want(t, filesOf(t, s))
}

func TestReadOnlyState(t *testing.T) {
	s := newSpool(t, 1<<20)
	must(t, os.MkdirAll(filepath.Dir(s.Dir), 0o700))
	must(t, os.WriteFile(s.Dir, nil, 0o600)) // where the folder would be
	l := s.NewLog(here, nil)
	if l.Append(spansOf(t, "a"), nil) == nil || l.Err() == nil || l.Close("down", nil) || s.Check() == nil {
		t.Error("nothing says that there is no spool")
	}
	if _, err := s.List(); err == nil {
		t.Error("List has no error")
	}
}

// Files that are no log do not hide those behind them, however many there are.
func TestClaimsPassOtherFiles(t *testing.T) {
	s := Spool{Dir: filepath.Join(t.TempDir(), "spool"), Max: 1 << 20}
	log := s.NewLog(Destination{Endpoint: "http://localhost:4317", Protocol: "grpc"}, nil)
	must(t, log.Append(spansOf(t, "a"), nil))
	if !log.Close("the collector is down", nil) {
		t.Fatal("not kept")
	}
	for i := range 5 {
		must(t, os.WriteFile(filepath.Join(s.Dir, fmt.Sprint(i, RejectedExt)), []byte("x"), 0o600))
	}
	found := 0
	for c, err := range s.Claims(3) {
		must(t, err)
		found += len(c.Spans)
		must(t, c.Close())
	}
	if found != 1 {
		t.Errorf("%d spans found", found)
	}
}
