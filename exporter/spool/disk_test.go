package spool

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"
)

// freeze makes calls of a kind hang until they are released. No test that uses
// it may run beside others.
func freeze(t *testing.T, call string) (release func()) {
	t.Helper()
	frozen := make(chan struct{})
	hang := func(c string) {
		if c == call {
			<-frozen
		}
	}
	OnDisk.Store(&hang)
	release = sync.OnceFunc(func() { close(frozen) })
	t.Cleanup(func() {
		release()
		awaitAbandoned()
		OnDisk.Store(nil)
	})
	return release
}

// awaitAbandoned returns once the calls that nobody waits for have returned.
func awaitAbandoned() {
	for abandonedCalls.Load() > 0 {
		runtime.Gosched()
	}
}

func TestNobodyWaitsForAFrozenDisk(t *testing.T) {
	for _, call := range []string{"create", "write", "rename"} {
		t.Run(call, func(t *testing.T) {
			s := newSpool(t, 1<<20)
			release := freeze(t, call)
			ctx, cancel := context.WithCancel(background)
			go cancel()
			if err := s.Put(ctx, here, requestOf(t, "a"), ""); !errors.Is(err, ErrFrozen) {
				t.Errorf("Put: %v", err)
			}
			// No later call waits for the disk, whatever its deadline.
			if err := s.Put(background, here, requestOf(t, "b"), ""); !errors.Is(err, ErrFrozen) {
				t.Errorf("then Put: %v", err)
			}
			release()
			awaitAbandoned()
			put(t, s, here, "c")
			want(t, drained(t, s, here), "a", "c") // it was kept after all
		})
	}
}

func TestAFrozenDiskDoesNotHoldUpRecovery(t *testing.T) {
	s := newSpool(t, 1<<20)
	dead(t, s, "", here, "a")
	release := freeze(t, "lock")
	ctx, cancel := context.WithCancel(background)
	go cancel()
	if _, err := s.Recover(ctx); !errors.Is(err, ErrFrozen) {
		t.Errorf("Recover: %v", err)
	}
	release()
}

// A disk that hangs delays its caller until the deadline, and leaves spans unprotected.
func TestAJournalOnAFrozenDisk(t *testing.T) {
	s := newSpool(t, 1<<20)
	j := newJournal(t, s)
	checkpoint(t, j, spanOf("root"))
	release := freeze(t, "append")
	ctx, cancel := context.WithTimeout(background, time.Millisecond)
	defer cancel()
	j.Append(ctx, encodedSpans(t, spanOf("a")))
	if !errors.Is(j.Err(), ErrFrozen) {
		t.Errorf("error %v", j.Err())
	}
	for range 3 { // meanwhile the stream goes on
		b := encodedSpans(t, spanOf("b"))
		j.Append(background, b)
		j.Done(background, b)
	}
	if err := j.save(nil); !errors.Is(err, ErrFrozen) {
		t.Errorf("error %v", err)
	}
	if j.Close(ctx, "the collector hangs") {
		t.Error("it is said to be kept")
	}
	release()
}

// A write that takes too long may succeed later: what follows it is in a new log.
func TestAJournalOnASlowDisk(t *testing.T) {
	s := newSpool(t, 1<<20)
	j := newJournal(t, s)
	checkpoint(t, j, spanOf("root"))
	release := freeze(t, "append")
	ctx, cancel := context.WithCancel(background)
	cancel()
	j.Append(ctx, encodedSpans(t, spanOf("a")))
	j.Append(background, encodedSpans(t, spanOf("b")))
	release()
	awaitAbandoned()
	end(t, j, spanOf("c"))
	checkpoint(t, j, spanOf("root"))
	die(t, j)
	want(t, states(t, s), "killed 4")
	wantRecovered(t, s, 4)
	want(t, drained(t, s, here), "a", "b", "c", "root")
}

// Close waits until its deadline for a disk that is slow.
func TestCloseWaitsForAWrite(t *testing.T) {
	s := newSpool(t, 1<<20)
	j := newJournal(t, s)
	checkpoint(t, j, spanOf("root"))
	release := freeze(t, "append")
	ctx, cancel := context.WithCancel(background)
	cancel()
	j.Append(ctx, encodedSpans(t, spanOf("a")))
	go release()
	if !j.Close(background, "the collector hangs") {
		t.Error("nothing is said to be kept")
	}
	awaitAbandoned()
	want(t, drained(t, s, here), "a")
}
