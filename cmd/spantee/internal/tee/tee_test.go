package tee

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spantee/spantee/exporter/standstill"
)

func TestMain(m *testing.M) {
	standstill.Used = func() time.Duration { return 0 } // the tests' clock does not follow the processor's
	os.Exit(m.Run())
}

// A recorder is a consumer that keeps everything it gets.
type recorder struct {
	each func(offset int) // is called for each chunk, if set

	seen  bytes.Buffer
	moved atomic.Int64
	done  chan struct{}
	whole bool
	lost  Lost
}

// follow returns a Tee with the recorder as its consumer.
func (r *recorder) follow(in io.Reader, out io.Writer, opts Options) *Tee {
	opts.Progress = r.moved.Load
	t := New(in, out, opts)
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
	for {
		p, _, err := t.Next(time.Now().Add(time.Hour))
		if err != nil {
			return
		}
		if r.each != nil {
			r.each(r.seen.Len())
		}
		r.seen.Write(p)
	}
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

// A consumer that stops for a while sees every byte. The stream waits for it only once the
// ring is full.
func TestEverythingIsSeen(t *testing.T) {
	for _, tc := range []struct {
		name  string
		size  int
		opts  Options
		waits bool // the stream does
	}{
		{name: "room for all", size: ringSize - 2*minRoom},
		{name: "no room", size: 5 * ringSize, waits: true},
		{name: "a recording", size: 5 * ringSize, opts: Options{Waits: true}, waits: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const pause = time.Second
				seen := &recorder{each: func(offset int) {
					if offset == 0 {
						time.Sleep(pause)
					}
				}}
				in := lines(tc.size)
				began := time.Now()
				tee := seen.copyAll(t, in, tc.opts)
				if waited := time.Since(began) > 0; tee.Err() != nil || waited != tc.waits {
					t.Errorf("the stream waited: %v; %v", waited, tee.Err())
				}
				if _, ok := tee.Await(seen.done, 2*pause); !ok {
					t.Fatal("the consumer is not finished")
				}
				seen.want(t, in)
			})
		})
	}
}

// Reads of every size, a ring that is full again and again, and a consumer that
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
			}), io.Discard, Options{})
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
	tee := seen.copyAll(t, in, Options{})
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

// A consumer that hangs is detached once the ring is full and it has made no progress for
// StallLimit, or for busyLimit while the process is computing.
func TestHangingConsumer(t *testing.T) {
	for _, tc := range []struct {
		name  string
		cpu   time.Duration // at each look at the clock
		limit time.Duration
	}{
		{"idle", 0, StallLimit},
		{"computing", stallCheck / 2, busyLimit},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hang := make(chan struct{})
				seen := &recorder{each: func(offset int) {
					if offset > 0 {
						<-hang
					}
				}}
				in := lines(5 * ringSize)
				var out bytes.Buffer
				var used time.Duration
				now := standstill.Used
				standstill.Used = func() time.Duration {
					used += tc.cpu
					return used
				}
				defer func() { standstill.Used = now }()
				tee := seen.follow(bytes.NewReader(in), &out, Options{})
				began := time.Now()
				if err := tee.Copy(); err != nil || !bytes.Equal(out.Bytes(), in) {
					t.Errorf("other bytes came out, %v", err)
				}
				if took := time.Since(began); took < tc.limit || took > tc.limit+stallCheck || !errors.Is(tee.Err(), ErrStalled) {
					t.Errorf("the stream was held up for %v; %v", took, tee.Err())
				}
				tee.End(true)
				if _, ok := tee.Await(seen.done, time.Second); ok {
					t.Error("it is finished")
				}
				wantLost(t, tee.Lost(), in[maxChunk:])
				close(hang)
				<-seen.done
				if seen.whole || seen.lost.Bytes == 0 {
					t.Errorf("then whole %v, lost %+v", seen.whole, seen.lost)
				}
			})
		})
	}
}

