package spool

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Fields of an ExportTraceServiceRequest and what is in it.
const (
	fieldResourceSpans = 1
	fieldScopeSpans    = 2
	fieldSpans         = 2
)

// fieldOpen is where a journal has the spans that have not ended, in one
// ScopeSpans: in a field that OTLP does not have.
const fieldOpen = 1001

// A Journal is what a running process would lose if it were killed: open spans,
// as they would end now, and ended ones that are not delivered. It is a file in
// the system's memory, which outlives a process, and is never synced.
//
//	note, undelivered spans, open spans    written anew by Checkpoint
//	an ended span ...                      added by Append
//
// The process holds a lock beside it, which no other can take while it lives:
// process ids come again.
type Journal struct {
	dir, base string
	note      []byte
	lock      *flock.Flock

	mu     sync.Mutex
	f      *os.File // nil if it could not be written
	closed bool
}

// Heartbeat is how often a process that has nothing new writes a Checkpoint all
// the same, to show that it lives.
const Heartbeat = time.Minute

// NewJournal returns a journal for this process. It is on disk from the first
// Checkpoint on.
func (s Spool) NewJournal(to Destination) *Journal {
	host, _ := os.Hostname()
	dir := filepath.Join(s.Dir, openDir)
	base := fmt.Sprintf("%d-%s", os.Getpid(), random())
	return &Journal{
		dir: dir, base: base,
		note: encodeNote(Note{Destination: to, Host: host, PID: os.Getpid()}),
		lock: flock.New(filepath.Join(dir, base+lockExt), flock.SetPermissions(0o600)),
	}
}

const lockExt = ".lock"

func (j *Journal) path(ext string) string { return filepath.Join(j.dir, j.base+ext) }

// Checkpoint writes the journal anew: undelivered is a request, and open are
// the spans that have not ended.
func (j *Journal) Checkpoint(undelivered Request, open []*tracepb.Span) error {
	b := append(append([]byte(nil), j.note...), undelivered.Body...)
	scope := &tracepb.ScopeSpans{Spans: open}
	b = protowire.AppendTag(b, fieldOpen, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(proto.Size(scope)))
	b, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(b, scope)
	if err != nil {
		return err
	}

	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil
	}
	if err := j.begin(); err != nil {
		return err
	}
	j.close()
	f, err := os.CreateTemp(j.dir, tempPrefix)
	if err != nil {
		return err
	}
	if _, err = f.Write(b); err == nil {
		err = os.Rename(f.Name(), j.path(waitingExt))
	}
	if err != nil {
		f.Close()
		os.Remove(f.Name())
		return err
	}
	j.f = f
	return nil
}

func (j *Journal) begin() error {
	if j.lock.Locked() {
		return nil
	}
	if err := os.MkdirAll(j.dir, 0o700); err != nil {
		return err
	}
	// Where a disk knows no locks the heartbeat has to do.
	if _, err := j.lock.TryLock(); err != nil && !isUnsupported(err) {
		return err
	}
	return nil
}

// Append adds a span that has ended: the bytes it adds to a ScopeSpans.
func (j *Journal) Append(span []byte) {
	scope := protowire.SizeTag(fieldScopeSpans) + protowire.SizeBytes(len(span))
	b := make([]byte, 0, protowire.SizeTag(fieldResourceSpans)+protowire.SizeBytes(scope))
	b = protowire.AppendTag(b, fieldResourceSpans, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(scope))
	b = protowire.AppendTag(b, fieldScopeSpans, protowire.BytesType)
	b = protowire.AppendBytes(b, span)

	j.mu.Lock()
	defer j.mu.Unlock()
	if j.f == nil {
		return // the next Checkpoint will have it
	}
	if _, err := j.f.Write(b); err != nil {
		j.close() // the next Checkpoint begins anew
	}
}

func (j *Journal) close() {
	if j.f != nil {
		_ = j.f.Close() // it is not needed on disk
		j.f = nil
	}
}

// Close ends the journal, and keeps it for another process to recover if not
// all that it holds was delivered. It tells whether there is anything kept.
func (j *Journal) Close(keep bool) (kept bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	j.close()
	defer j.lock.Close()
	if keep {
		_, err := os.Stat(j.path(waitingExt))
		return err == nil
	}
	os.Remove(j.path(waitingExt))
	if j.lock.Locked() {
		os.Remove(j.path(lockExt))
	}
	return false
}
