package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
)

func next(t testing.TB, o *Outbox, names ...string) *Claim {
	t.Helper()
	c, corrupt, err := nextOf(o)
	if c == nil || corrupt != 0 || err != nil {
		t.Fatalf("Next: %v, %d corrupt, %v, want %q", c, corrupt, err, names)
	}
	want(t, namesIn(c.Spans...), names...)
	return c
}

// putAlone puts a request that is not joined with others.
func putAlone(t testing.TB, s Spool, to Destination, names ...string) {
	t.Helper()
	spans := spansOf(names...)
	spans[0].TraceState = strings.Repeat("x", int(min(maxRequest, s.Max/4)*5/8))
	if err := s.Put(background, to, encoded(t, spans), ""); err != nil {
		t.Fatal(err)
	}
}

func TestSmallRequestsAreJoined(t *testing.T) {
	s := newSpool(t, 256<<20)
	long := strings.Repeat("x", 40_000)
	const requests = 250
	for i := range requests {
		span := spanOf(fmt.Sprintf("%04d", i))
		span.TraceState = long
		if err := s.Put(background, here, encoded(t, []*tracepb.Span{span}), ""); err != nil {
			t.Fatal(err)
		}
	}
	other := []*Span{{Wire: wire(t, spanOf("other")), Of: new(Origin)}} // without a resource
	if err := s.Put(background, here, RequestOf(other), ""); err != nil {
		t.Fatal(err)
	}
	o := openBox(t, s, here)
	defer o.Close()
	var names []string
	claims := 0
	for {
		c, err := o.Next(background)
		if c == nil || err != nil {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		claims++
		for _, r := range Requests(c.Spans) {
			if n := len(Encode(r)); n > maxRequest || (r[0].Of.Resource == nil) != slices.Contains(namesIn(r...), "other") {
				t.Errorf("a request has %d bytes and the resource %q", n, r[0].Of.Resource)
			}
		}
		if claims == 2 { // it comes again with the next Outbox
			if err := c.Release(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		names = append(names, namesIn(c.Spans...)...)
		if err := c.Done(); err != nil {
			t.Fatal(err)
		}
	}
	if most := requests*40_200/maxRequest + 2; claims > most {
		t.Errorf("%d requests, want %d at most", claims, most)
	}
	o.Close()
	names = append(names, drained(t, s, here)...)
	if slices.Sort(names); len(slices.Compact(names)) != requests+1 {
		t.Errorf("%d spans of %d", len(names), requests+1)
	}
}

func TestAnOutboxIsForOne(t *testing.T) {
	s := newSpool(t, 1<<20)
	putAlone(t, s, here, "a")
	putAlone(t, s, there, "b")
	o := openBox(t, s, here)
	if _, err := s.Outbox(background, here); !errors.Is(err, ErrBusy) {
		t.Errorf("a second one: %v", err)
	}
	openBox(t, s, there).Close()
	o.Close()
	openBox(t, s, here).Close()
}

func TestAnOutboxGivesTheOldestFirst(t *testing.T) {
	s := newSpool(t, 1<<20)
	putAlone(t, s, here, "a")
	putAlone(t, s, here, "b", "c")
	o := openBox(t, s, here)
	defer o.Close()
	c := next(t, o, "a")
	putAlone(t, s, here, "d") // came while it drains
	if err := c.Done(); err != nil {
		t.Fatal(err)
	}
	for _, names := range [][]string{{"b", "c"}, {"d"}} {
		if err := next(t, o, names...).Done(); err != nil {
			t.Fatal(err)
		}
	}
	if c, corrupt, err := nextOf(o); c != nil || corrupt != 0 || err != nil {
		t.Errorf("there is still %v, %d, %v", c, corrupt, err)
	}
	if files := filesOf(t, s.Dir); len(files) > 0 {
		t.Errorf("left %q", files)
	}
}

func TestWhatGoesBackIsFirstAgain(t *testing.T) {
	s := newSpool(t, 1<<20)
	putAlone(t, s, here, "a")
	putAlone(t, s, here, "b")
	o := openBox(t, s, here)
	if err := next(t, o, "a").Release(); err != nil {
		t.Fatal(err)
	}
	o.Close()
	want(t, states(t, s), "waiting 1", "waiting 1")
	want(t, drained(t, s, here), "a", "b")
}

func TestAnOutboxTakesOverFromTheDead(t *testing.T) {
	s := newSpool(t, 1<<20)
	putAlone(t, s, here, "a")
	putAlone(t, s, here, "b")
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
	putAlone(t, s, here, "a")
	putAlone(t, s, here, "b")
	first := openBox(t, s, here)
	c := next(t, first, "a")
	late := &Outbox{s: s, to: here, dirName: here.dir(), later: map[string]bool{}}
	must(t, late.list()) // while the first one sends
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
		"without its note": func(b []byte) []byte { _, _, n := protowire.ConsumeField(b); return b[n:] },
		"too long":         func(b []byte) []byte { return append(b, 0) },
		"garbage after":    func(b []byte) []byte { copy(b[len(b)-20:], strings.Repeat("\xff", 20)); return b },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSpool(t, 1<<20)
			put(t, s, here, "a", "b")
			spoil(t, s, spoiled)
			put(t, s, here, "c")
			o := openBox(t, s, here)
			c, corrupt, err := nextOf(o)
			if corrupt != 2 || err != nil {
				t.Fatalf("Next: %d corrupt, %v", corrupt, err)
			}
			want(t, namesIn(c.Spans...), "c")
			if err := c.Done(); err != nil {
				t.Fatal(err)
			}
			o.Close()
			want(t, states(t, s), "corrupt 2")
			if o := openBox(t, s, here); o != nil {
				t.Error("it still waits")
			}
			to, err := s.Destinations(background)
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
	want(t, states(t, s), "corrupt 0", "waiting 1") // the link
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
	to, err := s.Destinations(background)
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
	if c, corrupt, err := nextOf(o); c != nil || corrupt != 1 || err != nil {
		t.Errorf("Next: %v, %d corrupt, %v", c, corrupt, err)
	}
}
