package spool

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func next(t testing.TB, o *Outbox, names ...string) *Claim {
	t.Helper()
	c, corrupt, err := o.Next()
	if c == nil || corrupt != 0 || err != nil {
		t.Fatalf("Next: %v, %d corrupt, %v, want %q", c, corrupt, err, names)
	}
	want(t, namesIn(c.ExportTraceServiceRequest), names...)
	return c
}

func TestAnOutboxIsForOne(t *testing.T) {
	s := newSpool(t, 1<<20)
	put(t, s, here, "a")
	put(t, s, there, "b")
	o := openBox(t, s, here)
	if _, err := s.Outbox(here); !errors.Is(err, ErrBusy) {
		t.Errorf("a second one: %v", err)
	}
	openBox(t, s, there).Close()
	o.Close()
	openBox(t, s, here).Close()
}

func TestAnOutboxGivesTheOldestFirst(t *testing.T) {
	s := newSpool(t, 1<<20)
	put(t, s, here, "a")
	put(t, s, here, "b", "c")
	o := openBox(t, s, here)
	defer o.Close()
	c := next(t, o, "a")
	put(t, s, here, "d") // came while it drains
	if err := c.Done(); err != nil {
		t.Fatal(err)
	}
	for _, names := range [][]string{{"b", "c"}, {"d"}} {
		if err := next(t, o, names...).Done(); err != nil {
			t.Fatal(err)
		}
	}
	if c, corrupt, err := o.Next(); c != nil || corrupt != 0 || err != nil {
		t.Errorf("there is still %v, %d, %v", c, corrupt, err)
	}
	if files := filesOf(t, s.Dir); len(files) > 0 {
		t.Errorf("left %q", files)
	}
}

func TestWhatGoesBackIsFirstAgain(t *testing.T) {
	s := newSpool(t, 1<<20)
	put(t, s, here, "a")
	put(t, s, here, "b")
	o := openBox(t, s, here)
	if err := next(t, o, "a").Back(); err != nil {
		t.Fatal(err)
	}
	o.Close()
	want(t, states(t, s), "waiting 1", "waiting 1")
	want(t, drained(t, s, here), "a", "b")
}

func TestAnOutboxTakesOverFromTheDead(t *testing.T) {
	s := newSpool(t, 1<<20)
	put(t, s, here, "a")
	put(t, s, here, "b")
	o := openBox(t, s, here)
	next(t, o, "a")
	o.Close() // as if it had died
	want(t, states(t, s), "sending 1", "waiting 1")
	want(t, drained(t, s, here), "a", "b")
}

// What another process sends between the first look and the lock is its own
// affair.
func TestAnOutboxLooksAgainOnceItHasTheLock(t *testing.T) {
	s := newSpool(t, 1<<20)
	put(t, s, here, "a")
	put(t, s, here, "b")
	first := openBox(t, s, here)
	c := next(t, first, "a")
	late := &Outbox{dir: first.dir, later: map[string]bool{}}
	late.list() // while the first one sends
	if err := c.Done(); err != nil {
		t.Fatal(err)
	}
	next(t, late, "b")
	first.Close()
}

func TestAnOutboxSetsCorruptFilesAside(t *testing.T) {
	for name, spoiled := range map[string]func([]byte) []byte{
		"cut short":        func(b []byte) []byte { return b[:len(b)/2] },
		"cut in its note":  func(b []byte) []byte { return b[:5] },
		"empty":            func([]byte) []byte { return nil },
		"garbage":          func(b []byte) []byte { return []byte(strings.Repeat("\xff", len(b))) },
		"zeros":            func(b []byte) []byte { return make([]byte, len(b)) },
		"without its note": func(b []byte) []byte { _, rest, _ := decodeNote(b); return rest },
		"too long":         func(b []byte) []byte { return append(b, 0) },
		"garbage after":    func(b []byte) []byte { copy(b[len(b)-20:], strings.Repeat("\xff", 20)); return b },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSpool(t, 1<<20)
			put(t, s, here, "a", "b")
			spoil(t, s, spoiled)
			put(t, s, here, "c")
			o := openBox(t, s, here)
			c, corrupt, err := o.Next()
			if corrupt != 2 || err != nil {
				t.Fatalf("Next: %d corrupt, %v", corrupt, err)
			}
			want(t, namesIn(c.ExportTraceServiceRequest), "c")
			if err := c.Done(); err != nil {
				t.Fatal(err)
			}
			o.Close()
			want(t, states(t, s), "corrupt 2")
			if o := openBox(t, s, here); o != nil {
				t.Error("it still waits")
			}
			to, err := s.Destinations()
			if len(to) > 0 || err != nil {
				t.Errorf("destinations %v, %v", to, err)
			}
		})
	}
}

func TestAnOutboxIgnoresWhatIsNotItsOwn(t *testing.T) {
	s := newSpool(t, 1<<20)
	put(t, s, here, "a")
	dir := filepath.Join(s.Dir, here.dir())
	for _, name := range []string{"notes.txt", "1-2-3.otlp", "+1-1-4-a.otlp", ".nfs0001", "core"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"1-1-4096-a.otlp", "2-1-4096-a.sending", "sub"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/dev/zero", filepath.Join(dir, "3-1-4096-a.otlp")); err != nil {
		t.Skip(err)
	}
	if err := os.WriteFile(filepath.Join(s.Dir, "readme"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, states(t, s), "waiting 1")
	want(t, drained(t, s, here), "a")
	if n := len(filesOf(t, s.Dir)); n != 7 {
		t.Errorf("%d foreign files left, were 7", n)
	}
}

// Destinations come from the files themselves. One that cannot be read at the
// moment may be read later.
func TestDestinationsSetAsideOnlyWhatIsCorrupt(t *testing.T) {
	s := newSpool(t, 1<<20)
	put(t, s, here, "a")
	spoil(t, s, func(b []byte) []byte { return make([]byte, len(b)) })
	put(t, s, there, "b")
	to, err := s.Destinations()
	if len(to) != 1 || to[0] != there || err != nil {
		t.Errorf("destinations %v, %v", to, err)
	}
	want(t, states(t, s), "corrupt 1", "waiting 1")
}

// A file that grew past its name's size is not read to the end to find out.
func TestAHugeFileIsNotRead(t *testing.T) {
	s := newSpool(t, 1<<20)
	put(t, s, here, "a")
	path := filepath.Join(s.Dir, filesOf(t, s.Dir)[0])
	if err := os.Truncate(path, 1<<40); err != nil { // a hole
		t.Skip(err)
	}
	o := openBox(t, s, here)
	defer o.Close()
	if c, corrupt, err := o.Next(); c != nil || corrupt != 1 || err != nil {
		t.Errorf("Next: %v, %d corrupt, %v", c, corrupt, err)
	}
}