// While there is room, a consumer that hangs holds up neither a line nor the end.
func TestHangingConsumerDelaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		seen := &recorder{each: func(int) { <-hang }}
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		tee := seen.follow(inR, outW, Options{})
		copied := make(chan error)
		go func() { copied <- tee.Copy() }()
		line := bytes.Repeat([]byte("x"), 16<<10)
		const count = (ringSize - minRoom) / (16 << 10)
		began := time.Now()
		for i := range count {
			go inW.Write(line)
			if _, err := io.ReadFull(outR, make([]byte, len(line))); err != nil {
				t.Fatal(i, err)
			}
		}
		inW.Close()
		if err := <-copied; err != nil || time.Since(began) > 0 {
			t.Errorf("%d lines and the end took %v, %v", count, time.Since(began), err)
		}
		tee.End(true)
		close(hang)
		<-seen.done
		seen.want(t, bytes.Repeat(line, count))
	})
}

// Stop ends a copy that waits for room.
func TestStopWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := lines(5 * ringSize)
		var out bytes.Buffer
		tee := New(bytes.NewReader(in), &out, Options{})
		copied := make(chan error)
		go func() { copied <- tee.Copy() }()
		synctest.Wait()
		began := time.Now()
		tee.Stop()
		if err := <-copied; err != nil || time.Since(began) > 0 || !bytes.HasPrefix(in, out.Bytes()) {
			t.Errorf("it took %v, %v", time.Since(began), err)
		}
	})
}

// A consumer that is slow, but advances, is waited for however long it takes: by
// bytes, by what else it does, and in a recording even if it does not advance.
func TestSlowConsumer(t *testing.T) {
	for name, slow := range map[string]func(*recorder){
		"bytes": func(*recorder) { time.Sleep(StallLimit - stallCheck) },
		"spans": func(r *recorder) {
			r.moved.Add(1)
			time.Sleep(StallLimit - stallCheck)
			r.moved.Add(1)
			time.Sleep(stallCheck)
		},
		"recording": func(*recorder) { time.Sleep(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seen := new(recorder)
				seen.each = func(int) { slow(seen) }
				in := lines(2 * ringSize)
				if err := seen.copyAll(t, in, Options{Waits: name == "recording"}).Err(); err != nil {
					t.Error(err)
				}
				<-seen.done
				seen.want(t, in)
			})
		})
	}
}

// Without bytes, Next returns at its deadline.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tee := New(strings.NewReader("a line\n"), io.Discard, Options{})
		deadline := time.Now().Add(time.Minute)
		if p, _, err := tee.Next(deadline); err != nil || len(p) > 0 || !time.Now().Equal(deadline) {
			t.Errorf("%q, %v at %v", p, err, time.Now())
		}
		if err := tee.Copy(); err != nil {
			t.Error(err)
		}
		tee.End(true)
		if p, _, err := tee.Next(deadline); err != nil || string(p) != "a line\n" {
			t.Errorf("%q, %v", p, err)
		}
		if p, _, err := tee.Next(deadline); !errors.Is(err, io.EOF) {
			t.Errorf("%q, %v", p, err)
		}
	})
}

// Bytes keep the time at which they came, however late they are consumed.
func TestArrivals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r, w := io.Pipe()
		tee := New(r, io.Discard, Options{})
		copied := make(chan error)
		go func() { copied <- tee.Copy() }()
		for range 4 {
			w.Write(append(bytes.Repeat([]byte("x"), ringSize/5-1), '\n'))
			time.Sleep(time.Second)
		}
		w.Close()
		if err := <-copied; err != nil {
			t.Error(err)
		}
		tee.End(true)
		var came []string
		for {
			p, arrived, err := tee.Next(time.Now().Add(time.Hour))
			if err != nil {
				break
			}
			for range bytes.Count(p, []byte{'\n'}) {
				came = append(came, arrived.Sub(began).String())
			}
		}
		tee.Ended()
		if got := strings.Join(came, " "); got != "0s 1s 2s 3s" {
			t.Errorf("lines came at %s", got)
		}
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
