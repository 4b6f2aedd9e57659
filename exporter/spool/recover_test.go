package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// dead leaves the journal of a process of some host that was killed.
func dead(t testing.TB, s Spool, host string, to Destination, names ...string) (base string) {
	t.Helper()
	j := &testJournal{Journal: s.NewJournal(to)}
	if host != "" {
		j.file.note = Note{Destination: to, Format: logFormat, Host: host, PID: 1}
	}
	end(t, j, spansOf(names...)...)
	checkpoint(t, j)
	die(t, j)
	return j.file.base
}

func TestAJournalWhoseLockIsHeldIsLeftAlone(t *testing.T) {
	s := newSpool(t, 1<<20)
	base := dead(t, s, "", here, "a")
	process, err := TryLock(base + lockExt)
	if process == nil || err != nil {
		t.Fatal(process, err)
	}
	old := time.Now().Add(-100 * presumedDead)
	if err := os.Chtimes(base+waitingExt, old, old); err != nil {
		t.Fatal(err)
	}
	wantRecovered(t, s, 0)
	process.Close()
	wantRecovered(t, s, 1)
}

// Another host's lock may not be seen from here: the age of its journal has to suffice.
func TestAnotherHostsJournal(t *testing.T) {
	for _, lock := range []bool{true, false} {
		for age, spans := range map[time.Duration]int{
			0: 0, time.Minute: 0, presumedDead - 10*time.Second: 0, presumedDead + 10*time.Second: 1, 48 * time.Hour: 1,
			-time.Hour: 0, // its clock is wrong
		} {
			s := newSpool(t, 1<<20)
			base := dead(t, s, "elsewhere", here, "a")
			if !lock {
				os.Remove(base + lockExt)
			}
			written := time.Now().Add(-age)
			if err := os.Chtimes(base+waitingExt, written, written); err != nil {
				t.Fatal(err)
			}
			wantRecovered(t, s, spans)
			if files := filesOf(t, s.Dir); len(files) != 1 {
				t.Errorf("%v after its last write there is %q", age, files)
			}
		}
	}
}

func TestAJournalWithoutALock(t *testing.T) {
	s := newSpool(t, 1<<20)
	os.Remove(dead(t, s, "", here, "a") + lockExt)
	wantRecovered(t, s, 1)
	want(t, drained(t, s, here), "a")
	if left, _ := os.ReadDir(filepath.Join(s.Dir, journalDir)); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

func TestManyRecoverAtOnce(t *testing.T) {
	for _, lock := range []bool{true, false} {
		s := newSpool(t, 64<<20)
		const journals = 50
		for i := range journals {
			base := dead(t, s, "", here, fmt.Sprint(i))
			if !lock {
				os.Remove(base + lockExt)
			}
		}
		var all sync.WaitGroup
		var spans atomic.Int64
		for range 8 {
			all.Go(func() {
				n, err := s.Recover(background)
				if spans.Add(int64(n)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := len(drained(t, s, here)); n != journals || spans.Load() != journals {
			t.Errorf("%d spans counted and %d recovered, want %d (with locks: %v)", spans.Load(), n, journals, lock)
		}
		if left, _ := os.ReadDir(filepath.Join(s.Dir, journalDir)); len(left) > 0 {
			t.Errorf("left %v", left)
		}
	}
}

// Of many processes, one sets a corrupt journal aside, and none fails.
func TestManyRecoverCorruptJournalsAtOnce(t *testing.T) {
	s := newSpool(t, 64<<20)
	const journals = 50
	for range journals {
		if err := os.WriteFile(dead(t, s, "", here, "a")+waitingExt, []byte("no journal"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { wantRecovered(t, s, 0) })
	}
	all.Wait()
	aside, err := os.ReadDir(filepath.Join(s.Dir, journalDir, corruptDir))
	if len(aside) != journals {
		t.Errorf("%d set aside, %v", len(aside), err)
	}
}

func TestRecoveredSpansGoInRequestsThatReceiversTake(t *testing.T) {
	s := newSpool(t, 64<<20)
	j := newJournal(t, s)
	end(t, j, spanOf("small"))
	checkpoint(t, j)
	const spans = 20
	for i := range spans {
		span := spanOf(fmt.Sprint(i))
		span.TraceState = string(make([]byte, 700<<10))
		commit(t, j, span)
	}
	die(t, j)
	wantRecovered(t, s, spans+1)
	o := openBox(t, s, here)
	defer o.Close()
	requests, got := 0, 0
	for {
		c, err := o.Next(background)
		if err != nil {
			t.Fatal(err)
		}
		if c == nil {
			break
		}
		for _, r := range Requests(c.Spans) {
			requests++
			got += len(namesIn(r...))
			if n := len(Encode(r)); n > maxRequest {
				t.Errorf("a request has %d bytes", n)
			}
			if of := r[0].Of; len(of.Resource) == 0 || len(of.Scope) == 0 {
				t.Error("a request has no resource, or no scope")
			}
		}
		if err := c.Done(); err != nil {
			t.Fatal(err)
		}
	}
	if got != spans+1 || requests > spans/4+1 {
		t.Errorf("%d spans in %d requests", got, requests)
	}
}

func TestALogFillsRequests(t *testing.T) {
	for _, sizes := range [][]int{nil, {1}, {maxRequest}, {maxRequest - 100, 1, 1, 1}, {1, maxRequest, 1}, {maxRequest / 2, maxRequest / 2, maxRequest / 2}} {
		var ended []*Span
		of := new(Origin)
		for _, size := range sizes {
			ended = append(ended, &Span{Of: of, Wire: wire(t, &tracepb.Span{TraceState: string(make([]byte, size))})})
		}
		spans := 0
		for _, r := range Requests(ended) {
			n := len(r)
			if spans += n; n > 1 && len(Encode(r)) > maxRequest {
				t.Errorf("%v: a request has %d bytes", sizes, len(Encode(r)))
			}
		}
		if spans != len(sizes) {
			t.Errorf("%d spans of %d", spans, len(sizes))
		}
	}
}

// A process may be killed when it has a lock and no journal.
func TestStaleLocksGo(t *testing.T) {
	s := newSpool(t, 1<<20)
	dir, err := s.makeDir(journalDir)
	if err != nil {
		t.Fatal(err)
	}
	held, err := TryLock(filepath.Join(dir, "held"+lockExt))
	if held == nil || err != nil {
		t.Fatal(held, err)
	}
	defer held.Close()
	old := time.Now().Add(-2 * staleAfter)
	for name, at := range map[string]time.Time{"held": old, "old": old, "new": time.Now()} {
		path := filepath.Join(dir, name+lockExt)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	wantRecovered(t, s, 0)
	var left []string
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	want(t, left, "held"+lockExt, "new"+lockExt)
	if err != nil {
		t.Error(err)
	}
}
