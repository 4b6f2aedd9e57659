package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A recorder is a consumer that keeps all it is shown.
type recorder struct {
	each func(offset int) // is called before each piece, if set

	seen     bytes.Buffer
	moved    atomic.Int64
	ticks    atomic.Int64
	mu       sync.Mutex
	waits    []bool // what backlog was told
	finished bool
	whole    bool
	lost     untraced
}

func (r *recorder) consume(p []byte, _ time.Time) {
	if r.each != nil {
		r.each(r.seen.Len())
	}
	r.seen.Write(p)
	for i := range p {
		p[i] = '#' // what a consumer must not keep
	}
}

func (r *recorder) tick() time.Duration { r.ticks.Add(1); return 0 }
func (r *recorder) progress() int64     { return r.moved.Load() }

func (r *recorder) backlog(wait bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waits = append(r.waits, wait)
}

func (r *recorder) told() []bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.waits)
}

func (r *recorder) finish(whole bool, lost untraced) {
	r.finished, r.whole, r.lost = true, whole, lost
}

// want fails unless the consumer saw all of in, and nothing else.
func (r *recorder) want(t *testing.T, in []byte) {
	t.Helper()
	if !bytes.Equal(r.seen.Bytes(), in) {
		t.Errorf("the consumer saw %d bytes, of %d, or others", r.seen.Len(), len(in))
	}
	if !r.finished || !r.whole || r.lost != (untraced{}) {
		t.Errorf("finished %v, whole %v, lost %v", r.finished, r.whole, r.lost)
	}
}

// copyAll passes in through the tap, and returns the consumer's failure.
func copyAll(t *testing.T, tap *tap, in []byte) error {
	t.Helper()
	var out bytes.Buffer
	if err := newPassthrough(bytes.NewReader(in), &out, tap).run(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), in) {
		t.Error("other bytes came out")
	}
	tap.close(true)
	return tap.err()
}

// lines are size bytes, or some more, of lines that differ.
func lines(size int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "%d 0123456789abcdef\n", i)
	}
	return b.Bytes()
}

// A consumer that stops for a while sees every byte, whatever room there is for
// what it has not seen; and while there is some the stream does not wait.
func TestTapKeepsEverything(t *testing.T) {
	in := lines(5 * ringSize)
	for _, tc := range []struct {
		name     string
		live     bool
		dir      func(t *testing.T) string
		spillMax int64
		waits    bool // the stream does
	}{
		{name: "room for all", live: true, dir: (*testing.T).TempDir, spillMax: 1 << 30},
		{name: "a small spill", live: true, dir: (*testing.T).TempDir, spillMax: ringSize + 12345, waits: true},
		{name: "no spill", live: true, dir: (*testing.T).TempDir, waits: true},
		{name: "no folder", live: true, dir: func(*testing.T) string { return "" }, spillMax: 1 << 30, waits: true},
		{name: "no folder can be made", live: true, dir: func(*testing.T) string { return os.Args[0] + "/state" }, spillMax: 1 << 30, waits: true},
		{name: "a recording", dir: (*testing.T).TempDir, spillMax: 1 << 30, waits: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := tc.dir(t)
			synctest.Test(t, func(t *testing.T) {
				const pause = time.Second
				seen := &recorder{each: func(offset int) {
					if offset == 0 {
						time.Sleep(pause)
					}
				}}
				tap := newTap(seen, tc.live, dir, tc.spillMax)
				tap.cpu = func() time.Duration { return 0 }
				began := time.Now()
				err := copyAll(t, tap, in)
				if waited := time.Since(began) > 0; err != nil || waited != tc.waits {
					t.Errorf("the stream waited: %v; %v", waited, err)
				}
				if !tap.wait(2 * pause) {
					t.Fatal("the consumer is not finished")
				}
				seen.want(t, in)
				if dir != "" && tc.live {
					if names, _ := os.ReadDir(dir); len(names) > 0 {
						t.Errorf("%v is left in the state folder", names)
					}
				}
			})
		})
	}
}

// Pieces of every size, a spill that is full again and again, and a consumer that
// is sometimes slow and sometimes fast.
func TestTapKeepsTheOrder(t *testing.T) {
	in := lines(4 * ringSize)
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			gate := make(chan struct{}, 8)
			seen := &recorder{each: func(int) { <-gate }}
			tap := newTap(seen, true, t.TempDir(), int64(pieceSize+r.IntN(ringSize)))
			tap.cpu = func() time.Duration { return 0 }
			go func() {
				for {
					select {
					case gate <- struct{}{}:
					case <-tap.done:
						return
					}
				}
			}()
			rest := in
			err := newPassthrough(readerFunc(func(p []byte) (int, error) {
				if len(rest) == 0 {
					return 0, io.EOF
				}
				n := copy(p[:min(len(p), 1+r.IntN(pieceSize))], rest)
				rest = rest[n:]
				return n, nil
			}), io.Discard, tap).run()
			if err != nil {
				t.Fatal(err)
			}
			tap.close(true)
			<-tap.done
			seen.want(t, in)
		})
	}
}

