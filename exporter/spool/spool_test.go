package spool

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestNamesRoundTrip(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		r := Request{Spans: random.IntN(1 << 31)}
		if random.IntN(2) == 0 {
			r = Request{Points: 1 + random.IntN(1<<31-1)}
		}
		n := newName(r, random.IntN(1<<40), "owner")
		n.sending = random.IntN(2) == 0
		got := parseName(n.String())
		if !got.at.Equal(n.at) || got.spans != n.spans || got.points != n.points || got.bytes != n.bytes || got.sending != n.sending || got.String() != n.String() {
			t.Fatalf("%+v is %s is %+v", n, n, got)
		}
	}
}

func TestForeignNames(t *testing.T) {
	for _, s := range []string{
		"", "lock", ".otlp", ".sending", "notes.txt", "a-b-c-d.otlp", "1-2-3.otlp", "1-2-3-a", "1-2-3-a.otlp.bak", "1-2-3-a-b.otlp",
		"-1-2-3-a.otlp", "1--2-3-a.otlp", "1-2--3-a.otlp", "1-99999999999-3-a.otlp", "1-2-99999999999999999999-a.otlp",
		"01-2-3-a.otlp", "+1-2-3-a.otlp", "1-+2-3-a.otlp", "1-2-03-a.otlp", "1-0p-3-a.otlp", "1-02p-3-a.otlp", "1-2pp-3-a.otlp", // would be looked for by other names
	} {
		if n := parseName(s); n != (name{}) {
			t.Errorf("%q is taken for %+v", s, n)
		}
	}
}

func TestPutIsPrivateAndWhole(t *testing.T) {
	s := newSpool(t, 1<<20)
	put(t, s, here, "a", "b")
	if err := s.Put(background, there, rejected(requestOf(t, "c")), "400 Bad Request"); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{s.Dir, filepath.Join(s.Dir, here.dir()), filepath.Join(s.Dir, there.dir(), rejectedDir)} {
		if info, err := os.Stat(dir); err != nil || info.Mode() != os.ModeDir|0o700 {
			t.Errorf("%s: %v, %v", dir, info.Mode(), err)
		}
	}
	files := filesOf(t, s.Dir)
	if len(files) != 2 {
		t.Errorf("files %q", files)
	}
	for _, f := range files {
		info, err := os.Stat(filepath.Join(s.Dir, f))
		if err != nil || info.Mode() != 0o600 || info.Size() != parseName(filepath.Base(f)).bytes {
			t.Errorf("%s: %v, %d bytes, %v", f, info.Mode(), info.Size(), err)
		}
	}
	entries, err := s.List(background)
	if err != nil || len(entries) != 2 {
		t.Fatal(entries, err)
	}
	e := entries[0]
	if e.Destination != here || e.Reason != "connection refused" || e.State != Waiting || e.Spans != 2 || time.Since(e.Since) > time.Hour {
		t.Errorf("entry %+v", e)
	}
	if e := entries[1]; e.Destination != there || e.Reason != "400 Bad Request" || e.State != Rejected || e.Spans != 1 {
		t.Errorf("entry %+v", e)
	}
	want(t, drained(t, s, here), "a", "b")
	want(t, states(t, s), "rejected 1")
}

// A reason may be anything: what a panic said, or a path as long as may be.
func TestALongReasonIsNoCorruption(t *testing.T) {
	s := newSpool(t, 1<<20)
	file := Destination{Protocol: "file", Endpoint: "/" + strings.Repeat("é\u2028", 800)}
	for _, to := range []Destination{here, file} {
		if err := s.Put(background, to, requestOf(t, "a"), "panic: "+strings.Repeat("\u2028\x00\xff", 5000)); err != nil {
			t.Fatal(err)
		}
	}
	to, err := s.Destinations(background)
	if err != nil || len(to) != 2 {
		t.Errorf("destinations %v, %v", to, err)
	}
	want(t, drained(t, s, here), "a")
	want(t, drained(t, s, file), "a")
}

func TestDestinationsAreApart(t *testing.T) {
	s := newSpool(t, 1<<20)
	for _, to := range []Destination{here, there, {Protocol: "http/json", Endpoint: here.Endpoint}, {Protocol: here.Protocol, Endpoint: there.Endpoint}} {
		put(t, s, to, to.Protocol+to.Endpoint)
	}
	to, err := s.Destinations(background)
	if err != nil || len(to) != 4 || to[0] != here {
		t.Errorf("destinations %v, %v", to, err)
	}
	for _, to := range to {
		want(t, drained(t, s, to), to.Protocol+to.Endpoint)
	}
}

