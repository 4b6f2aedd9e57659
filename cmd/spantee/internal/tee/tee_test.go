package tee

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A recorder is a consumer that keeps everything it gets.
type recorder struct {
	each func(offset int) // is called for each chunk, if set

	seen    bytes.Buffer
	moved   atomic.Int64
	hurried atomic.Bool
	done    chan struct{}
	mu      sync.Mutex
	waits   []bool // whether the recorder might wait, when that changed
	whole   bool
	lost    Lost
}

// follow returns a Tee with the recorder as its consumer.
func (r *recorder) follow(in io.Reader, out io.Writer, opts Options) *Tee {
	opts.Progress, opts.Hurry = r.moved.Load, func() { r.hurried.Store(true) }
	t := New(in, out, opts)
	t.cpu = func() time.Duration { return 0 }
	r.done = make(chan struct{})
	go r.run(t)
	return t
}

func (r *recorder) run(t *Tee) {
	defer close(r.done)
	r.takeAll(t)
	r.whole, r.lost = t.Ended()
}

func (r *recorder) takeAll(t *Tee) {
	defer func() {
		if p := recover(); p != nil {
			t.Detach(fmt.Errorf("a bug: %v", p))
		}
	}()
	for buf := make([]byte, 64<<10); ; {
		p, err := t.Next(buf, time.Now().Add(time.Hour))
		if err != nil {
			return
		}
		r.mu.Lock()
		if n := len(r.waits); n == 0 && p.Behind || n > 0 && p.Behind != r.waits[n-1] {
			r.waits = append(r.waits, p.Behind)
		}
		r.mu.Unlock()
		if r.each != nil {
			r.each(r.seen.Len())
		}
		r.mu.Lock()
		r.seen.Write(p.Bytes)
		r.mu.Unlock()
	}
}

func (r *recorder) waited() []bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.waits)
}

// size returns how many bytes the consumer has seen.
func (r *recorder) size() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen.Len()
}

// want fails unless the consumer saw all of in, and nothing else.
func (r *recorder) want(t *testing.T, in []byte) {
	t.Helper()
	if !bytes.Equal(r.seen.Bytes(), in) {
		t.Errorf("the consumer saw %d bytes, of %d, or others", r.seen.Len(), len(in))
	}
	if !r.whole || r.lost != (Lost{}) {
		t.Errorf("whole %v, lost %v", r.whole, r.lost)
	}
}

// copyAll copies in, and returns the Tee after its end.
func (r *recorder) copyAll(t *testing.T, in []byte, opts Options) *Tee {
	t.Helper()
	var out bytes.Buffer
	tee := r.follow(bytes.NewReader(in), &out, opts)
	if err := tee.Copy(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), in) {
		t.Error("other bytes came out")
	}
	tee.End(true)
	return tee
}

// lines are size bytes, or some more, of lines that differ.
func lines(size int) []byte {
	b := make([]byte, 0, size+100)
	for i := int64(0); len(b) < size; i++ {
		b = append(strconv.AppendInt(b, i, 10), " 0123456789abcdef\n"...)
	}
	return b
}

// A consumer that stops for a while sees every byte, whatever room there is for
// what it has not seen; and while there is some the stream does not wait.
func TestEverythingIsSeen(t *testing.T) {
	in := lines(5 * ringSize)
	for _, tc := range []struct {
		name  string
		dir   func(t *testing.T) string
		opts  Options
		waits bool // the stream does
	}{
		{name: "room for all", dir: (*testing.T).TempDir, opts: Options{SpillMax: 1 << 30}},
		{name: "a small spill", dir: (*testing.T).TempDir, opts: Options{SpillMax: ringSize + 12345}, waits: true},
		{name: "no spill", dir: (*testing.T).TempDir, waits: true},
		{name: "no folder", dir: func(*testing.T) string { return "" }, opts: Options{SpillMax: 1 << 30}, waits: true},
		{name: "no folder can be made", dir: func(*testing.T) string { return os.Args[0] + "/state" }, opts: Options{SpillMax: 1 << 30}, waits: true},
		{name: "a recording", dir: (*testing.T).TempDir, opts: Options{SpillMax: 1 << 30, Recording: true}, waits: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.opts.SpillDir = tc.dir(t)
			synctest.Test(t, func(t *testing.T) {
				const pause = time.Second
				seen := &recorder{each: func(offset int) {
					if offset == 0 {
						time.Sleep(pause)
					}
				}}
				began := time.Now()
				tee := seen.copyAll(t, in, tc.opts)
				if waited := time.Since(began) > 0; tee.Err() != nil || waited != tc.waits {
					t.Errorf("the stream waited: %v; %v", waited, tee.Err())
				}
				if _, ok := tee.Await(seen.done, 2*pause); !ok {
					t.Fatal("the consumer is not finished")
				}
				seen.want(t, in)
				if dir := tc.opts.SpillDir; dir != "" && !tc.opts.Recording {
					if names, _ := os.ReadDir(dir); len(names) > 0 {
						t.Errorf("%v is left in the state folder", names)
					}
				}
			})
		})
	}
}