// A consumer that panics is detached. The stream goes on, and at its end it is
// known how much was not seen.
func TestTapSurvivesPanic(t *testing.T) {
	in := lines(5 * ringSize)
	seen := &recorder{each: func(offset int) {
		if offset > 0 {
			panic("a bug")
		}
	}}
	tap := newTap(seen, true, t.TempDir(), 1<<30)
	tap.cpu = func() time.Duration { return 0 }
	_ = copyAll(t, tap, in)
	<-tap.done
	if err := tap.err(); err == nil || err.Error() != "a bug in spantee: a bug" {
		t.Errorf("failure %v", err)
	}
	wantLost(t, seen.lost, in[seen.seen.Len():])
	if !seen.finished || seen.whole {
		t.Errorf("finished %v, whole %v", seen.finished, seen.whole)
	}
}

func wantLost(t *testing.T, got untraced, unseen []byte) {
	t.Helper()
	want := untraced{int64(len(unseen)), int64(bytes.Count(unseen, newline))}
	if got != want || want.bytes == 0 {
		t.Errorf("lost %+v, want %+v", got, want)
	}
}

// A consumer that hangs is detached once there is no room left and it has not
// moved for stallLimit. Before, it is told not to wait for others.
func TestTapDetachesHangingConsumer(t *testing.T) {
	for _, spillMax := range []int64{0, ringSize} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			hang := make(chan struct{})
			seen := &recorder{each: func(int) { <-hang }}
			tap := newTap(seen, true, dir, spillMax)
			tap.cpu = func() time.Duration { return 0 }
			in := lines(5 * ringSize)
			began := time.Now()
			err := copyAll(t, tap, in)
			if took := time.Since(began); took != stallLimit || !errors.Is(err, errStalled) {
				t.Errorf("the stream was held up for %v; %v", took, err)
			}
			if tap.wait(time.Second) {
				t.Error("it is finished")
			}
			wantLost(t, tap.lost(), in)
			close(hang)
			<-tap.done
			if told := seen.told(); len(told) == 0 || told[len(told)-1] {
				t.Errorf("told to wait: %v", told)
			}
			if seen.whole || seen.lost.bytes == 0 {
				t.Errorf("then whole %v, lost %+v", seen.whole, seen.lost)
			}
		})
	}
}

// A consumer that is slow, but moves, is waited for however long it takes: by
// bytes, by what else it does, and in a recording even if it does not move.
func TestTapWaitsForSlowConsumer(t *testing.T) {
	for name, slow := range map[string]func(*recorder){
		"bytes": func(*recorder) { time.Sleep(stallLimit - stallLook) },
		"spans": func(r *recorder) {
			r.moved.Add(1)
			time.Sleep(stallLimit - stallLook)
			r.moved.Add(1)
			time.Sleep(stallLook)
		},
		"recording": func(*recorder) { time.Sleep(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seen := new(recorder)
				seen.each = func(int) { slow(seen) }
				tap := newTap(seen, name != "recording", "", 0)
				tap.cpu = func() time.Duration { return 0 }
				in := lines(2 * ringSize)
				if err := copyAll(t, tap, in); err != nil {
					t.Error(err)
				}
				<-tap.done
				seen.want(t, in)
			})
		})
	}
}

// In a backlog the consumer may wait for others, and after it no more.
func TestTapTellsOfABacklog(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		seen := &recorder{each: func(int) { time.Sleep(time.Millisecond) }}
		tap := newTap(seen, true, dir, 1<<30)
		tap.cpu = func() time.Duration { return 0 }
		in := lines(2 * ringSize)
		r, w := io.Pipe()
		copied := make(chan error)
		go func() { copied <- newPassthrough(r, io.Discard, tap).run() }()
		w.Write(in)
		time.Sleep(time.Hour)
		if got := fmt.Sprint(seen.told()); got != "[true false]" {
			t.Errorf("told to wait: %v", got)
		}
		w.Close()
		<-copied
		tap.close(true)
		<-tap.done
		seen.want(t, in)
	})
}

// Ticks come a second after something has, and no others.
func TestTapIsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := new(recorder)
		r, w := io.Pipe()
		tap := newTap(seen, true, "", 0)
		tap.cpu = func() time.Duration { return 0 }
		copied := make(chan error)
		go func() { copied <- newPassthrough(r, io.Discard, tap).run() }()
		for i, want := range []int64{2, 3} {
			for range 3 {
				io.WriteString(w, "{}\n")
			}
			time.Sleep(time.Hour)
			if got := seen.ticks.Load(); got != want {
				t.Errorf("%d ticks after %d lines, want %d", got, 3*(i+1), want)
			}
		}
		w.Close()
		<-copied
		tap.close(true)
		<-tap.done
	})
}

// Bytes keep the time at which they came, however late they are consumed.
func TestTapKeepsArrivals(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var came []string
		seen := &clocked{each: func(p []byte, at time.Time) {
			if len(came) == 0 {
				time.Sleep(time.Hour)
			}
			for range bytes.Count(p, newline) {
				came = append(came, at.Sub(began).String())
			}
		}}
		tap := newTap(seen, true, dir, 1<<30)
		tap.cpu = func() time.Duration { return 0 }
		r, w := io.Pipe()
		copied := make(chan error)
		go func() { copied <- newPassthrough(r, io.Discard, tap).run() }()
		for range 4 {
			w.Write(append(bytes.Repeat([]byte("x"), ringSize/2-1), '\n'))
			time.Sleep(time.Second)
		}
		w.Close()
		<-copied
		tap.close(true)
		<-tap.done
		if got := strings.Join(came, " "); got != "0s 1s 2s 3s" {
			t.Errorf("lines came at %s", got)
		}
	})
}

type clocked struct {
	recorder
	each func([]byte, time.Time)
}

func (c *clocked) consume(p []byte, came time.Time) { c.each(p, came) }
