package spool

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// A released log that is gone is written anew, unless its spans were sent or evicted: its
// spans are on disk once, or counted as lost.
func TestReleasedLogIsGone(t *testing.T) {
	for name, tt := range map[string]struct {
		disturb func(t *testing.T, s Spool, path string)
		want    []string
		lost    int
	}{
		"nothing":   {func(*testing.T, Spool, string) {}, []string{"a", "b"}, 0},
		"removed":   {func(t *testing.T, _ Spool, path string) { must(t, os.Remove(path)) }, []string{"a", "b"}, 0},
		"folder":    {func(t *testing.T, s Spool, _ string) { must(t, os.RemoveAll(s.Dir)) }, []string{"a", "b"}, 0},
		"renamed":   {func(t *testing.T, s Spool, path string) { must(t, os.Rename(path, filepath.Join(s.Dir, "1-x.log"))) }, []string{"a", "b"}, 0},
		"truncated": {func(t *testing.T, _ Spool, path string) { must(t, os.Truncate(path, 0)) }, nil, 2},
		"overwritten": {func(t *testing.T, _ Spool, path string) {
			must(t, os.WriteFile(path, nil, 0o600))
			must(t, os.Remove(path))
		}, nil, 2},
		"sent":         {func(t *testing.T, s Spool, _ string) { want(t, take(t, s), "a", "b") }, nil, 0},
		"sent in part": {func(t *testing.T, s Spool, path string) { sendOne(t, s); must(t, os.Remove(path)) }, []string{"b"}, 0},
		"evicted":      {func(t *testing.T, s Spool, path string) { evict(t, s, path) }, nil, 0},
		"no such place": {func(t *testing.T, s Spool, _ string) {
			must(t, os.RemoveAll(s.Dir))
			must(t, os.WriteFile(s.Dir, nil, 0o600))
		}, nil, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSpool(t, 1<<20)
			lost := 0
			s.Lost = func(_ string, spans int) { lost += spans }
			l := s.NewLog(here, nil)
			spans := spansOf(t, "a", "b", "c")
			must(t, l.Append(spans, &Snapshot{}))
			if !l.Release(spans[:2], "too slow") {
				t.Fatal(l.Err())
			}
			path := filepath.Join(s.Dir, l.released[0].name)
			tt.disturb(t, s, path)
			_ = l.Append(nil, &Snapshot{})
			_ = l.Append(nil, &Snapshot{}) // a restored log stays
			l.Done(spans[2:])
			l.Close("", nil)
			if info, err := os.Stat(s.Dir); err == nil && info.IsDir() {
				want(t, take(t, s), tt.want...)
			}
			if lost != tt.lost {
				t.Errorf("%d are counted as lost, want %d", lost, tt.lost)
			}
		})
	}
}

func sendOne(t *testing.T, s Spool) {
	t.Helper()
	for c, err := range s.Claims(10) {
		must(t, err)
		must(t, c.Done(c.Spans[:1]))
		must(t, c.Close())
	}
}

// evict makes room as a process does that counts what it evicts.
func evict(t *testing.T, s Spool, path string) {
	t.Helper()
	counted := 0
	s.Lost = func(_ string, spans int) { counted += spans }
	dir, err := s.enter(false)
	must(t, err)
	defer closeFolder(dir)
	if !s.evict(dir, filepath.Base(path)) || counted != 2 {
		t.Error(fmt.Sprint(counted, " counted as evicted"))
	}
}
