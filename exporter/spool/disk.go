package spool

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"time"
)

// OnDisk is called, if it is set, before the calls that change the disk, with their
// name. It lets a test stand in for a disk that is slow or hangs.
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

// discard removes what is of no use any more. A file that cannot be removed is
// found again by whoever looks next.
func discard(path string) { _ = remove(path) }

// ErrFrozen says that the disk did not answer before the caller's deadline. The
// call goes on in the background, and may still succeed.
var ErrFrozen = errors.New("the disk did not answer in time")

// abandoned is how many calls go on although nobody waits for them. While there
// are some nothing more is asked of the disk: each would cost its caller the
// same wait.
var abandoned atomic.Int32

// grace is how long a call is waited for even though its context has ended.
const grace = 50 * time.Millisecond

// within does f, which the caller leaves behind when ctx ends first: a call on a
// disk that does not answer cannot be interrupted.
func within[T any](ctx context.Context, f func() (T, error)) (result T, err error) {
	if abandoned.Load() > 0 {
		return result, ErrFrozen
	}
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
	select { // a deadline that is near is no fault of the disk
	case a := <-answers:
		return a.result, a.err
	case <-time.After(grace):
	}
	abandoned.Add(1)
	go func() {
		<-answers
		abandoned.Add(-1)
	}()
	return result, ErrFrozen
}
