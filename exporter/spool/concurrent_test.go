package spool

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

// Twenty at once, as threads here, put, drain and evict: every span that was
// put is delivered or given up, once.
func TestTwentyAtOnce(t *testing.T) {
	requests := 30
	if testing.Short() {
		requests = 5
	}
	s := newSpool(t, 40*sizeOf(t, here, "00-00-00"))
	var kept, busy atomic.Int64
	var mu sync.Mutex
	delivered := map[string]int{}

	drain := func(random *rand.Rand, to Destination, most int) error {
		o, err := s.Outbox(background, to)
		if errors.Is(err, ErrBusy) {
			busy.Add(1)
			return nil
		}
		if o == nil || err != nil {
			return err
		}
		defer o.Close()
		for range most {
			c, err := o.Next(background)
			if c == nil || err != nil {
				return err
			}
			switch random.IntN(4) {
			case 0:
				return c.Release()
			case 1: // dies
				return nil
			}
			mu.Lock()
			for _, name := range namesIn(c.Spans...) {
				delivered[name]++
			}
			mu.Unlock()
			if err := c.Done(); err != nil {
				return err
			}
		}
		return nil
	}

	var all sync.WaitGroup
	for g := range 20 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 0))
			for i := range requests {
				to := []Destination{here, there}[random.IntN(2)]
				names := make([]string, 1+random.IntN(3))
				for n := range names {
					names[n] = fmt.Sprintf("%02d-%02d-%02d", g, i, n)
				}
				err := s.Put(background, to, requestOf(t, names...), "connection refused")
				if err == nil {
					kept.Add(int64(len(names)))
				}
				if err := errors.Join(err, drain(random, to, random.IntN(5))); err != nil {
					t.Error(err)
				}
				if _, err := s.List(background); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for _, to := range []Destination{here, there} {
		for _, name := range drained(t, s, to) {
			delivered[name]++
		}
	}
	for name, n := range delivered {
		if n > 1 {
			t.Errorf("%s was delivered %d times", name, n)
		}
	}
	evicted := s.Losses.Take().Others
	if len(delivered)+evicted != int(kept.Load()) {
		t.Errorf("%d spans kept, but %d delivered + %d evicted", kept.Load(), len(delivered), evicted)
	}
	want(t, states(t, s))
	t.Logf("%d delivered, %d evicted, %d times busy", len(delivered), evicted, busy.Load())
}
