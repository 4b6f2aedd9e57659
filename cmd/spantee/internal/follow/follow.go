// Package follow maps the session logs in folders as they grow:
//
//	follower.go: Follower.Run
//	    watch.go: Tailer.Wait -> follow.go: Tailer.Changed -> session.go: Session.Read -> spans -> Host
//	                                                                         └─ steps -> state.go
//
// A file is recognized by its contents, so it may be renamed, rewritten or moved to another
// disk. Files are opened read-only, and symbolic links in a folder are not followed.
package follow

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A Folder is followed with all folders in it. It need not exist yet.
type Folder struct {
	Path  string    // absolute
	Since time.Time // a file of an unknown Position is read once it was modified since
}

// A Position is how far a file was read.
type Position struct {
	Path   string `json:"path"`
	Offset int64  `json:"offset"`
	Sum    string `json:"sum"` // of the file's beginning and of what precedes Offset
}

// A File is one that is followed.
type File struct {
	Position
	Modified time.Time `json:"-"` // when it was last looked at
	size     int64     // when it was last looked at
	changed  bool      // it may have more than what was read
}

// sumBytes is how much of a file's beginning, and of what precedes an offset, says which file
// it is.
const sumBytes = 1 << 10

// A Tailer finds the files that have changed. It is used by one goroutine.
type Tailer struct {
	folders []Folder
	files   map[string]*File // by path
	gone    map[string]*File // that are not at their path any more, or were not looked for yet
	watch   watcher
}

// New returns a Tailer that goes on with the known files. The caller must Close it.
func New(folders []Folder, known []*File) *Tailer { return newTailer(folders, known, newWatcher()) }

func newTailer(folders []Folder, known []*File, w watcher) *Tailer {
	t := &Tailer{folders: folders, files: map[string]*File{}, gone: map[string]*File{}, watch: w}
	for _, f := range known {
		t.gone[f.Path] = f
	}
	return t
}

// Close ends the watch.
func (t *Tailer) Close() { t.watch.stop() }

// Changed looks for files that have changed since the last call, unless the watch says that
// none has. It returns each of them, or why one that was not read before cannot be.
func (t *Tailer) Changed() iter.Seq2[*File, error] {
	return func(yield func(*File, error) bool) {
		if !t.watch.mayHaveChanged() {
			return
		}
		found := t.find()
		for path, f := range t.files {
			if found[path] == nil {
				f.Modified = time.Time{} // if it comes back, it has changed
				t.gone[path] = f
				delete(t.files, path)
			}
		}
		for path, info := range found {
			t.keepIdle(path, info)
		}
		for _, path := range slices.Sorted(maps.Keys(found)) {
			f, changed, err := t.look(path, found[path])
			if (changed || err != nil) && !errors.Is(err, fs.ErrNotExist) && !yield(f, err) {
				return
			}
		}
	}
}

// coarseness is how far the time at which a file was modified may lag behind the clock.
const coarseness = 2 * time.Second

// find returns the logs in all folders, except those that are too old. It watches each folder
// before it looks there, so that no change comes in between.
func (t *Tailer) find() map[string]fs.FileInfo {
	found := map[string]fs.FileInfo{}
	for _, folder := range t.folders {
		t.watch.addRoot(folder.Path)
		// The separator makes WalkDir follow a folder that is a link.
		_ = filepath.WalkDir(folder.Path+string(filepath.Separator), func(path string, d fs.DirEntry, err error) error {
			if err != nil { // such as a folder that has just been removed
				return nil
			}
			if d.IsDir() {
				t.watch.add(path)
			}
			if !d.Type().IsRegular() || !isLog(path) {
				return nil
			}
			known := t.files[path] != nil || t.gone[path] != nil
			if info, err := d.Info(); err == nil && (known || !info.ModTime().Before(folder.Since.Add(-coarseness))) {
				found[path] = info
			}
			return nil
		})
	}
	return found
}

func isLog(path string) bool { return filepath.Ext(path) == ".jsonl" }

