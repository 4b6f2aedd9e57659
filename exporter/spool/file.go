package spool

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/gofrs/flock"
	"google.golang.org/protobuf/encoding/protowire"
)

// A name is that of a request's file. All that a listing or the cap needs
// stands in it, so that neither opens a file, and a file that was cut short
// is known by its size.
type name struct {
	at      time.Time
	spans   int
	bytes   int64
	tail    string // its owner, and what tells apart those of one instant
	sending bool
}

const (
	waitingExt = ".otlp"
	sendingExt = ".sending"
)

func newName(spans, bytes int, owner string) name {
	return name{at: time.Now(), spans: spans, bytes: int64(bytes), tail: owner + random()}
}

// key is the same whether it is being sent or not.
func (n name) key() string {
	n.sending = false
	return n.String()
}

func (n name) ownedBy(owner string) bool { return owner != "" && strings.HasPrefix(n.tail, owner) }

func random() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

func (n name) String() string {
	ext := waitingExt
	if n.sending {
		ext = sendingExt
	}
	return fmt.Sprintf("%d-%d-%d-%s%s", n.at.UnixNano(), n.spans, n.bytes, n.tail, ext)
}

func parseName(s string) (n name, ok bool) {
	base, ok := strings.CutSuffix(s, waitingExt)
	if !ok {
		base, n.sending = strings.CutSuffix(s, sendingExt)
	}
	parts := strings.Split(base, "-")
	if !ok && !n.sending || len(parts) != 4 {
		return name{}, false
	}
	at, err1 := strconv.ParseInt(parts[0], 10, 64)
	spans, err2 := strconv.ParseInt(parts[1], 10, 32)
	size, err3 := strconv.ParseInt(parts[2], 10, 64)
	n.at, n.spans, n.bytes, n.tail = time.Unix(0, at), int(spans), size, parts[3]
	// One that we would write otherwise is not ours, and not found by its parts.
	return n, errors.Join(err1, err2, err3) == nil && spans >= 0 && size >= 0 && n.String() == s
}

func isTemp(name string) bool { return strings.HasPrefix(name, tempPrefix) }

// A Note is what a file says besides its spans.
type Note struct {
	Destination
	Reason string `json:"reason,omitempty"`
	Sum    string `json:"sum,omitempty"` // of a request, after the note

	// Of a journal: who writes it.
	Host string `json:"host,omitempty"`
	PID  int    `json:"pid,omitempty"`
}

// fieldNote is where a note stands: in a field that OTLP does not have.
const fieldNote = 1000

var errControl = errors.New("the endpoint contains control characters")

// encodeNote fails for an endpoint that could not be printed again.
func encodeNote(note Note) ([]byte, error) {
	if strings.ContainsFunc(note.Endpoint, unicode.IsControl) {
		return nil, errControl
	}
	note.Reason = printable(note.Reason[:min(len(note.Reason), maxReason)])
	text, err := json.Marshal(note)
	if err != nil {
		return nil, err
	}
	b := protowire.AppendTag(nil, fieldNote, protowire.BytesType)
	return protowire.AppendBytes(b, text), nil
}

// A note has a reason of at most maxReason bytes and an endpoint, which may be
// a path. JSON makes up to six bytes of one.
const (
	maxReason = 1 << 10
	maxNote   = 64 << 10
)

var errCorrupt = errors.New("not a request")

// decodeNote takes the note off the head of a file.
func decodeNote(b []byte) (note Note, rest []byte, err error) {
	num, typ, tag := protowire.ConsumeTag(b)
	if tag < 0 || num != fieldNote || typ != protowire.BytesType {
		return Note{}, nil, errCorrupt
	}
	text, n := protowire.ConsumeBytes(b[tag:])
	if n < 0 || len(text) > maxNote || json.Unmarshal(text, &note) != nil {
		return Note{}, nil, errCorrupt
	}
	if strings.ContainsFunc(note.Endpoint+note.Protocol, unicode.IsControl) {
		return Note{}, nil, errCorrupt // it would be printed
	}
	note.Reason, note.Host = printable(note.Reason), printable(note.Host)
	return note, b[tag+n:], nil
}

// printable makes what was read fit for a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) string { return fmt.Sprintf("%08x", crc32.Checksum(b, castagnoli)) }

// readRequest returns what the file of a request holds, errCorrupt if that is not
// what was written, or an *Untrusted error.
func readRequest(path string, size int64) (Note, []Part, error) {
	f, info, err := openFile(path, os.O_RDONLY)
	if err != nil {
		return Note{}, nil, err
	}
	defer f.Close()
	if info.Size() != size { // it may be larger than memory
		return Note{}, nil, errCorrupt
	}
	b, err := io.ReadAll(io.LimitReader(f, size+1))
	if err != nil {
		return Note{}, nil, err
	}
	note, rest, err := decodeNote(b)
	if err != nil || int64(len(b)) != size || note.Sum != "" && checksum(rest) != note.Sum {
		return Note{}, nil, errCorrupt
	}
	parts, err := readParts(rest)
	return note, parts, err
}

// readNote reads no more of a file than its head.
func readNote(path string) (Note, error) {
	f, _, err := openFile(path, os.O_RDONLY)
	if err != nil {
		return Note{}, err
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, maxNote+16))
	if err != nil {
		return Note{}, err
	}
	note, _, err := decodeNote(head)
	return note, err
}

// tryLock takes the lock that a file stands for, and makes the file. It returns
// nil if another process holds it, and an error where locks are unknown.
func tryLock(path string) (*flock.Flock, error) {
	if info, err := os.Lstat(path); err == nil && trust(path, info, 0) != nil {
		discard(path)
	}
	onDisk("lock")
	lock := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR|openFlags), flock.SetPermissions(0o600))
	locked, err := lock.TryLock()
	if err != nil || !locked {
		return nil, err
	}
	return lock, nil
}

// unlock lets others have a lock. Closing it cannot fail for a reason that
// matters: the system drops the lock in any case.
func unlock(lock *flock.Flock) {
	if lock != nil {
		_ = lock.Close()
	}
}
