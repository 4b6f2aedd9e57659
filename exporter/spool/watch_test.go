package spool

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// looked describes what a Watch has found, the logs of processes that have ended left out.
func looked(t *testing.T, w *Watch) (found []string) {
	t.Helper()
	running, err := w.Look()
	must(t, err)
	for _, r := range running {
		found = append(found, fmt.Sprint(namesOf(t, spansIn(r.Open)), " lives ", r.Lives, " changed ", !r.Changed.IsZero()))
		if r.To != here {
			t.Errorf("to %+v", r.To)
		}
	}
	return found
}

// A Watch sees what a process has open, until the process ends or is killed.
func TestWatch(t *testing.T) {
	s := newSpool(t, 1<<20)
	w := s.Watch()
	want(t, looked(t, w)) // no folder
	l := s.NewLog(here, nil)
	must(t, l.Append(spansOf(t, "a"), &Snapshot{Open: spansOf(t, "root", "b")}))
	want(t, looked(t, w), "[root b] lives true changed true")
	want(t, looked(t, w), "[root b] lives true changed false")
	ended := spansOf(t, "b")
	must(t, l.Append(ended, nil))
	want(t, looked(t, w), "[root b] lives true changed false") // the end comes on another way
	must(t, l.Append(nil, &Snapshot{Open: spansOf(t, "root")}))
	want(t, looked(t, w), "[root] lives true changed true")
	must(t, l.Append(nil, new(Snapshot)))
	want(t, looked(t, w), "[] lives true changed true")

	killed := s.NewLog(here, nil)
	must(t, killed.Append(nil, &Snapshot{Open: spansOf(t, "c"), Resumed: true}))
	want(t, looked(t, w), "[] lives true changed false", "[c] lives true changed true")
	kill(t, killed)
	want(t, looked(t, w), "[] lives true changed false", "[c] lives false changed false")
	l.Close("connection refused", nil)
	want(t, looked(t, w), "[c] lives false changed false")
	want(t, take(t, s), "a", "b") // and not c, which who resumes the process ends
	want(t, looked(t, w))
}

// A Watch follows a log that is written anew, and shows nothing of what a process releases.
func TestWatchOfALogWrittenAnew(t *testing.T) {
	s := newSpool(t, 64<<20)
	w := s.Watch()
	l := s.NewLog(here, nil)
	for i := range 100 {
		ended := append(spansOf(t, "e"), &Span{Wire: AppendSpan(nil, make([]byte, 20<<10)), Of: origin})
		must(t, l.Append(ended, &Snapshot{Open: spansOf(t, fmt.Sprint(i))}))
		if l.Done(ended); i%3 == 0 {
			want(t, looked(t, w), fmt.Sprintf("[%d] lives true changed true", i))
		}
	}
	spans := spansOf(t, "x")
	must(t, l.Append(spans, &Snapshot{Open: spansOf(t, "open")}))
	l.Release(spans, "too slow")
	want(t, looked(t, w), "[open] lives true changed true")
	l.Close("", nil)
	want(t, looked(t, w))
}

// What is no log, or not this user's, shows nothing and stops nothing.
func TestWatchOfForgedLogs(t *testing.T) {
	s := newSpool(t, 64<<20)
	l := s.NewLog(here, nil)
	must(t, l.Append(nil, &Snapshot{Open: spansOf(t, "honest")}))
	defer l.Close("", nil)
	for i, b := range forgedLogs(t) {
		must(t, os.WriteFile(filepath.Join(s.Dir, string(rune('a'+i))+logExt), b, 0o600))
	}
	large := filepath.Join(s.Dir, "large"+logExt)
	must(t, os.WriteFile(large, nil, 0o600))
	must(t, os.Truncate(large, 1<<40)) // a hole
	running, err := s.Watch().Look()
	must(t, err)
	found := 0
	for _, r := range running {
		if names := namesOf(t, spansIn(r.Open)); r.Lives && len(names) == 1 && names[0] == "honest" {
			found++
		}
	}
	if found != 1 {
		t.Errorf("found %d times", found)
	}
}
