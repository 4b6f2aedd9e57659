package viewer

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/spool"
)

// Kept is a folder in which sessions survive a restart. Every process appends to
// files of its own; the oldest files are removed when all files exceed Max.
//
// A file holds OTLP TracesData messages, each with its length before it. Like those
// of a spool, the folder and its files are used only if nobody else can write to them.
type Kept struct {
	Dir string
	Max int64 // bytes
}

const (
	keptSuffix = ".spans"

	// keptParts is how many files share Max. Removing a file loses that fraction of
	// the sessions.
	keptParts = 16

	// maxKeptMessage is larger than any request.
	maxKeptMessage = 64 << 20
)

// TestSpan is the name of the span that spantee doctor sends. The viewer shows it,
// but does not keep it, or count it as a run.
const TestSpan = "spantee doctor"

func isTest(request []*tracepb.ResourceSpans) bool {
	for _, rs := range request {
		for _, ss := range rs.GetScopeSpans() {
			for _, s := range ss.GetSpans() {
				if s.GetName() != TestSpan {
					return false
				}
			}
		}
	}
	return true
}

// Check returns an error if the folder must not be used, such as a *spool.Untrusted.
func (k *Kept) Check() error {
	if err := spool.EnterDir(k.Dir, false); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil // it will be created
}

// files returns the folder's files, oldest first.
func (k *Kept) files() ([]fs.FileInfo, error) {
	if err := k.Check(); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(k.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var files []fs.FileInfo
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && strings.HasSuffix(e.Name(), keptSuffix) {
			files = append(files, info)
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), cmp.Compare(a.Name(), b.Name()))
	})
	return files, nil
}

// Read returns the requests that were kept, the oldest first. An error says
// what is wrong with one file; the others follow.
func (k *Kept) Read() iter.Seq2[[]*tracepb.ResourceSpans, error] { return k.read(nil) }

func (k *Kept) read(stop <-chan struct{}) iter.Seq2[[]*tracepb.ResourceSpans, error] {
	return func(yield func([]*tracepb.ResourceSpans, error) bool) {
		files, err := k.files()
		if err != nil && !yield(nil, err) {
			return
		}
		for _, info := range files {
			if !readKept(filepath.Join(k.Dir, info.Name()), stop, yield) {
				return
			}
		}
	}
}

// readKept returns false if no more is wanted.
func readKept(name string, stop <-chan struct{}, yield func([]*tracepb.ResourceSpans, error) bool) bool {
	f, _, err := spool.OpenFile(name, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return true // another process needed the room
	}
	if err != nil {
		return yield(nil, err)
	}
	defer f.Close()
	r := bufio.NewReader(f)
	for {
		select {
		case <-stop:
			return false
		default:
		}
		var data tracepb.TracesData
		err := protodelim.UnmarshalOptions{MaxSize: maxKeptMessage}.UnmarshalFrom(r, &data)
		switch {
		case errors.Is(err, io.EOF):
			return true
		case errors.Is(err, io.ErrUnexpectedEOF):
			return yield(nil, fmt.Errorf("%s was truncated: its last spans are lost", filepath.Base(name)))
		case err != nil:
			return yield(nil, fmt.Errorf("%s: %w", filepath.Base(name), err))
		}
		if !yield(data.GetResourceSpans(), nil) {
			return false
		}
	}
}

// A keeper appends to one file after another. Its methods do nothing if it is nil.
type keeper struct {
	kept Kept

	mu   sync.Mutex
	f    *os.File // nil until the first write
	size int64
}

func (k *Kept) keeper() *keeper {
	if k == nil {
		return nil
	}
	return &keeper{kept: *k}
}

func (k *keeper) write(spans []*tracepb.ResourceSpans) error {
	if k == nil || len(spans) == 0 || isTest(spans) {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.f == nil || k.size > k.kept.Max/keptParts {
		if err := k.next(); err != nil {
			return err
		}
	}
	data := &tracepb.TracesData{ResourceSpans: spans}
	size := proto.Size(data)
	message := protowire.AppendVarint(make([]byte, 0, protowire.SizeBytes(size)), uint64(size))
	message, err := proto.MarshalOptions{}.MarshalAppend(message, data)
	if err != nil {
		return err
	}
	n, err := k.f.Write(message) // at once, so that no reader finds a length alone
	k.size += int64(n)
	if err != nil {
		return errors.Join(err, k.closeFile()) // what follows half a message could not be read
	}
	return nil
}

// next begins another file, and removes the oldest files to make room for it.
func (k *keeper) next() error {
	if err := k.closeFile(); err != nil {
		return err
	}
	if err := spool.EnterDir(k.kept.Dir, true); err != nil {
		return err
	}
	files, err := k.kept.files()
	if err != nil {
		return err
	}
	room := k.kept.Max - k.kept.Max/keptParts
	for _, info := range slices.Backward(files) {
		if room -= info.Size(); room < 0 {
			_ = os.Remove(filepath.Join(k.kept.Dir, info.Name())) // another process may have been faster
		}
	}
	name := fmt.Sprintf("%d-%d%s", time.Now().UnixNano(), os.Getpid(), keptSuffix)
	k.f, _, err = spool.OpenFile(filepath.Join(k.kept.Dir, name), os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL)
	k.size = 0
	return err
}

func (k *keeper) closeFile() error {
	f := k.f
	k.f = nil
	if f == nil {
		return nil
	}
	return f.Close()
}

func (k *keeper) close() {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	_ = k.closeFile() // each message was written at once
}
