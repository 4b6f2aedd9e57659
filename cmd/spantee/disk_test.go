package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A slowFile calls write before it writes a piece, with the piece's number from 0.
type slowFile struct {
	spillFile
	write  func(n int) error
	pieces int
}

func (f *slowFile) WriteAt(p []byte, offset int64) (int, error) {
	if offset%pieceSize == 0 {
		n := f.pieces
		f.pieces++
		if err := f.write(n); err != nil {
			return 0, err
		}
	}
	return f.spillFile.WriteAt(p, offset)
}

// newSlowTap returns a tap of a live stream that spills to a slowFile.
func newSlowTap(c consumer, dir string, spillMax int64, write func(n int) error) (t *tap, f *slowFile) {
	f = &slowFile{write: write}
	t = newTap(c, true, dir, spillMax)
	t.cpu = func() time.Duration { return 0 }
	t.newSpill = func(offset int64) (*spill, error) {
		s, err := newSpill(dir, spillMax, offset)
		if err == nil {
			f.spillFile, s.f = s.f, f
		}
		return s, err
	}
	return t, f
}

// slowAt returns a write that takes a second for one piece, and closes began before.
func slowAt(piece int, began chan struct{}) func(n int) error {
	return func(n int) error {
		if n == piece {
			close(began)
			time.Sleep(time.Second)
		}
		return nil
	}
}

var errDisk = errors.New("no space left on device")

// After a failed write, nothing more is spilled, and the stream waits for the consumer,
// which sees everything. It may be slow, or may have caught up during the write.
func TestTapOnAFullDisk(t *testing.T) {
	in := lines(5 * ringSize)
	for _, failing := range []int{0, 1, 2, 5} {
		for _, slow := range []bool{true, false} {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				begin := make(chan struct{})
				seen := &recorder{each: func(int) {
					<-begin
					if slow {
						time.Sleep(stallLimit / 4)
					}
				}}
				const pause = time.Second / 2
				tap, file := newSlowTap(seen, dir, 2*ringSize, func(n int) error {
					if n != failing {
						return nil
					}
					close(begin)
					time.Sleep(pause)
					return errDisk
				})
				began := time.Now()
				err := copyAll(t, tap, in)
				if waited := time.Since(began) > pause; err != nil || waited != slow {
					t.Errorf("the stream waited: %v; %v", waited, err)
				}
				<-tap.done
				seen.want(t, in)
				if file.pieces != failing+1 {
					t.Errorf("%d pieces were spilled, the last of which should have been number %d", file.pieces, failing)
				}
			})
		}
	}
}

// A consumer that has caught up while the last piece is written waits for it, also
// when a signal has ended the stream.
func TestTapWaitsForTheLastPiece(t *testing.T) {
	for last := range 2 {
		for _, stop := range []bool{false, true} {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				begin := make(chan struct{})
				seen := &recorder{each: func(int) { <-begin }}
				tap, _ := newSlowTap(seen, dir, 1<<30, slowAt(last, begin))
				in := lines(2 * ringSize)
				pass := newPassthrough(bytes.NewReader(in), io.Discard, tap)
				copied := make(chan error)
				go func() { copied <- pass.run() }()
				<-begin
				if stop {
					pass.stop()
					tap.close(true)
					in = in[:ringSize+(last+1)*pieceSize]
				}
				if err := <-copied; err != nil {
					t.Error(err)
				}
				tap.close(true)
				<-tap.done
				seen.want(t, in)
				if tap.spillMax == 0 {
					t.Error("nothing can be spilled any more")
				}
			})
		}
	}
}

