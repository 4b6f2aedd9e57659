package follow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A tail is a Tailer of one folder.
type tail struct {
	*testing.T
	*Tailer
	dir   string
	later *[]change
}

func newTail(t *testing.T, tailer *Tailer, dir string) tail {
	return tail{t, tailer, dir, new([]change)}
}

// eachWay runs a test with events, and with polling.
func eachWay(t *testing.T, test func(t tail)) {
	for name, w := range map[string]func() watcher{
		"events":  newWatcher,
		"polling": func() watcher { return watcher{changed: make(chan struct{}, 1), poll: time.Tick(time.Millisecond)} },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			test(newTail(t, start(t, w(), dir, nil), dir))
		})
	}
}

func start(t *testing.T, w watcher, dir string, known []*File) *Tailer {
	tailer := newTailer([]Folder{{Path: dir}}, known, w)
	t.Cleanup(tailer.Close)
	return tailer
}

func (t tail) path(name string) string { return filepath.Join(t.dir, name) }

func (t tail) write(name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(t.path(name)), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(t.path(name), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// A change is what was read of a file.
type change struct {
	*File
	text     string
	err      error
	replaced bool
}

// next waits for a file that has got more.
func (t tail) next() change {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for len(*t.later) == 0 {
		t.Wait(ctx)
		if ctx.Err() != nil {
			t.Fatal(ctx.Err())
		}
		for f, err := range t.Changed() {
			if c := t.read(f, err); c.err != nil || c.text != "" {
				*t.later = append(*t.later, c)
			}
		}
	}
	c := (*t.later)[0]
	*t.later = (*t.later)[1:]
	return c
}

func (t tail) read(f *File, err error) change {
	t.Helper()
	c := change{File: f, err: err}
	if err != nil {
		return c
	}
	in, err := t.Open(f)
	if c.replaced = errors.Is(err, ErrReplaced); c.replaced {
		f.Position = Position{Path: f.Path}
		in, err = t.Open(f)
	}
	if errors.Is(err, fs.ErrNotExist) { // it has just been renamed
		return c
	}
	if err != nil {
		c.err = err
		return c
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(io.NewSectionReader(in, f.Offset, info.Size()-f.Offset))
	if err != nil {
		t.Fatal(err)
	}
	f.size, f.Modified, c.text = info.Size(), info.ModTime(), string(text)
	f.advance(in, int64(len(text)))
	return c
}

// want reads until a file has given a text, which comes in pieces of any size.
func (t tail) want(name, text string) (last change) {
	t.Helper()
	got := ""
	for len(got) < len(text) {
		last = t.next()
		if last.err != nil || last.Path != t.path(name) {
			t.Fatalf("got a change of %s (%v), want one of %s", last.Path, last.err, name)
		}
		got += last.text
	}
	if got != text {
		t.Fatalf("got %q, want %q", got, text)
	}
	return last
}

func TestAFileAppearsInANewFolder(t *testing.T) {
	eachWay(t, func(t tail) {
		t.write("one/two/three/a.jsonl", "1\n")
		t.want("one/two/three/a.jsonl", "1\n")
		t.write("one/two/three/a.jsonl", "2\n")
		t.want("one/two/three/a.jsonl", "2\n")
	})
}

func TestAFolderAppears(t *testing.T) {
	eachWay(t, func(t tail) {
		folder := t.path("not/there/yet")
		w := t.watch
		if w.poll == nil {
			w = newWatcher()
		}
		later := newTail(t.T, newTailer([]Folder{{Path: folder}}, nil, w), folder)
		defer later.Close()
		later.write("a.jsonl", "1\n")
		later.want("a.jsonl", "1\n")
		if err := os.RemoveAll(t.path("not")); err != nil {
			t.Fatal(err)
		}
		later.write("b.jsonl", "2\n")
		later.want("b.jsonl", "2\n")
	})
}

func TestATruncatedFileBeginsAnew(t *testing.T) {
	eachWay(t, func(t tail) {
		t.write("a.jsonl", "first\nsecond\n")
		t.want("a.jsonl", "first\nsecond\n")
		if err := os.Truncate(t.path("a.jsonl"), 0); err != nil {
			t.Fatal(err)
		}
		t.write("a.jsonl", "third\n")
		if p := t.want("a.jsonl", "third\n"); !p.replaced {
			t.Errorf("the change does not say that the file begins anew: %+v", p)
		}
	})
}

func TestAReplacedFileBeginsAnew(t *testing.T) {
	eachWay(t, func(t tail) {
		for i, text := range []string{"first\n", "longer than the first\n", "no longer than that\n"} {
			t.write("new", text)
			if err := os.Rename(t.path("new"), t.path("a.jsonl")); err != nil {
				t.Fatal(err)
			}
			if p := t.want("a.jsonl", text); p.replaced != (i > 0) {
				t.Errorf("%q: replaced is %v", text, p.replaced)
			}
		}
	})
}

// Editors and agents rewrite a file with what it had and more.
func TestARewrittenFileGoesOn(t *testing.T) {
	eachWay(t, func(t tail) {
		t.write("a.jsonl", "first\n")
		t.want("a.jsonl", "first\n")
		t.write("new", "first\nsecond\n")
		if err := os.Rename(t.path("new"), t.path("a.jsonl")); err != nil {
			t.Fatal(err)
		}
		if p := t.want("a.jsonl", "second\n"); p.replaced {
			t.Error("the file is said to be another one")
		}
	})
}

func TestARenamedFileGoesOn(t *testing.T) {
	eachWay(t, func(t tail) {
		t.write("sessions/a.jsonl", "first\n")
		t.write("archive/b.jsonl", "other\n")
		seen := map[string]*File{}
		for range 2 {
			c := t.next()
			seen[c.Path] = c.File
		}
		file := seen[t.path("sessions/a.jsonl")]
		if err := os.Rename(t.path("sessions/a.jsonl"), t.path("archive/c.jsonl")); err != nil {
			t.Fatal(err)
		}
		t.write("archive/c.jsonl", "second\n")
		if p := t.want("archive/c.jsonl", "second\n"); p.File != file {
			t.Errorf("%+v is taken for a new file", p)
		}
		if err := os.Rename(t.path("archive"), t.path("attic")); err != nil {
			t.Fatal(err)
		}
		t.write("attic/c.jsonl", "third\n")
		if p := t.want("attic/c.jsonl", "third\n"); p.File != file {
			t.Errorf("%+v is taken for a new file", p)
		}
	})
}

// Log rotation moves a file aside and begins another one under its name.
func TestARotatedFileGoesOn(t *testing.T) {
	eachWay(t, func(t tail) {
		t.write("a.jsonl", "first\n")
		file := t.want("a.jsonl", "first\n").File
		if err := os.Rename(t.path("a.jsonl"), t.path("a.1.jsonl")); err != nil {
			t.Fatal(err)
		}
		t.write("a.1.jsonl", "second\n")
		if p := t.want("a.1.jsonl", "second\n"); p.File != file || p.replaced {
			t.Errorf("%+v", p)
		}
		t.write("a.jsonl", "third\n")
		t.want("a.jsonl", "third\n")
	})
}

// A copy, even one that is found before the file has been looked at, is a file of its own.
func TestACopyIsNotARename(t *testing.T) {
	dir := t.TempDir()
	first := newTail(t, newTailer([]Folder{{Path: dir}}, nil, newWatcher()), dir)
	first.write("b.jsonl", "1\n")
	known := first.want("b.jsonl", "1\n").File
	first.Close()
	first.write("a.jsonl", "1\n2\n")
	first.write("b.jsonl", "3\n")
	again := newTail(t, start(t, newWatcher(), dir, []*File{known}), dir)
	if c := again.want("a.jsonl", "1\n2\n"); c.File == known {
		t.Error("the copy is taken for the file")
	}
	if c := again.want("b.jsonl", "3\n"); c.File != known || c.replaced {
		t.Errorf("%+v is taken for another file", c)
	}
}

func TestADeletedFileIsForgotten(t *testing.T) {
	eachWay(t, func(t tail) {
		t.write("a.jsonl", "first\n")
		t.want("a.jsonl", "first\n")
		if err := os.Remove(t.path("a.jsonl")); err != nil {
			t.Fatal(err)
		}
		t.write("b.jsonl", "other\n")
		t.want("b.jsonl", "other\n")
		t.write("a.jsonl", "second\n")
		if p := t.want("a.jsonl", "second\n"); !p.replaced {
			t.Error("the file is taken for the one that was deleted")
		}
	})
}

func TestWhereItLeftOff(t *testing.T) {
	dir := t.TempDir()
	first := newTail(t, newTailer([]Folder{{Path: dir}}, nil, newWatcher()), dir)
	first.write("a.jsonl", "1\n")
	first.write("b.jsonl", "2\n")
	var known []*File
	for range 2 {
		known = append(known, first.next().File)
	}
	first.Close()
	first.write("b.jsonl", "3\n")
	first.write("c.jsonl", "4\n")
	again := newTail(t, start(t, newWatcher(), dir, known), dir)
	again.want("b.jsonl", "3\n")
	again.want("c.jsonl", "4\n")
	in, err := again.Open(known[0])
	if err != nil {
		t.Fatal(err)
	}
	in.Close()
	known[0].Sum = "of another file"
	if in, err := again.Open(known[0]); err == nil {
		in.Close()
		t.Error("a file was taken for another one")
	}
}

func TestOldFilesAreReadOnceTheyGrow(t *testing.T) {
	dir := t.TempDir()
	old := newTail(t, nil, dir)
	old.write("a.jsonl", "1\n")
	before := time.Now().Add(-time.Hour)
	if err := os.Chtimes(old.path("a.jsonl"), before, before); err != nil {
		t.Fatal(err)
	}
	old.Tailer = newTailer([]Folder{{Path: dir, Since: before.Add(time.Minute)}}, nil, newWatcher())
	defer old.Close()
	for f := range old.Changed() {
		t.Errorf("%s is read, which is old", f.Path)
	}
	old.write("a.jsonl", "2\n")
	old.want("a.jsonl", "1\n2\n")
}

func TestLinksAndPipesAreNotFollowed(t *testing.T) {
	outside := newTail(t, nil, t.TempDir())
	outside.write("secret.jsonl", "secret\n")
	eachWay(t, func(t tail) {
		for name, target := range map[string]string{
			"link.jsonl": outside.path("secret.jsonl"), "folder": outside.dir, "loop": t.dir,
		} {
			if err := os.Symlink(target, t.path(name)); err != nil {
				t.Skip(err)
			}
		}
		makePipe(t.T, t.path("pipe.jsonl"))
		t.write("a.jsonl", "1\n")
		t.want("a.jsonl", "1\n")
		outside.write("secret.jsonl", "more\n")
		t.write("a.jsonl", "2\n")
		t.want("a.jsonl", "2\n")
	})
}

func TestAFileThatCannotBeRead(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root can read everything")
	}
	eachWay(t, func(t tail) {
		t.write("new", "1\n")
		if err := os.Chmod(t.path("new"), 0); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(t.path("new"), t.path("a.jsonl")); err != nil {
			t.Fatal(err)
		}
		if p := t.next(); p.err == nil || p.Path != t.path("a.jsonl") {
			t.Errorf("%+v", p)
		}
	})
}

// A folder may become a link after it was searched.
func TestNoLinkOutOfTheFolder(t *testing.T) {
	eachWay(t, func(t tail) {
		t.write("sub/a.jsonl", "1\n")
		known := t.want("sub/a.jsonl", "1\n").File
		outside := filepath.Join(t.TempDir(), "outside")
		if err := os.Rename(t.path("sub"), outside); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(outside, t.path("sub")); err != nil {
			t.Skip(err)
		}
		if in, err := t.Open(known); err == nil {
			in.Close()
			t.Error("opened")
		}
	})
}

func TestLostEventsAreMadeUpFor(t *testing.T) {
	w, failures := watcher{changed: make(chan struct{}, 1)}, make(chan error)
	go w.run(nil, failures)
	defer close(failures)
	dir := t.TempDir()
	lossy := newTail(t, start(t, w, dir, nil), dir)
	lossy.write("new/a.jsonl", "1\n")
	failures <- fsnotify.ErrEventOverflow
	lossy.want("new/a.jsonl", "1\n")
}

func TestWhereWatchingFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWatcher()
	defer w.stop()
	w.add(filepath.Join(file, "folder"))
	if w.why == nil || w.poll == nil {
		t.Error("the folder is neither watched nor polled")
	}
}

// Five thousand idle files are found within two seconds, and not read.
func TestIdleFiles(t *testing.T) {
	dir := t.TempDir()
	idle := newTail(t, nil, dir)
	for i := range 5000 {
		idle.write(fmt.Sprintf("%d/%d.jsonl", i/50, i), "1\n")
	}
	idle.Tailer = start(t, newWatcher(), dir, nil)
	var known []*File
	for range 5000 {
		known = append(known, idle.next().File)
	}
	idle.write("0/new.jsonl", "1\n")
	again := start(t, newWatcher(), dir, known)
	for f := range again.Changed() {
		if f.Path != idle.path("0/new.jsonl") {
			t.Errorf("%s is read again", f.Path)
		}
		if len(again.gone) > 0 {
			t.Errorf("the new file was compared with %d idle ones", len(again.gone))
		}
	}
	if again.watch.poll != nil {
		t.Errorf("polling: %v", again.Polling())
	}
}
