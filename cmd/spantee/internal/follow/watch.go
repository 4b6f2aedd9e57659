package follow

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// pollEvery is how often the folders are searched where they cannot be watched.
const pollEvery = 2 * time.Second

// A watcher says when to look for changes: the system's events or, where there are none, a
// ticker.
type watcher struct {
	events *fsnotify.Watcher // nil if there is none
	poll   <-chan time.Time  // nil unless a folder cannot be watched
	why    error             // of poll
}

func (w *watcher) start() {
	var err error
	if w.events, err = fsnotify.NewWatcher(); err != nil {
		w.events = nil
		w.fallBack(err)
	}
}

func (w *watcher) stop() {
	if w.events != nil {
		_ = w.events.Close()
	}
}

// fallBack polls all folders, which goes well with events of some.
func (w *watcher) fallBack(why error) {
	if w.poll == nil {
		w.poll, w.why = time.Tick(pollEvery), why
	}
}

// add watches the files in a folder, but not those in folders in it.
func (w *watcher) add(dir string) {
	if w.events == nil {
		return
	}
	if err := w.events.Add(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.fallBack(fmt.Errorf("%s: %w", dir, err))
	}
}

// Polling returns why files are searched for changes every two seconds instead of being
// watched, or nil if they are watched.
func (t *Tailer) Polling() error { return t.watch.why }

// Wait waits until files may have changed, or until ctx ends.
func (t *Tailer) Wait(ctx context.Context) {
	if len(t.queue) > 0 {
		return
	}
	var events <-chan fsnotify.Event
	var failures <-chan error
	if t.watch.events != nil {
		events, failures = t.watch.events.Events, t.watch.events.Errors
	}
	select {
	case <-ctx.Done():
	case e := <-events:
		t.changed(e)
	case err := <-failures: // events were lost
		if !errors.Is(err, fsnotify.ErrEventOverflow) {
			t.watch.fallBack(err)
		}
		t.scan()
	case <-t.watch.poll:
		t.scan()
	}
}

// changed takes an event.
func (t *Tailer) changed(e fsnotify.Event) {
	for _, r := range t.roots {
		name, in := strings.CutPrefix(e.Name, r.Path+string(filepath.Separator))
		switch {
		case in && (e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename)):
			t.vanishedIn(e.Name)
		case in && isLog(name) && e.Has(fsnotify.Write):
			t.queue[e.Name] = true
		case in && r.dir != nil && e.Has(fsnotify.Create):
			t.scanIn(r, name) // a folder may have files already
		case e.Name == r.Path, strings.HasPrefix(r.Path, e.Name+string(filepath.Separator)):
			t.scanRoot(r)
		}
	}
}

// vanishedIn notes that a file, or all files in a folder, are not there any more.
func (t *Tailer) vanishedIn(name string) {
	t.vanished(name)
	for path := range t.files {
		if strings.HasPrefix(path, name+string(filepath.Separator)) {
			t.vanished(path)
		}
	}
}

func isLog(name string) bool { return filepath.Ext(name) == ".jsonl" }

// scan looks for changed files in all folders, and watches the folders that are new.
func (t *Tailer) scan() {
	for path := range t.files {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			t.vanished(path)
		}
	}
	for _, r := range t.roots {
		t.scanRoot(r)
	}
}

func (t *Tailer) scanRoot(r *root) {
	for !r.open() {
		above := nearest(r.Path)
		t.watch.add(above)
		if !r.open() && nearest(r.Path) == above { // nothing was created before the watch
			return
		}
	}
	if isRemote(r.Path) {
		t.watch.fallBack(fmt.Errorf("%s is on a network file system", r.Path))
	}
	t.scanIn(r, ".")
}

// open reports whether the folder exists, also if it was removed and made again.
func (r *root) open() bool {
	if r.dir != nil {
		now, err1 := os.Stat(r.Path)
		then, err2 := r.dir.Stat(".")
		if err1 == nil && err2 == nil && os.SameFile(now, then) {
			return true
		}
		_ = r.dir.Close()
	}
	var err error
	if r.dir, err = os.OpenRoot(r.Path); err != nil {
		r.dir = nil
	}
	return r.dir != nil
}

// nearest returns the nearest folder of a path that exists.
func nearest(path string) string {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.IsDir() || dir == filepath.Dir(dir) {
			return dir
		}
	}
}

// scanIn looks for changed files in a folder, or at one file. It watches a folder before it
// looks, so that no change comes in between.
func (t *Tailer) scanIn(r *root, name string) {
	if info, err := r.dir.Lstat(name); err != nil || info.Mode()&fs.ModeSymlink != 0 { // WalkDir would follow it
		return
	}
	_ = fs.WalkDir(r.dir.FS(), filepath.ToSlash(name), func(name string, d fs.DirEntry, err error) error {
		if err != nil { // such as a folder that has just been removed
			return nil
		}
		path := filepath.Join(r.Path, filepath.FromSlash(name))
		if d.IsDir() {
			t.watch.add(path)
			return nil
		}
		if !d.Type().IsRegular() || !isLog(name) {
			return nil
		}
		if info, err := d.Info(); err == nil && t.hasChanged(r, path, info) {
			t.queue[path] = true
		}
		return nil
	})
}

// coarseness is how far the time at which a file was modified may lag behind the clock.
const coarseness = 2 * time.Second

// hasChanged reports whether a file has changed since it was read.
func (t *Tailer) hasChanged(r *root, path string, info fs.FileInfo) bool {
	if f := t.files[path]; f != nil {
		return f.size != info.Size() || !f.modified.Equal(info.ModTime())
	}
	if f := t.gone[path]; f != nil {
		if f.Offset != info.Size() {
			return true
		}
		delete(t.gone, path)
		f.size, f.modified = info.Size(), info.ModTime()
		t.files[path] = f
		return false
	}
	return !info.ModTime().Before(r.Since.Add(-coarseness))
}
