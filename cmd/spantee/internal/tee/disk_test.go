package tee

import (
	"bytes"
	"errors"
	"io"
	"os"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// A slowDisk calls write before it writes a chunk, with the chunk's number from 0.
type slowDisk struct {
	spillFile
	write  func(n int) error
	chunks int
}

func (f *slowDisk) WriteAt(p []byte, offset int64) (int, error) {
	n := f.chunks
	f.chunks++
	if err := f.write(n); err != nil {
		return 0, err
	}
	return f.spillFile.WriteAt(p, offset)
}

// copyTo copies in with a spill on a slowDisk. The caller must end the Tee.
func (r *recorder) copyTo(disk *slowDisk, in io.Reader, out io.Writer, opts Options) *Tee {
	tee := r.follow(in, out, opts)
	tee.spill.open = func(dir string) (spillFile, error) {
		f, err := createUnlinked(dir)
		disk.spillFile = f
		return disk, err
	}
	return tee
}

var errDisk = errors.New("no space left on device")

// After a failed write, nothing more is spilled, and the stream waits for the consumer,
// which sees everything. It may be slow, or may have caught up during the write.
func TestFullDisk(t *testing.T) {
	in := lines(5 * ringSize)
	for _, failing := range []int{0, 1, 2, 20} {
		for _, slow := range []bool{true, false} {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				begin := make(chan struct{})
				seen := &recorder{each: func(int) {
					<-begin
					if slow {
						time.Sleep(StallLimit / 4)
					}
				}}
				const pause = time.Second / 2
				disk := &slowDisk{write: func(n int) error {
					if n != failing {
						return nil
					}
					close(begin)
					time.Sleep(pause)
					return errDisk
				}}
				var out bytes.Buffer
				tee := seen.copyTo(disk, bytes.NewReader(in), &out, Options{SpillDir: dir, SpillMax: 2 * ringSize})
				began := time.Now()
				err := tee.Copy()
				tee.End(true)
				if waited := time.Since(began) > pause; err != nil || tee.Err() != nil || waited != slow || !bytes.Equal(out.Bytes(), in) {
					t.Errorf("the stream waited: %v; %v, %v", waited, err, tee.Err())
				}
				<-seen.done
				time.Sleep(pause) // until the disk has answered
				synctest.Wait()
				seen.want(t, in)
				if disk.chunks != failing+1 {
					t.Errorf("%d chunks were spilled, the last of which should have been number %d", disk.chunks, failing)
				}
				wantClosed(t, disk)
			})
		}
	}
}

func wantClosed(t *testing.T, f *slowDisk) {
	t.Helper()
	if _, err := f.ReadAt(make([]byte, 1), 0); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the spill is open: %v", err)
	}
}

// A disk that hangs keeps the consumer from nothing that is still in memory, and holds
// the stream up only as long as a consumer that hangs. When it answers, in the
// middle of the stream or after its end, nothing is copied or counted twice.
func TestHangingDisk(t *testing.T) {
	in := lines(5 * ringSize)
	for _, hanging := range []int{0, 1, 20} {
		for _, answer := range []error{nil, errDisk} {
			for _, early := range []bool{true, false} {
				dir := t.TempDir()
				synctest.Test(t, func(t *testing.T) {
					resume, answers := make(chan struct{}), make(chan struct{})
					seen := &recorder{each: func(int) { <-resume }}
					disk := &slowDisk{write: func(n int) error {
						if n == hanging {
							<-answers
							return answer
						}
						return nil
					}}
					var tee *Tee
					rest := bytes.NewReader(in)
					began := time.Now()
					detached := false
					var out bytes.Buffer
					tee = seen.copyTo(disk, readerFunc(func(p []byte) (int, error) {
						if tee.Err() != nil && !detached {
							detached = true
							if took := time.Since(began); took < StallLimit || took > StallLimit+stallLook || !errors.Is(tee.Err(), ErrDisk) {
								t.Errorf("the stream was held up for %v; %v", took, tee.Err())
							}
							if early {
								close(answers)
								time.Sleep(time.Second)
							}
						}
						return rest.Read(p)
					}), &out, Options{SpillDir: dir, SpillMax: 1 << 30})
					if err := tee.Copy(); err != nil || !bytes.Equal(out.Bytes(), in) {
						t.Errorf("other bytes came out; %v", err)
					}
					if !detached {
						t.Error("the consumer was not detached")
					}
					tee.End(true)
					wantLost(t, tee.Lost(), in)
					close(resume)
					<-seen.done
					if !early {
						close(answers)
					}
					synctest.Wait()
					wantLost(t, seen.lost, in[seen.seen.Len():])
					wantClosed(t, disk)
				})
			}
		}
	}
}

// A consumer that works sees everything although the disk hangs.
func TestHangingDiskOfAWorkingConsumer(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan struct{})
		hangs := make(chan struct{})
		seen := &recorder{each: func(int) { time.Sleep(time.Second) }}
		disk := &slowDisk{write: func(n int) error {
			if n == 10 {
				close(hangs)
				<-answers
			}
			return nil
		}}
		in := lines(5 * ringSize)
		var out bytes.Buffer
		tee := seen.copyTo(disk, bytes.NewReader(in), &out, Options{SpillDir: dir, SpillMax: 1 << 30})
		if err := tee.Copy(); err != nil || !bytes.Equal(out.Bytes(), in) {
			t.Errorf("other bytes came out; %v", err)
		}
		<-hangs
		tee.End(true)
		<-seen.done
		seen.want(t, in)
		close(answers)
		synctest.Wait()
		wantClosed(t, disk)
	})
}

// A disk that is slow, but answers, is waited for however long it takes in all.
func TestSlowDisk(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		resume := make(chan struct{})
		seen := &recorder{each: func(int) { <-resume }}
		const pause = stallLook * 6 / 5
		disk := &slowDisk{write: func(int) error {
			time.Sleep(pause)
			return nil
		}}
		in := lines(ringSize + int(2*busyLimit/pause)*spillChunk)
		tee := seen.copyTo(disk, bytes.NewReader(in), io.Discard, Options{SpillDir: dir, SpillMax: 1 << 30})
		if err := tee.Copy(); err != nil || tee.Err() != nil {
			t.Error(err, tee.Err())
		}
		tee.End(true)
		close(resume)
		<-seen.done
		time.Sleep(pause) // until the last chunk is written
		synctest.Wait()
		seen.want(t, in)
		wantClosed(t, disk)
	})
}

// A spill that cannot be read back detaches the consumer.
func TestUnreadableSpill(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		resume := make(chan struct{})
		seen := &recorder{each: func(int) { <-resume }}
		disk := &slowDisk{write: func(int) error { return nil }}
		in := lines(3 * ringSize)
		tee := seen.copyTo(disk, bytes.NewReader(in), io.Discard, Options{SpillDir: dir, SpillMax: 1 << 30})
		if err := tee.Copy(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		disk.Close()
		close(resume)
		tee.End(true)
		<-seen.done
		if err := tee.Err(); !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
		wantLost(t, seen.lost, in[seen.seen.Len():])
	})
}

// Only spantee itself can reach what it has put aside, and a kill leaves nothing.
func TestSpillIsPrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no unlinked files here")
	}
	dir := t.TempDir()
	f, err := createUnlinked(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.(*os.File).Stat()
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
		t.Errorf("the folder has %v, %v", names, err)
	}
}
