// Package follow reads what programs append to the .jsonl files in folders, as whole
// lines:
//
//	watch.go: events, polling -> changed files -> follow.go: Tailer.Next -> Piece
//
// A file is recognized by its contents, so it may be renamed, rewritten or moved to another
// disk. Files are opened read-only, and symbolic links in a folder are not followed.
package follow

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
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

// A Piece is what was read of a file: whole lines, except where a line is longer than
// maxLine.
type Piece struct {
	Position           // after the piece
	From     int64     // offset of the piece
	Bytes    []byte    // valid until the next call of Next
	Modified time.Time // when the file was last modified
	Renamed  string    // the file's former path, if this is its first piece under a new one
	Replaced bool      // the file is not the one that was read before: the piece is its beginning
	More     bool      // more of the file can be read now

	Err error // why the file cannot be read; the other fields except Path are not set

	fromSum string // the Sum at From
}

const (
	// maxPiece is how many bytes a piece has, unless a line is longer.
	maxPiece = 64 << 10

	// maxLine is how much is read of a line that has not ended.
	maxLine = 64 << 20

	// sumBytes is how much of a file's beginning, and of what precedes an offset, says
	// which file it is.
	sumBytes = 1 << 10
)

// A Tailer follows the files. It is used by one goroutine.
type Tailer struct {
	roots  []*root
	files  map[string]*file // that were read, by path
	gone   map[string]*file // that were read and are not at their path any more
	queue  []string         // paths of files that may have changed
	queued map[string]bool
	held   map[string]time.Time // paths that are read again at a time
	buf    []byte
	watch  watcher
}

// A root is a Folder.
type root struct {
	Folder
	dir *os.Root // nil as long as it does not exist
}

// A file is one that was read.
type file struct {
	Position
	replaced bool      // not reported yet
	size     int64     // at the last look
	modified time.Time // at the last look
}

// New returns a Tailer that goes on at the known positions. The caller must Close it.
func New(folders []Folder, known []Position) *Tailer { return newTailer(folders, known, watcher{}) }

