package spool

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/spantee/spantee/exporter/standstill"
)

// OnDisk is called, if it is set, before each call that changes the disk, with the name
// of the call. Tests use it to simulate a disk that is slow or hangs.
var OnDisk atomic.Pointer[func(call string)]

func onDisk(call string) {
	if f := OnDisk.Load(); f != nil {
		(*f)(call)
	}
}

// ErrFrozen means that the disk did not answer. The call goes on in the background, and may
// still succeed.
var ErrFrozen = errors.New("the disk did not answer in time")

// abandonedCalls counts the disk calls that go on although nobody waits for them.
// While there are any, no new call is made, because it would make its caller wait as
// long.
var abandonedCalls atomic.Int32

// A disk is frozen if a call has taken idleSteps steps in which the process stood still,
// or maxSteps in any case. Steps are counted, and not time, because a busy machine, which may
// delay a call for as long as a frozen disk does, delays the steps as well.
const (
	step      = 100 * time.Millisecond
	idleSteps = 20
	maxSteps  = 200
)

// A diskLock is a mutex that is held while the disk is waited for. It is a channel because
// a goroutine that waits for a sync.Mutex stops the clock of testing/synctest.
type diskLock chan struct{}

func newDiskLock() diskLock { return make(diskLock, 1) }
func (l diskLock) Lock()    { l <- struct{}{} }
func (l diskLock) Unlock()  { <-l }

// do is within, for a call whose only result is an error.
func do(f func() error) error {
	_, err := within(func() (struct{}, error) { return struct{}{}, f() })
	return err
}

// within is Await, unless the disk is known to be frozen.
func within[T any](f func() (T, error)) (result T, err error) {
	if abandonedCalls.Load() > 0 {
		return result, ErrFrozen
	}
	return Await(f)
}

// Await runs f. If the disk is frozen, it returns ErrFrozen, and f goes on in the background: a call
// to such a disk cannot be interrupted.
func Await[T any](f func() (T, error)) (result T, err error) {
	type answer struct {
		result T
		err    error
	}
	answers := make(chan answer, 1)
	go func() {
		result, err := f()
		answers <- answer{result, err}
	}()
	var watch standstill.Watch
	for all, waited := 0, 0; waited < idleSteps && all < maxSteps; all++ {
		select {
		case a := <-answers:
			return a.result, a.err
		case <-time.After(step):
		}
		if waited++; !watch.Still(step) {
			waited = 0
		}
	}
	abandonedCalls.Add(1)
	go func() {
		<-answers
		abandonedCalls.Add(-1)
	}()
	return result, ErrFrozen
}
