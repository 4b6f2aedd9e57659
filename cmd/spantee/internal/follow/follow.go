// Package follow maps the session logs in folders as they grow:
//
//	watch.go: events, polling -> follow.go: Tailer.Changed -> session.go: Session.Read -> spans
//	                                                                 └─ steps -> state.go
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
	changed  bool      // it may have more than what was read
	size     int64     // when it was last read
	modified time.Time // when it was last read
}

// sumBytes is how much of a file's beginning, and of what precedes an offset, says which file
// it is.
const sumBytes = 1 << 10

// A Tailer finds the files that have changed. It is used by one goroutine.
type Tailer struct {
	roots []*root
	files map[string]*File // by path
	gone  map[string]*File // that are not at their path any more
	queue map[string]bool  // paths of files that may have changed
	watch watcher
}

// A root is a Folder.
type root struct {
	Folder
	dir *os.Root // nil as long as it does not exist
}

// New returns a Tailer that goes on with the known files. The caller must Close it.
func New(folders []Folder, known []*File) *Tailer { return newTailer(folders, known, watcher{}) }

func newTailer(folders []Folder, known []*File, w watcher) *Tailer {
	t := &Tailer{files: map[string]*File{}, gone: map[string]*File{}, queue: map[string]bool{}, watch: w}
	for _, f := range known {
		t.gone[f.Path] = f
	}
	for _, f := range folders {
		t.roots = append(t.roots, &root{Folder: f})
	}
	if t.watch.poll == nil {
		t.watch.start()
	}
	t.scan()
	return t
}

// Close ends the watch.
func (t *Tailer) Close() {
	t.watch.stop()
	for _, r := range t.roots {
		if r.dir != nil {
			_ = r.dir.Close()
		}
	}
}

// Changed returns the files that may have changed since the last call, or why one that was
// not read before cannot be.
func (t *Tailer) Changed() iter.Seq2[*File, error] {
	return func(yield func(*File, error) bool) {
		paths := slices.Sorted(maps.Keys(t.queue))
		clear(t.queue)
		for _, path := range paths {
			f, err := t.find(path)
			switch {
			case errors.Is(err, fs.ErrNotExist), errors.Is(err, errIrregular):
				continue
			case err != nil:
				f = &File{Position: Position{Path: path}}
			default:
				f.changed = true
			}
			if !yield(f, err) {
				return
			}
		}
	}
}

// find returns the file at a path.
func (t *Tailer) find(path string) (*File, error) {
	if f := t.files[path]; f != nil {
		return f, nil
	}
	in, err := t.open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	f := t.identify(path, in)
	delete(t.gone, f.Path)
	f.Path = path
	t.files[path] = f
	return f, nil
}

// identify returns the file that was read before, perhaps under another path where it is no
// more, or else a new one.
func (t *Tailer) identify(path string, in *os.File) *File {
	before := t.gone[path]
	if before != nil && before.isIn(in) {
		return before
	}
	for _, f := range t.gone {
		if f.Offset > 0 && f.isIn(in) && !t.isThere(f) {
			return f
		}
	}
	if before != nil {
		return before // with other contents
	}
	return &File{Position: Position{Path: path}}
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

// vanished notes that a file is not at its path any more.
func (t *Tailer) vanished(path string) {
	if f := t.files[path]; f != nil {
		t.gone[path] = f
		delete(t.files, path)
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

var errIrregular = errors.New("not a regular file")

// open opens a file in a folder. A link that leads out of the folder fails.
func (t *Tailer) open(path string) (*os.File, error) {
	for _, r := range t.roots {
		name, in := strings.CutPrefix(path, r.Path+string(filepath.Separator))
		if !in || r.dir == nil {
			continue
		}
		if info, err := r.dir.Lstat(name); err != nil {
			return nil, err
		} else if !info.Mode().IsRegular() {
			return nil, errIrregular
		}
		f, err := r.dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe may have taken its place
		if err != nil {
			return nil, err
		}
		info, err := f.Stat()
		if err == nil && !info.Mode().IsRegular() {
			err = errIrregular
		}
		if err != nil {
			f.Close()
			return nil, err
		}
		return f, nil
	}
	return nil, fs.ErrNotExist
}
