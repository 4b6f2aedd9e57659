package exporter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/exporter/spool"
)

// A moody client has another answer each time. It may be asked by several
// goroutines.
func moody(random *rand.Rand) func(context.Context, []*tracepb.Span) error {
	var mu sync.Mutex
	moods := random.Perm(12)[:1+random.IntN(12)]
	return func(ctx context.Context, spans []*tracepb.Span) error {
		mu.Lock()
		mood, few := moods[random.IntN(len(moods))], 1+random.IntN(3)
		mu.Unlock()
		switch mood {
		case 0:
			return errRefused
		case 1:
			return errBusy
		case 2:
			return errDenied
		case 3:
			return errBad
		case 4:
			return errors.New("what?")
		case 5:
			return &UploadError{Verdict: Partial, Rejected: few, Err: errors.New("too old")}
		case 6:
			if len(spans) > few {
				return &UploadError{Verdict: TooLarge, Err: errors.New("a request exceeds the receiver's limit")}
			}
		case 7:
			panic("out of cheese")
		case 8:
			<-ctx.Done()
			return errTimeout
		case 9:
			select {
			case <-time.After(time.Duration(few) * time.Second):
			case <-ctx.Done():
				return errTimeout
			}
		}
		return nil
	}
}

// Whatever happens, in whatever order: every span that ended was delivered, is
// in the spool, or is counted as neither.
func TestEverySpanIsAccountedFor(t *testing.T) {
	scripts := 100
	switch {
	case testing.Short():
		scripts = 30
	case os.Getenv("SPANTEE_THOROUGH") != "":
		scripts = 300
	}
	for seed := range scripts {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomScript(t, rand.New(rand.NewPCG(uint64(seed), 0))) })
		})
	}
}

func randomScript(t *testing.T, random *rand.Rand) {
	s := newSpool(t)
	if random.IntN(3) == 0 {
		s.Max = int64(1 + random.IntN(10_000))
	}
	full := random.IntN(5) == 0 // a disk that takes nothing
	if full {
		if err := errors.Join(os.MkdirAll(filepath.Dir(s.Dir), 0o700), os.WriteFile(s.Dir, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	c := &fake{answer: moody(rand.New(rand.NewPCG(random.Uint64(), 0)))}
	e := New(Config{Client: c, Spool: s, Patience: time.Minute * time.Duration(random.IntN(4)/3), MaxRequest: 1000, MaxQueue: 1000 * (2 + random.IntN(4))})
	n := 0
	for range random.IntN(60) {
		switch random.IntN(8) {
		case 0:
			time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
		case 1:
			synctest.Wait()
		case 2:
			_ = exportOpen(e, numbered(9000, 9000+random.IntN(3), 200)...) // which may fail
		case 3:
			export(e, sized("too large", 1001))
			n++
		default:
			more := 1 + random.IntN(5)
			exportAll(e, numbered(n, n+more, 200+random.IntN(300)))
			n += more
		}
	}
	closeKeeping(t, e, time.Duration(random.IntN(3000))*time.Millisecond)
	after := random.IntN(3)
	exportAll(e, numbered(n, n+after, 300))
	n += after
	r := closeKeeping(t, e, time.Duration(random.IntN(1000))*time.Millisecond)
	if r.Ended != n {
		t.Errorf("%d of %d spans ended", r.Ended, n)
	}

	if full {
		if found := len(c.names()); found+r.Dropped != n || (r.NotKept == nil) && r.Delivered+r.Dropped < n {
			t.Errorf("%d spans: %d taken\n%+v", n, found, r)
		}
		return
	}
	waiting, _ := kept(t, s, spool.Waiting)
	rejected, _ := kept(t, s, spool.Rejected)
	taken := c.names()
	for _, seen := range [][]string{taken, namesOf(append(waiting, rejected...))} {
		times := map[string]int{}
		for _, name := range seen {
			if times[name]++; times[name] > 1 && name != "too large" {
				t.Errorf("%s is there twice", name)
			}
		}
	}
	// A span that was spooled may have been delivered since, rejected, or
	// given up for a newer one.
	found := len(taken) + len(waiting) + len(rejected)
	if found+r.Dropped != n || r.Spooled != len(waiting) || r.Rejected != len(rejected) || r.Delivered != len(taken) {
		t.Errorf("%d spans: %d taken, %d waiting, %d rejected\n%+v", n, len(taken), len(waiting), len(rejected), r)
	}
}

func TestASpoolIsConcurrentSafe(t *testing.T) {
	s := newSpool(t)
	s.Max = 100_000
	t.Cleanup(func() { // while a call that nobody waits for still writes
		for errors.Is(s.Check(), spool.ErrFrozen) || os.RemoveAll(s.Dir) != nil {
		}
	})
	for seed := range 4 {
		c := &fake{answer: moody(rand.New(rand.NewPCG(uint64(seed), 1)))}
		e := New(Config{Client: c, Spool: s, MaxRequest: 1000, MaxQueue: 3000, Interval: time.Microsecond})
		var exporting sync.WaitGroup
		for i := range 4 {
			exporting.Go(func() {
				for n := range 50 {
					exportAll(e, numbered(100*i+n, 100*i+n+1, 300))
				}
			})
		}
		exporting.Go(func() {
			for range 50 {
				if err := exportOpen(e, numbered(9000, 9003, 300)...); err != nil && !errors.Is(err, spool.ErrFrozen) { // the time of Close may be over
					t.Error(err)
				}
			}
		})
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		e.Close(ctx) // in the middle of it
		cancel()
		exporting.Wait()
		if r := closeKeeping(t, e, 50*time.Millisecond); r.Ended != 200 || r.Dropped > 200-r.Delivered {
			t.Errorf("%+v", r)
		}
	}
}