// sizeOf returns how many bytes a request takes on disk.
func sizeOf(t testing.TB, to Destination, names ...string) int64 {
	t.Helper()
	note, err := encodeNote(Note{Destination: to, Reason: "connection refused", Sum: checksum(nil)})
	if err != nil {
		t.Fatal(err)
	}
	return int64(len(note) + len(requestOf(t, names...).Body))
}

func TestTheCapEvictsTheOldestOfAll(t *testing.T) {
	one := sizeOf(t, here, "a1")
	s := newSpool(t, 3*one+one/16)
	put(t, s, here, "a1")
	if err := s.Put(background, here, rejected(requestOf(t, "b1")), "connection refused"); err != nil {
		t.Fatal(err)
	}
	other := Destination{Protocol: "grpc", Endpoint: "http://127.0.0.1:4317"} // as long
	put(t, s, other, "c1")
	for i, step := range []struct {
		names  []string
		gaveUp int
		left   []string
	}{
		{[]string{"d1"}, 1, []string{"rejected 1", "waiting 1", "waiting 1"}}, // a1 goes
		{[]string{"e1"}, 1, []string{"waiting 1", "waiting 1", "waiting 1"}},  // b1
		{[]string{"f1", "f2"}, 2, []string{"waiting 1", "waiting 2"}},         // c1 and d1
	} {
		gaveUp, err := tryPut(s, here, requestOf(t, step.names...), "connection refused")
		if gaveUp.Others != step.gaveUp || err != nil {
			t.Errorf("step %d gave up %d, %v, want %d", i, gaveUp, err, step.gaveUp)
		}
		want(t, states(t, s), step.left...)
	}
	want(t, drained(t, s, here), "e1", "f1", "f2")
	want(t, drained(t, s, other))
}

func TestTheCapSparesWhatIsBeingSent(t *testing.T) {
	one := sizeOf(t, here, "a")
	s := newSpool(t, 2*one+one/16)
	put(t, s, here, "a")
	put(t, s, here, "b")
	o := openBox(t, s, here)
	defer o.Close()
	c, err := o.Next(background)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"c", "d"} {
		if gaveUp, err := tryPut(s, here, requestOf(t, name), "connection refused"); gaveUp.Others != 1 || err != nil {
			t.Errorf("gave up %d, %v", gaveUp, err)
		}
	}
	want(t, states(t, s), "sending 1", "waiting 1")
	if err := c.Release(); err != nil {
		t.Fatal(err)
	}
	if gaveUp, err := tryPut(s, here, requestOf(t, "e"), "connection refused"); gaveUp.Others != 1 || err != nil {
		t.Errorf("gave up %d, %v", gaveUp, err)
	}
	want(t, states(t, s), "waiting 1", "waiting 1")
}

func TestARequestLargerThanTheCapCostsNothing(t *testing.T) {
	s := newSpool(t, sizeOf(t, here, "a"))
	put(t, s, here, "a")
	if gaveUp, err := tryPut(s, here, requestOf(t, "bb", "cc"), "connection refused"); gaveUp.Others != 0 || !errors.Is(err, errTooBig) {
		t.Errorf("gave up %d, %v", gaveUp, err)
	}
	want(t, drained(t, s, here), "a")
}

// Spans that were counted as lost when a file turned out to be corrupt are not counted
// again when the file is evicted.
func TestTheCapCountsCorruptSpansOnce(t *testing.T) {
	one := sizeOf(t, here, "a")
	s := newSpool(t, one)
	put(t, s, here, "a")
	spoil(t, s, func(b []byte) []byte { return b[:len(b)-1] })
	o := openBox(t, s, here)
	c, corrupt, err := nextOf(o)
	o.Close()
	if c != nil || corrupt != 1 || err != nil {
		t.Fatal(c, corrupt, err)
	}
	if gaveUp, err := tryPut(s, here, requestOf(t, "b"), "connection refused"); gaveUp.Others != 0 || err != nil {
		t.Errorf("gave up %d, %v", gaveUp, err)
	}
	want(t, states(t, s), "waiting 1")
}