// Reads of every size, a spill that is full again and again, and a consumer that
// is sometimes slow and sometimes fast.
func TestOrder(t *testing.T) {
	in := lines(4 * ringSize)
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			gate := make(chan struct{}, 8)
			seen := &recorder{each: func(int) { <-gate }}
			rest := in
			tee := seen.follow(readerFunc(func(p []byte) (int, error) {
				if len(rest) == 0 {
					return 0, io.EOF
				}
				n := copy(p[:min(len(p), 1+r.IntN(maxRead))], rest)
				rest = rest[n:]
				return n, nil
			}), io.Discard, Options{SpillDir: t.TempDir(), SpillMax: int64(spillChunk + r.IntN(ringSize))})
			go func() {
				for {
					select {
					case gate <- struct{}{}:
					case <-seen.done:
						return
					}
				}
			}()
			if err := tee.Copy(); err != nil {
				t.Fatal(err)
			}
			tee.End(true)
			<-seen.done
			seen.want(t, in)
		})
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A consumer that panics is detached. The stream goes on, and at its end it is
// known how much was not seen.
func TestPanic(t *testing.T) {
	in := lines(5 * ringSize)
	seen := &recorder{each: func(offset int) {
		if offset > 0 {
			panic("oops")
		}
	}}
	tee := seen.copyAll(t, in, Options{SpillDir: t.TempDir(), SpillMax: 1 << 30})
	<-seen.done
	if err := tee.Err(); err == nil || err.Error() != "a bug: oops" {
		t.Errorf("failure %v", err)
	}
	wantLost(t, seen.lost, in[seen.seen.Len():])
	if seen.whole {
		t.Error("the consumer saw the whole stream")
	}
}

func wantLost(t *testing.T, got Lost, unseen []byte) {
	t.Helper()
	want := Lost{int64(len(unseen)), int64(bytes.Count(unseen, []byte{'\n'}))}
	if got != want || want.Bytes == 0 {
		t.Errorf("lost %+v, want %+v", got, want)
	}
}

// A consumer that hangs is detached once there is no room left and it has not
// advanced for StallLimit. Before, it is told not to wait for others.
func TestHangingConsumer(t *testing.T) {
	for _, spillMax := range []int64{0, ringSize} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			hang := make(chan struct{})
			const pause = time.Second
			seen := &recorder{each: func(offset int) {
				if offset == 0 {
					time.Sleep(pause) // then it is behind
				} else {
					<-hang
				}
			}}
			in := lines(5 * ringSize)
			began := time.Now()
			tee := seen.copyAll(t, in, Options{SpillDir: dir, SpillMax: spillMax})
			if took := time.Since(began); took < StallLimit || took > pause+StallLimit+stallLook || !errors.Is(tee.Err(), ErrStalled) {
				t.Errorf("the stream was held up for %v; %v", took, tee.Err())
			}
			if _, ok := tee.Await(seen.done, time.Second); ok {
				t.Error("it is finished")
			}
			lost := tee.Lost()
			close(hang)
			<-seen.done
			wantLost(t, lost, in[64<<10:])
			if !seen.hurried.Load() {
				t.Error("it was not told to wait for nothing")
			}
			if seen.whole || seen.lost.Bytes == 0 {
				t.Errorf("then whole %v, lost %+v", seen.whole, seen.lost)
			}
		})
	}
}

// A consumer that is slow, but advances, is waited for however long it takes: by
// bytes, by what else it does, and in a recording even if it does not advance.
func TestSlowConsumer(t *testing.T) {
	for name, slow := range map[string]func(*recorder){
		"bytes": func(*recorder) { time.Sleep(StallLimit - stallLook) },
		"spans": func(r *recorder) {
			r.moved.Add(1)
			time.Sleep(StallLimit - stallLook)
			r.moved.Add(1)
			time.Sleep(stallLook)
		},
		"recording": func(*recorder) { time.Sleep(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seen := new(recorder)
				seen.each = func(int) { slow(seen) }
				in := lines(2 * ringSize)
				if err := seen.copyAll(t, in, Options{Recording: name == "recording"}).Err(); err != nil {
					t.Error(err)
				}
				<-seen.done
				seen.want(t, in)
			})
		})
	}
}