func newTailer(folders []Folder, known []Position, w watcher) *Tailer {
	t := &Tailer{files: map[string]*file{}, gone: map[string]*file{}, queued: map[string]bool{}, held: map[string]time.Time{}, watch: w}
	for _, p := range known {
		t.gone[p.Path] = &file{Position: p}
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

// Next waits for the next piece until ctx ends.
func (t *Tailer) Next(ctx context.Context) (Piece, error) {
	for {
		for len(t.queue) > 0 {
			path := t.queue[0]
			t.queue = t.queue[1:]
			delete(t.queued, path)
			if _, held := t.held[path]; held {
				continue
			}
			if p, ok := t.read(path); ok {
				return p, nil
			}
		}
		if err := t.await(ctx); err != nil {
			return Piece{}, err
		}
	}
}

// Pending reports whether one of the files that the caller wants may have changed.
func (t *Tailer) Pending(wanted func(path string) bool) bool {
	return slices.ContainsFunc(t.queue, wanted)
}

// Also returns the next piece of a file that may have changed and that the caller wants,
// without waiting for one.
func (t *Tailer) Also(wanted func(path string) bool) (Piece, bool) {
	for i := 0; i < len(t.queue); i++ {
		path := t.queue[i]
		if !wanted(path) {
			continue
		}
		t.queue = slices.Delete(t.queue, i, i+1)
		i--
		delete(t.queued, path)
		if p, ok := t.read(path); ok {
			return p, true
		}
	}
	return Piece{}, false
}

// PutBack returns what follows the first n bytes of a piece, to be read again at a time. It
// returns the position after these bytes. The file is not read before.
func (t *Tailer) PutBack(p Piece, n int, at time.Time) Position {
	f := t.files[p.Path]
	f.Offset, f.Sum, f.replaced = p.From, p.fromSum, p.Replaced && n == 0
	if n > 0 {
		f.Offset += int64(n)
		if in, _, err := t.open(p.Path); err == nil {
			f.Sum, _ = sumAt(in, f.Offset) // if it fails, the file was replaced
			_ = in.Close()
		}
	}
	if at.After(time.Now()) {
		t.held[p.Path] = at
	} else {
		t.enqueue(p.Path)
	}
	return f.Position
}

// Rewind makes a file be read again from its beginning.
func (t *Tailer) Rewind(path string) {
	if f := t.files[path]; f != nil {
		f.Position = Position{Path: path}
		t.enqueue(path)
	}
}

func (t *Tailer) enqueue(path string) {
	if _, held := t.held[path]; !held && !t.queued[path] {
		t.queued[path] = true
		t.queue = append(t.queue, path)
	}
}

// read reads the next piece of a file. It returns false if there is none.
func (t *Tailer) read(path string) (p Piece, ok bool) {
	in, info, err := t.open(path)
	if err != nil {
		t.vanished(path)
		return Piece{Position: Position{Path: path}, Err: err}, !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errIrregular)
	}
	defer in.Close()
	f := t.files[path]
	if f == nil {
		f, p.Renamed = t.identify(path, in)
		t.files[path] = f
	}
	f.size, f.modified = info.Size(), info.ModTime()
	if sum, err := sumAt(in, f.Offset); f.Offset > 0 && (err != nil || sum != f.Sum) {
		f.Position, f.replaced = Position{Path: path}, true
	}
	p.From, p.fromSum, p.Modified, p.Replaced = f.Offset, f.Sum, f.modified, f.replaced
	if p.Bytes, err = t.lines(in, f.Offset); err != nil || len(p.Bytes) == 0 {
		return Piece{Position: Position{Path: path}, Err: err}, err != nil
	}
	f.Offset, f.replaced = f.Offset+int64(len(p.Bytes)), false
	if f.Sum, err = sumAt(in, f.Offset); err != nil { // it has just been truncated
		f.Sum = ""
	}
	if p.Position, p.More = f.Position, f.Offset < f.size; p.More {
		t.enqueue(path)
	}
	return p, true
}

// lines reads whole lines at an offset: a piece of them, or else one longer line.
func (t *Tailer) lines(in *os.File, offset int64) ([]byte, error) {
	if len(t.buf) > 16*maxPiece { // of one long line
		t.buf = nil
	}
	for size := maxPiece; ; size *= 4 {
		if len(t.buf) < size {
			t.buf = make([]byte, size)
		}
		n, err := in.ReadAt(t.buf[:size], offset)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if end := bytes.LastIndexByte(t.buf[:n], '\n') + 1; end > 0 || n < size {
			return t.buf[:end], nil
		}
		if size >= maxLine {
			return t.buf[:n], nil
		}
	}
}

// identify returns the file that was read before under a path that does not exist any
// more, or a new one.
func (t *Tailer) identify(path string, in *os.File) (f *file, former string) {
	same := func(f *file) bool {
		sum, err := sumAt(in, f.Offset)
		return err == nil && f.Offset > 0 && sum == f.Sum
	}
	if f = t.gone[path]; f != nil && (f.Offset == 0 || same(f)) {
		delete(t.gone, path)
		return f, ""
	}
	for former, f := range t.gone {
		if same(f) {
			delete(t.gone, former)
			f.Path = path
			return f, former
		}
	}
	return &file{Position: Position{Path: path}, replaced: f != nil}, ""
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

// Open returns what a file has up to a position, and fails if the file is another one.
func (t *Tailer) Open(to Position) (*os.File, error) {
	in, _, err := t.open(to.Path)
	if err != nil {
		return nil, err
	}
	if sum, err := sumAt(in, to.Offset); err != nil || sum != to.Sum {
		in.Close()
		return nil, errReplaced
	}
	return in, nil
}

var (
	errReplaced  = errors.New("the file was replaced")
	errIrregular = errors.New("not a regular file")
)

// open opens a file in a folder. A link that leads out of the folder fails.
func (t *Tailer) open(path string) (*os.File, fs.FileInfo, error) {
	for _, r := range t.roots {
		name, in := strings.CutPrefix(path, r.Path+string(filepath.Separator))
		if !in || r.dir == nil {
			continue
		}
		if info, err := r.dir.Lstat(name); err != nil {
			return nil, nil, err
		} else if !info.Mode().IsRegular() {
			return nil, nil, errIrregular
		}
		f, err := r.dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe may have taken its place
		if err != nil {
			return nil, nil, err
		}
		info, err := f.Stat()
		if err == nil && !info.Mode().IsRegular() {
			err = errIrregular
		}
		if err != nil {
			f.Close()
			return nil, nil, err
		}
		return f, info, nil
	}
	return nil, nil, fs.ErrNotExist
}