// If the consumer panics while a piece is written, and a signal ends the stream, the
// piece is counted before the consumer is finished, and the spill is closed.
func TestTapCountsTheLastPiece(t *testing.T) {
	for last := range 2 {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			panics := make(chan struct{})
			seen := &recorder{each: func(int) {
				<-panics
				panic("a bug")
			}}
			tap, file := newSlowTap(seen, dir, 1<<30, slowAt(last, panics))
			in := lines(5 * ringSize)
			pass := newPassthrough(bytes.NewReader(in), io.Discard, tap)
			copied := make(chan error, 1)
			go func() { copied <- pass.run() }()
			<-panics
			pass.stop()
			tap.close(false)
			wantLost(t, tap.lost(), in[:ringSize+(last+1)*pieceSize])
			<-tap.done
			wantLost(t, seen.lost, in[:ringSize+(last+1)*pieceSize])
			wantClosed(t, file)
			<-copied
		})
	}
}

func wantClosed(t *testing.T, f *slowFile) {
	t.Helper()
	if _, err := f.ReadAt(make([]byte, 1), 0); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the spill is open: %v", err)
	}
}

// A disk that hangs holds the stream up for no longer than a consumer that hangs.
// When it answers, in the middle of the stream or after its end, nothing is copied
// or counted twice.
func TestTapDetachesHangingDisk(t *testing.T) {
	in := lines(5 * ringSize)
	for _, hanging := range []int{0, 1, 5} {
		for _, answer := range []error{nil, errDisk} {
			for _, early := range []bool{true, false} {
				dir := t.TempDir()
				synctest.Test(t, func(t *testing.T) {
					resume, answers := make(chan struct{}), make(chan struct{})
					seen := &recorder{each: func(int) { <-resume }}
					began := make(chan time.Time, 1)
					tap, file := newSlowTap(seen, dir, 1<<30, func(n int) error {
						if n == hanging {
							began <- time.Now()
							<-answers
							return answer
						}
						return nil
					})
					rest := bytes.NewReader(in)
					goesOn := sync.OnceFunc(func() {
						if took := time.Since(<-began); took != stallLimit || !errors.Is(tap.err(), errHung) {
							t.Errorf("the stream was held up for %v; %v", took, tap.err())
						}
						if early {
							close(answers)
							time.Sleep(time.Second)
						}
					})
					var out bytes.Buffer
					err := newPassthrough(readerFunc(func(p []byte) (int, error) {
						if tap.err() != nil {
							goesOn()
						}
						return rest.Read(p)
					}), &out, tap).run()
					if err != nil || !bytes.Equal(out.Bytes(), in) {
						t.Errorf("other bytes came out; %v", err)
					}
					tap.close(true)
					wantLost(t, tap.lost(), in)
					close(resume)
					<-tap.done
					if !early {
						close(answers)
					}
					synctest.Wait()
					wantLost(t, seen.lost, in[seen.seen.Len():])
					wantClosed(t, file)
				})
			}
		}
	}
}

// A disk that is slow, but answers, is waited for however long it takes in all.
func TestTapWaitsForSlowDisk(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		resume := make(chan struct{})
		seen := &recorder{each: func(int) { <-resume }}
		const pause = stallLook * 6 / 5
		tap, _ := newSlowTap(seen, dir, 1<<30, func(int) error {
			time.Sleep(pause)
			return nil
		})
		in := lines(ringSize + int(2*busyLimit/pause)*pieceSize)
		if err := copyAll(t, tap, in); err != nil {
			t.Error(err)
		}
		close(resume)
		<-tap.done
		seen.want(t, in)
	})
}

// A disk that hangs is not waited for as long as a slow consumer has work.
func TestTapDetachesHangingDiskOfSlowConsumer(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		seen := &recorder{each: func(int) { time.Sleep(stallLimit / 2) }}
		answers := make(chan struct{})
		began := make(chan time.Time, 1)
		tap, _ := newSlowTap(seen, dir, 1<<30, func(n int) error {
			if n == 50 {
				began <- time.Now()
				<-answers
			}
			return nil
		})
		err := copyAll(t, tap, lines(20*ringSize))
		if took := time.Since(<-began); took != busyLimit || !errors.Is(err, errHung) {
			t.Errorf("the stream was held up for %v; %v", took, err)
		}
		close(answers)
		<-tap.done
	})
}
