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
			if _, err := s.Put(ctx, here, requestOf(t, "a"), ""); !errors.Is(err, ErrFrozen) {
				t.Errorf("Put: %v", err)
			}
			// No later call waits for the disk, whatever its deadline.
			if _, err := s.Put(background, here, requestOf(t, "b"), ""); !errors.Is(err, ErrFrozen) {
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
	end(t, j, spanOf("a"))
	j.Commit()
	if done, _ := j.Written(1); done {
		t.Error("it is said to be on disk")
	}
	for range 2 * maxQueued / (1 << 20) { // meanwhile the stream goes on
		long := spanOf("long")
		long.TraceState = string(make([]byte, 1<<20))
		n := j.Append(wire(t, long), 0)
		j.Commit()
		j.Done(n, n+1)
	}
	if err := await(j, j.next); err == nil || j.w.queued.size > 2*maxQueued {
		t.Errorf("%d bytes are queued, %v", j.w.queued.size, err)
	}
	ctx, cancel := context.WithTimeout(background, time.Millisecond)
	defer cancel()
	if _, kept := j.Close(ctx, "the collector hangs"); kept {
		t.Error("it is said to be kept")
	}
	release()
	<-j.w.stopped
}

// A piece that does not end takes no more memory than a disk that is slow.
func TestAPieceThatDoesNotEnd(t *testing.T) {
	s := newSpool(t, 64<<20)
	j := newJournal(t, s)
	checkpoint(t, j, spanOf("root"))
	for range 2 * maxQueued / (1 << 20) {
		n := j.Append(wire(t, long("gone", 1<<20)), 0)
		j.Done(n, n+1)
		if len(j.piece) > maxQueued+2<<20 {
			t.Fatalf("the piece has %d bytes", len(j.piece))
		}
	}
	end(t, j, spanOf("last"))
	if err := j.Checkpoint(encodedSpans(spanOf("root"))); err == nil {
		t.Error("nothing says that a kill would have lost spans")
	}
	awaitDisk(t, j)
	die(t, j)
	wantRecovered(t, s, 2)
	want(t, drained(t, s, here), "last", "root")
}
