package spool

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"time"
)

// OnDisk is called, if it is set, before each call that changes the disk, with the name
// of the call. Tests use it to simulate a disk that is slow or hangs.
var OnDisk atomic.Pointer[func(call string)]

func onDisk(call string) {
	if f := OnDisk.Load(); f != nil {
		(*f)(call)
	}
}

func rename(from, to string) error {
	onDisk("rename")
	return os.Rename(from, to)
}

func remove(path string) error {
	onDisk("remove")
	return os.Remove(path)
}

// discard removes a file that is no longer needed. If it cannot be removed, the
// next process that looks finds it again.
func discard(path string) { _ = remove(path) }

// ErrFrozen means that the disk did not answer before the caller's deadline. The
// call goes on in the background, and may still succeed.
var ErrFrozen = errors.New("the disk did not answer in time")

// abandonedCalls counts the disk calls that go on although nobody waits for them.
// While there are any, no new call is made, because it would make its caller wait as
// long.
var abandonedCalls atomic.Int32

// After its context has ended, a call may take graceSteps more steps. The grace period is
// counted in steps, because a busy machine, which may delay a call for as long as a disk
// that hangs, delays the steps as well.
const (
	graceSteps = 100
	graceStep  = time.Millisecond
)

// A diskLock is a mutex that is held while the disk is waited for. It is a channel because
// a goroutine that waits for a sync.Mutex stops the clock of testing/synctest.
type diskLock chan struct{}

func newDiskLock() diskLock { return make(diskLock, 1) }
func (l diskLock) Lock()    { l <- struct{}{} }
func (l diskLock) Unlock()  { <-l }

// do is within, for a call whose only result is an error.
func do(ctx context.Context, f func() error) error {
	_, err := within(ctx, func() (struct{}, error) { return struct{}{}, f() })
	return err
}

// within is await, unless the disk is known not to answer.
func within[T any](ctx context.Context, f func() (T, error)) (result T, err error) {
	if abandonedCalls.Load() > 0 {
		return result, ErrFrozen
	}
	return await(ctx, f)
}

// await runs f, and returns without it if ctx ends first: a call to a disk that
// does not answer cannot be interrupted, so f goes on in the background.
func await[T any](ctx context.Context, f func() (T, error)) (result T, err error) {
	if ctx.Done() == nil {
		return f()
	}
	type answer struct {
		result T
		err    error
	}
	answers := make(chan answer, 1)
	go func() {
		result, err := f()
		answers <- answer{result, err}
	}()
	select {
	case a := <-answers:
		return a.result, a.err
	case <-ctx.Done():
	}
	for range graceSteps {
		select {
		case a := <-answers:
			return a.result, a.err
		case <-time.After(graceStep):
		}
	}
	abandonedCalls.Add(1)
	go func() {
		<-answers
		abandonedCalls.Add(-1)
	}()
	return result, ErrFrozen
}