// spoil changes what is in every waiting file.
func spoil(t testing.TB, s Spool, change func([]byte) []byte) {
	t.Helper()
	for _, f := range filesOf(t, s.Dir) {
		path := filepath.Join(s.Dir, f)
		b, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, change(b), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Tests may run as root, for whom no directory is read-only: here a file
// stands in its place.
func TestADiskThatTakesNothing(t *testing.T) {
	for name, path := range map[string]func(Spool) string{
		"no home":     func(s Spool) string { return filepath.Dir(s.Dir) },
		"no spool":    func(s Spool) string { return s.Dir },
		"no endpoint": func(s Spool) string { return filepath.Join(s.Dir, here.dir()) },
		"no rejected": func(s Spool) string { return filepath.Join(s.Dir, here.dir(), rejectedDir) },
		"no open":     func(s Spool) string { return filepath.Join(s.Dir, journalDir) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSpool(t, 1<<20)
			path := path(s)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte("in the way"), 0o600); err != nil {
				t.Fatal(err)
			}
			before := filesOf(t, filepath.Dir(filepath.Dir(s.Dir)))
			rejectErr := s.Put(background, here, rejected(requestOf(t, "a")), "")
			if rejectErr == nil && name != "no open" {
				t.Error("Reject kept something")
			}
			if err := s.Put(background, here, requestOf(t, "a"), ""); err == nil && name != "no open" && name != "no rejected" {
				t.Error("Put kept something")
			}
			j := newJournal(t, s)
			end(t, j, spanOf("a"))
			err := j.save(nil)
			if err == nil && slices.Contains([]string{"no home", "no spool", "no open"}, name) {
				t.Error("Checkpoint kept something")
			}
			end(t, j, spanOf("b"))
			j.Append(background, j.takePiece())
			if kept := j.Close(background, "the collector hangs"); kept != (err == nil) {
				t.Errorf("kept %v after %v", kept, err)
			}
			for _, f := range filesOf(t, filepath.Dir(filepath.Dir(s.Dir))) {
				if strings.Contains(f, tempPrefix) {
					t.Errorf("half written: %s", f)
				}
			}
			if name == "no home" || name == "no spool" {
				if after := filesOf(t, filepath.Dir(filepath.Dir(s.Dir))); !slices.Equal(before, after) {
					t.Errorf("files %q, were %q", after, before)
				}
			}
			if _, err := s.Recover(background); (err != nil) != slices.Contains([]string{"no endpoint", "no home", "no spool", "no open"}, name) { // the journal is not there, or cannot go
				t.Errorf("Recover: %v", err)
			}
		})
	}
}

func TestNothingKeptIsNothingThere(t *testing.T) {
	s := newSpool(t, 1<<20)
	if o, err := s.Outbox(background, here); o != nil || err != nil {
		t.Errorf("outbox %v, %v", o, err)
	}
	recovered, recoverErr := s.Recover(background)
	entries, listErr := s.List(background)
	to, toErr := s.Destinations(background)
	if recovered > 0 || len(entries)+len(to) > 0 || errors.Join(recoverErr, listErr, toErr) != nil {
		t.Error(recovered, recoverErr, entries, listErr, to, toErr)
	}
	if kept := newJournal(t, s).Close(background, "the collector hangs"); kept {
		t.Error("a journal that never was is kept")
	}
	if _, err := os.Stat(s.Dir); !os.IsNotExist(err) {
		t.Errorf("the spool was made for nothing: %v", err)
	}
	if err := s.Check(background); err != nil || len(filesOf(t, s.Dir)) > 0 {
		t.Errorf("Check: %v, leaves %q", err, filesOf(t, s.Dir))
	}
}

func TestWhatAKilledWriterLeftGoesAfterAnHour(t *testing.T) {
	s := newSpool(t, 1<<20)
	put(t, s, here, "a")
	dir := filepath.Join(s.Dir, here.dir())
	for name, age := range map[string]time.Duration{"old": 2 * time.Hour, "new": 0} {
		path := filepath.Join(dir, tempPrefix+name)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, time.Now().Add(-age), time.Now().Add(-age))); err != nil {
			t.Fatal(err)
		}
	}
	want(t, states(t, s), "waiting 1")
	if files := fmt.Sprint(filesOf(t, s.Dir)); strings.Contains(files, "old") || !strings.Contains(files, "new") {
		t.Errorf("files %s", files)
	}
}
