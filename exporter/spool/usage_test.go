package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// folderSize is what all files of a spool take.
func folderSize(t testing.TB, s Spool) (size int64) {
	t.Helper()
	err := filepath.WalkDir(s.Dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == usageFile {
			return err
		}
		info, err := e.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return size
}

// total is what the spool says it takes.
func total(t testing.TB, s Spool) int64 {
	t.Helper()
	u, err := s.openUsage()
	if err != nil {
		t.Fatal(err)
	}
	defer u.close()
	total, ok := u.read()
	if !ok {
		t.Fatal("there is no total")
	}
	return total
}

// long is a span of some size.
func long(name string, size int) *tracepb.Span {
	span := spanOf(name)
	span.TraceState = strings.Repeat("x", size)
	return span
}

// Journals of killed processes count like all else, and go when they are old.
func TestTheCapCountsJournals(t *testing.T) {
	s := newSpool(t, 1<<20)
	for i := range 6 {
		j := newJournal(t, s)
		for n := range 4 {
			end(t, j, long(fmt.Sprintf("%d-%d", i, n), 150_000))
			checkpoint(t, j)
			if size := folderSize(t, s); size > s.Max {
				t.Errorf("the spool has %d bytes", size)
			}
		}
		die(j)
	}
	r, err := s.Recover(background)
	if r.Spans != 4 || err != nil {
		t.Errorf("%+v, %v", r, err)
	}
	want(t, drained(t, s, here), "5-0", "5-1", "5-2", "5-3")
}

// A journal has no more room than there is: then a kill would lose spans, which
// is said. What others keep goes first.
func TestAJournalMayFillTheSpool(t *testing.T) {
	s := newSpool(t, 1<<20)
	s.Owner = NewOwner()
	put(t, s, here, "own")
	if _, err := (Spool{Dir: s.Dir, Max: s.Max}).Put(background, here, encoded(t, []*tracepb.Span{long("other", 500_000)}), ""); err != nil {
		t.Fatal(err)
	}
	j := newJournal(t, s)
	end(t, j, long("a", 900_000))
	checkpoint(t, j)
	if evicted := j.TakeEvicted(); evicted != (Evicted{Own: 1, Others: 1}) {
		t.Errorf("evicted %+v", evicted)
	}
	end(t, j, long("b", 900_000))
	if err := j.Checkpoint(nil); err != nil {
		t.Error(err)
	}
	if err := await(j, 2); !errors.Is(err, errFull) {
		t.Errorf("error %v", err)
	}
	if size := folderSize(t, s); size > s.Max {
		t.Errorf("the spool has %d bytes", size)
	}
	if j.Close(background, true) {
		t.Error("both are said to be kept")
	}
	wantRecovered(t, s, 1)
	want(t, drained(t, s, here), "a")
}

// Whatever processes do, the total is what there is: never less, and no more
// than a chunk for each journal.
func TestTheTotalIsTrue(t *testing.T) {
	s := newSpool(t, 64<<20)
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 7))
			for range 20 {
				switch random.IntN(4) {
				case 0:
					if _, err := s.Put(background, here, requestOf(t, "a", "b"), ""); err != nil {
						t.Error(err)
					}
				case 1:
					if _, err := s.Reject(background, there, requestOf(t, "c"), ""); err != nil {
						t.Error(err)
					}
				case 2:
					j := newJournal(t, s)
					for range random.IntN(4) {
						end(t, j, long("d", random.IntN(50_000)))
						j.mu.Lock()
						if random.IntN(2) == 0 {
							j.size = 1 << 30 // so that it is written anew
						}
						j.mu.Unlock()
						checkpoint(t, j)
					}
					j.Close(background, random.IntN(2) == 0)
				case 3:
					if o, err := s.Outbox(background, here); o != nil && err == nil {
						if c, _, _ := o.Next(background); c != nil {
							_ = c.Done()
						}
						o.Close()
					}
				}
			}
		})
	}
	all.Wait()
	if got, size := total(t, s), folderSize(t, s); got < size || got > size+80*16<<10 {
		t.Errorf("the total is %d, and the files have %d bytes", got, size)
	}
	if _, err := s.Recover(background); err != nil {
		t.Fatal(err)
	}
	if got, size := total(t, s), folderSize(t, s); got != size {
		t.Errorf("without journals the total is %d, and the files have %d bytes", got, size)
	}
}

// Of many small requests few have the files counted, even in a full spool.
func TestTheFilesAreSeldomCounted(t *testing.T) {
	s := newSpool(t, 128*sizeOf(t, here, "a"))
	counted := 0
	countFiles = func() { counted++ }
	defer func() { countFiles = func() {} }()
	for range 400 {
		if _, err := s.Put(background, here, requestOf(t, "a"), "connection refused"); err != nil {
			t.Fatal(err)
		}
	}
	if counted > 400/2 {
		t.Errorf("the files were counted %d times", counted)
	}
	if size := folderSize(t, s); size > s.Max || size < s.Max*9/10 {
		t.Errorf("the spool has %d bytes of %d", size, s.Max)
	}
}
