package spool

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

// freeze makes calls of a kind hang until they are released. No test that uses
// it may run beside others.
func freeze(t *testing.T, call string) (release func()) {
	t.Helper()
	frozen := make(chan struct{})
	OnDisk = func(c string) {
		if c == call {
			<-frozen
		}
	}
	release = sync.OnceFunc(func() { close(frozen) })
	t.Cleanup(func() {
		release()
		for abandoned.Load() > 0 {
			time.Sleep(time.Millisecond)
		}
		OnDisk = nil
	})
	return release
}

func TestNobodyWaitsForAFrozenDisk(t *testing.T) {
	for _, call := range []string{"create", "write", "sync", "rename"} {
		t.Run(call, func(t *testing.T) {
			s := newSpool(t, 1<<20)
			release := freeze(t, call)
			ctx, cancel := context.WithCancel(background)
			go cancel()
			if _, err := s.Put(ctx, here, requestOf(t, "a"), ""); !errors.Is(err, ErrFrozen) {
				t.Errorf("Put: %v", err)
			}
			// Nobody else is held up by it any more, however long he would wait.
			if _, err := s.Put(background, here, requestOf(t, "b"), ""); !errors.Is(err, ErrFrozen) {
				t.Errorf("then Put: %v", err)
			}
			release()
			for abandoned.Load() > 0 {
				time.Sleep(time.Millisecond)
			}
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