// In a backlog the consumer may wait for others, and after it no more.
func TestBacklog(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		seen := &recorder{each: func(int) { time.Sleep(time.Millisecond) }}
		in := lines(2 * ringSize)
		r, w := io.Pipe()
		tee := seen.follow(r, io.Discard, Options{SpillDir: dir, SpillMax: 1 << 30})
		copied := make(chan error)
		go func() { copied <- tee.Copy() }()
		w.Write(in)
		time.Sleep(time.Hour)
		w.Write([]byte("\n"))
		synctest.Wait()
		if got := fmt.Sprint(seen.waited()); got != "[true false]" {
			t.Errorf("it might wait: %v", got)
		}
		w.Close()
		<-copied
		tee.End(true)
		<-seen.done
		seen.want(t, append(in, '\n'))
	})
}

// Without bytes, Next returns at its deadline.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tee := New(strings.NewReader("a line\n"), io.Discard, Options{})
		buf := make([]byte, 100)
		deadline := time.Now().Add(time.Minute)
		if p, err := tee.Next(buf, deadline); err != nil || len(p.Bytes) > 0 || !time.Now().Equal(deadline) {
			t.Errorf("%q, %v at %v", p.Bytes, err, time.Now())
		}
		if err := tee.Copy(); err != nil {
			t.Error(err)
		}
		tee.End(true)
		if p, err := tee.Next(buf, deadline); err != nil || string(p.Bytes) != "a line\n" {
			t.Errorf("%q, %v", p.Bytes, err)
		}
		if p, err := tee.Next(buf, deadline); !errors.Is(err, io.EOF) {
			t.Errorf("%q, %v", p.Bytes, err)
		}
	})
}

// Bytes keep the time at which they came, however late they are consumed.
func TestArrivals(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r, w := io.Pipe()
		tee := New(r, io.Discard, Options{SpillDir: dir, SpillMax: 1 << 30})
		copied := make(chan error)
		go func() { copied <- tee.Copy() }()
		for range 4 {
			w.Write(append(bytes.Repeat([]byte("x"), ringSize/2-1), '\n'))
			time.Sleep(time.Second)
		}
		w.Close()
		if err := <-copied; err != nil {
			t.Error(err)
		}
		tee.End(true)
		var came []string
		for buf := make([]byte, 64<<10); ; {
			p, err := tee.Next(buf, time.Now().Add(time.Hour))
			if err != nil {
				break
			}
			for range bytes.Count(p.Bytes, []byte{'\n'}) {
				came = append(came, p.Arrived.Sub(began).String())
			}
		}
		tee.Ended()
		if got := strings.Join(came, " "); got != "0s 1s 2s 3s" {
			t.Errorf("lines came at %s", got)
		}
	})
}

// While a stream pours in and there is room for it, the consumer rests. It works while
// the stream only flows.
func TestRest(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		begun := make(chan struct{}) // closed once the consumer is behind
		seen := &recorder{each: func(offset int) {
			if offset == 0 {
				<-begun
			}
		}}
		r, w := io.Pipe()
		tee := seen.follow(r, io.Discard, Options{SpillDir: dir, SpillMax: 1 << 30})
		copied := make(chan error)
		go func() { copied <- tee.Copy() }()
		in := bytes.Repeat(lines(restSize), 22)
		sent := 0
		send := func(size int) (waiting int) {
			w.Write(in[sent : sent+size])
			if sent == 0 {
				synctest.Wait()
				close(begun)
			}
			sent += size
			time.Sleep(restTime / 4)
			synctest.Wait()
			return sent - seen.size()
		}
		for range 20 {
			if waiting := send(restSize); waiting < sent-ringSize {
				t.Errorf("%d bytes of %d were consumed", sent-waiting, sent)
			}
		}
		for range 12 {
			send(1000)
		}
		time.Sleep(gatherTime)
		synctest.Wait()
		if waiting := sent - seen.size(); waiting > 0 {
			t.Errorf("%d bytes wait although the stream only flows", waiting)
		}
		send(restSize)
		w.Close()
		<-copied
		tee.End(true)
		<-seen.done
		seen.want(t, in[:sent])
	})
}

// The consumer sees a line at once, and those that come right after it together.
func TestGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var chunks atomic.Int64
		seen := &recorder{each: func(int) { chunks.Add(1) }}
		r, w := io.Pipe()
		tee := seen.follow(r, io.Discard, Options{})
		copied := make(chan error)
		go func() { copied <- tee.Copy() }()
		var in []byte
		send := func(line []byte, want int64) {
			t.Helper()
			in = append(in, line...)
			w.Write(line)
			synctest.Wait()
			if got := chunks.Load(); got != want {
				t.Errorf("%d chunks after %d bytes, want %d", got, len(in), want)
			}
		}
		for before := int64(0); before < 6; before += 2 {
			send([]byte("the first\n"), before+1)
			for range 5 {
				send([]byte("another\n"), before+1)
			}
			time.Sleep(gatherTime)
			send(nil, before+2)
			time.Sleep(time.Second)
		}
		w.Close()
		<-copied
		tee.End(true)
		<-seen.done
		seen.want(t, in)
	})
}