// keepIdle takes a file that has the size it was read to for that file. Opening thousands of
// them takes long, and so does comparing each new file with all of them.
func (t *Tailer) keepIdle(path string, info fs.FileInfo) {
	if f := t.gone[path]; f != nil && f.Offset == info.Size() {
		f.size, f.Modified = info.Size(), info.ModTime()
		delete(t.gone, path)
		t.files[path] = f
	}
}

// look returns the file at a path, and whether it has changed since it was last looked at.
func (t *Tailer) look(path string, info fs.FileInfo) (f *File, changed bool, err error) {
	f = t.files[path]
	if f == nil {
		if f, err = t.identify(path); err != nil {
			return &File{Position: Position{Path: path}}, false, err
		}
		delete(t.gone, f.Path)
		f.Path = path
		t.files[path] = f
	}
	if changed = f.size != info.Size() || !f.Modified.Equal(info.ModTime()); changed {
		f.size, f.Modified, f.changed = info.Size(), info.ModTime(), true
	}
	return f, changed, nil
}

// identify returns the file that was read before, perhaps under another path where it is no
// more, or else a new one.
func (t *Tailer) identify(path string) (*File, error) {
	in, err := t.open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	before := t.gone[path]
	if before != nil && before.isIn(in) {
		return before, nil
	}
	for _, f := range t.gone {
		if f.Offset > 0 && f.isIn(in) && !t.isThere(f) {
			return f, nil
		}
	}
	if before != nil {
		return before, nil // with other contents
	}
	return &File{Position: Position{Path: path}}, nil
}

// isIn reports whether a file has what was read of f.
func (f *File) isIn(in io.ReaderAt) bool {
	sum, err := sumAt(in, f.Offset)
	return f.Offset == 0 || err == nil && sum == f.Sum
}

// isThere reports whether a file is at its path: one that resembles it is a copy.
func (t *Tailer) isThere(f *File) bool {
	in, err := t.Open(f)
	if err == nil {
		_ = in.Close()
	}
	return err == nil
}

// advance notes that the next n bytes were read.
func (f *File) advance(in io.ReaderAt, n int64) {
	f.Offset += n
	var err error
	if f.Sum, err = sumAt(in, f.Offset); err != nil { // it has just been truncated
		f.Sum = ""
	}
}

// sumAt returns the Sum of a Position. It fails if the file is shorter.
func sumAt(in io.ReaderAt, offset int64) (string, error) {
	n := min(offset, sumBytes)
	b := make([]byte, 2*n)
	for i, at := range []int64{0, offset - n} {
		if _, err := in.ReadAt(b[int64(i)*n:int64(i+1)*n], at); err != nil {
			return "", err
		}
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8]), nil
}

// Open opens a file, and fails if it has not what was read of it.
func (t *Tailer) Open(f *File) (*os.File, error) {
	in, err := t.open(f.Path)
	if err != nil {
		return nil, err
	}
	if !f.isIn(in) {
		in.Close()
		return nil, ErrReplaced
	}
	return in, nil
}

// ErrReplaced means that a file is not the one that was read before.
var ErrReplaced = errors.New("the file was replaced")

// open opens a file in a folder. A path that a link leads out of the folder fails.
func (t *Tailer) open(path string) (*os.File, error) {
	in := t.folderOf(path)
	if in == nil {
		return nil, fs.ErrNotExist
	}
	folder, err := os.OpenRoot(in.Path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = folder.Close() }()
	name := path[len(in.Path)+1:]
	if info, err := folder.Lstat(name); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fs.ErrNotExist
	}
	return folder.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe may have taken its place
}

// Since returns since when a file's folder is followed.
func (t *Tailer) Since(path string) time.Time {
	if in := t.folderOf(path); in != nil {
		return in.Since
	}
	return time.Time{}
}

// folderOf returns the innermost folder that a file is in, nil if it is in none.
func (t *Tailer) folderOf(path string) (in *Folder) {
	for i, f := range t.folders {
		if strings.HasPrefix(path, f.Path+string(filepath.Separator)) && (in == nil || len(f.Path) > len(in.Path)) {
			in = &t.folders[i]
		}
	}
	return in
}
