package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// folderSize is what all files of a spool take.
func folderSize(t testing.TB, s Spool) (size int64) {
	t.Helper()
	err := filepath.WalkDir(s.Dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
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

// long is a span of some size.
func long(name string, size int) *tracepb.Span {
	span := spanOf(name)
	span.TraceState = strings.Repeat("x", size)
	return span
}

// Journals of killed processes count like other files, and are evicted when they are the
// oldest.
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
		die(t, j)
	}
	wantRecovered(t, s, 4)
	want(t, drained(t, s, here), "5-0", "5-1", "5-2", "5-3")
}

// A journal must fit into the spool, too. If it does not, a kill would lose spans, which is
// reported. Other processes' files are evicted first.
func TestAJournalMayFillTheSpool(t *testing.T) {
	s := newSpool(t, 1<<20)
	s.Owner = NewOwner()
	put(t, s, here, "own")
	if err := (Spool{Dir: s.Dir, Max: s.Max}).Put(background, here, encoded(t, []*tracepb.Span{long("other", 500_000)}), ""); err != nil {
		t.Fatal(err)
	}
	j := newJournal(t, s)
	end(t, j, long("a", 900_000))
	checkpoint(t, j)
	if evicted := s.Losses.Take(); evicted != (Losses{Own: 1, Others: 1}) {
		t.Errorf("evicted %+v", evicted)
	}
	end(t, j, long("b", 900_000))
	if err := j.save(nil); !errors.Is(err, errFull) {
		t.Errorf("error %v", err)
	}
	if size := folderSize(t, s); size > s.Max {
		t.Errorf("the spool has %d bytes", size)
	}
	if j.Close(background, "the collector hangs") {
		t.Error("both are said to be kept")
	}
	wantRecovered(t, s, 1)
	want(t, drained(t, s, here), "a")
}

// Of many small requests few have the files counted, and the spool hardly exceeds its
// limit.
func TestTheFilesAreSeldomCounted(t *testing.T) {
	s := newSpool(t, 32<<10)
	counted := 0
	countFiles = func() { counted++ }
	defer func() { countFiles = func() {} }()
	const requests = 300
	size := sizeOf(t, here, "a")
	for range requests {
		if err := s.Put(background, here, requestOf(t, "a"), "connection refused"); err != nil {
			t.Fatal(err)
		}
	}
	if most := requests * size * lookEvery / s.Max; int64(counted) > 2*most {
		t.Errorf("the files were counted %d times, want about %d", counted, most)
	}
	if size := folderSize(t, s); size > s.Max+s.Max/32 {
		t.Errorf("the spool has %d bytes of %d", size, s.Max)
	}
}
