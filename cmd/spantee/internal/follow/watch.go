package follow

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// pollEvery is how often the folders are searched where they cannot be watched.
const pollEvery = 2 * time.Second

// A watcher says when files may have changed, but not which: by the system's events or, where
// there are none, by a ticker.
type watcher struct {
	events  *fsnotify.Watcher // nil if there is none
	changed chan struct{}     // has a value if files may have changed
	poll    <-chan time.Time  // nil unless a folder cannot be watched
	why     error             // of poll
}

func newWatcher() watcher {
	w := watcher{changed: make(chan struct{}, 1)}
	w.notify() // files may have changed since the last process
	var err error
	if w.events, err = fsnotify.NewWatcher(); err != nil {
		w.events = nil
		w.fallBack(err)
		return w
	}
	go w.run(w.events.Events, w.events.Errors)
	return w
}

// run takes events until stop.
func (w watcher) run(events <-chan fsnotify.Event, failures <-chan error) {
	var poll <-chan time.Time
	for {
		select {
		case e, ok := <-events:
			if !ok {
				return
			}
			if e.Op&^(fsnotify.Write|fsnotify.Chmod) == 0 && !isLog(e.Name) {
				continue
			}
		case err, ok := <-failures: // events were lost
			if !ok {
				return
			}
			if poll == nil && !errors.Is(err, fsnotify.ErrEventOverflow) { // such as those of a file that kqueue cannot open
				poll = time.Tick(pollEvery)
			}
		case <-poll:
		}
		w.notify()
	}
}

func (w watcher) notify() {
	select {
	case w.changed <- struct{}{}:
	default:
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

// addRoot watches a folder, or the nearest one above it that exists.
func (w *watcher) addRoot(path string) {
	for watched := ""; watched != nearest(path); { // which may be created meanwhile
		watched = nearest(path)
		w.add(watched)
	}
	if isRemote(path) {
		w.fallBack(fmt.Errorf("%s is on a network file system", path))
	}
}

// nearest returns a folder, or the nearest one above it that exists.
func nearest(path string) string {
	for {
		above := filepath.Dir(path)
		if info, err := os.Stat(path); err == nil && info.IsDir() || path == above {
			return path
		}
		path = above
	}
}

// mayHaveChanged reports whether files may have changed since the last call.
func (w *watcher) mayHaveChanged() bool {
	select {
	case <-w.changed:
	case <-w.poll:
	default:
		return false
	}
	return true
}

// Polling returns why files are searched for changes every two seconds instead of being
// watched, or nil if they are watched.
func (t *Tailer) Polling() error { return t.watch.why }

// Wait waits until files may have changed, or until ctx ends.
func (t *Tailer) Wait(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-t.watch.changed:
	case <-t.watch.poll:
	}
	t.watch.notify()
}
