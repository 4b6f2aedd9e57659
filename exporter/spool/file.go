package spool

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// A name is the name of the file of a request, or of a log that waits. It holds all that
// List and the size limit need, so that neither opens the file. It includes the size, so
// that a truncated file is recognized.
type name struct {
	at      time.Time
	spans   int
	points  int // data points, if the request is of metrics
	bytes   int64
	tail    string // its owner, and what makes the name unique
	sending bool
	log     bool // the log of a process that has ended
}

const (
	waitingExt = ".otlp"
	sendingExt = ".sending"

	// An earlier version of spantee, which would take a log for an empty request, does
	// not know these.
	logExt        = ".log"
	sendingLogExt = ".sending-log"

	pointsMark = "p" // after a number of data points
)

func newName(req Request, bytes int, owner string) name {
	return name{at: time.Now(), spans: req.Spans, points: req.Points, bytes: int64(bytes), tail: owner + random()}
}

// key returns what is the same whether the request is waiting or being sent.
func (n name) key() string {
	n.sending = false
	return n.String()
}

func (n name) ownedBy(owner string) bool { return owner != "" && strings.HasPrefix(n.tail, owner) }

// random returns the random part of a name. It must be unique but not secret, and
// math/rand starts faster than crypto/rand.
func random() string { return fmt.Sprintf("%012x", rand.Uint64()>>16) }

func (n name) String() string {
	ext := waitingExt
	switch {
	case n.log && n.sending:
		ext = sendingLogExt
	case n.log:
		ext = logExt
	case n.sending:
		ext = sendingExt
	}
	items := strconv.Itoa(n.spans)
	if n.points > 0 {
		items = strconv.Itoa(n.points) + pointsMark
	}
	return fmt.Sprintf("%d-%s-%d-%s%s", n.at.UnixNano(), items, n.bytes, n.tail, ext)
}

// parseName returns the name that String returns as s, a zero one if there is none.
func parseName(s string) (n name) {
	ext := filepath.Ext(s)
	n.log = ext == logExt || ext == sendingLogExt
	n.sending = ext == sendingExt || ext == sendingLogExt
	parts := strings.Split(strings.TrimSuffix(s, ext), "-")
	if len(parts) != 4 {
		return name{}
	}
	at, err1 := strconv.ParseInt(parts[0], 10, 64)
	number, ofPoints := strings.CutSuffix(parts[1], pointsMark)
	items, err2 := strconv.ParseInt(number, 10, 32)
	size, err3 := strconv.ParseInt(parts[2], 10, 64)
	n.at, n.bytes, n.tail = time.Unix(0, at), size, parts[3]
	if ofPoints {
		n.points = int(items)
	} else {
		n.spans = int(items)
	}
	// A name that String would write differently is not ours.
	if errors.Join(err1, err2, err3) != nil || items < 0 || size < 0 || n.String() != s {
		return name{}
	}
	return n
}

func isTemp(name string) bool { return strings.HasPrefix(name, tempPrefix) }

// A Note is the metadata of a file.
type Note struct {
	Destination
	Reason string `json:"reason,omitempty"`
	Sum    string `json:"sum,omitempty"` // checksum of the request after the note

	// Of a log: its format, and who writes it.
	Format int    `json:"format,omitempty"`
	Host   string `json:"host,omitempty"`
	PID    int    `json:"pid,omitempty"`
}

// isLocal reports whether this host's process wrote a log.
func (n Note) isLocal() bool {
	host, _ := os.Hostname()
	return n.Host == host
}

// fieldNote is the field number of a note, which OTLP does not use.
const fieldNote = 1000

var errControl = errors.New("the endpoint contains control characters")

// encodeNote fails for an endpoint with control characters, which could not be
// printed.
func encodeNote(note Note) ([]byte, error) {
	if strings.ContainsFunc(note.Endpoint, unicode.IsControl) {
		return nil, errControl
	}
	note.Reason = printable(note.Reason[:min(len(note.Reason), maxReason)])
	text, err := json.Marshal(note)
	if err != nil {
		return nil, err
	}
	return appendRecord(nil, fieldNote, text), nil
}

// A note has a reason of at most maxReason bytes and an endpoint, which may be a
// path. JSON may encode a byte as six.
const (
	maxReason = 1 << 10
	maxNote   = 64 << 10
)

var (
	errCorrupt = errors.New("not a request")
	errTorn    = fmt.Errorf("%w: it ends within its note", errCorrupt)
)

// nextNote reads the note at the head of a file of size bytes.
func nextNote(r *bufio.Reader, size int64) (Note, error) {
	number, text, err := nextRecord(r, size, maxNote)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return Note{}, errTorn
	case err != nil:
		return Note{}, err
	case number != fieldNote:
		return Note{}, errCorrupt
	}
	return decodeNote(text)
}

func decodeNote(text []byte) (note Note, err error) {
	if json.Unmarshal(text, &note) != nil {
		return Note{}, errCorrupt
	}
	if strings.ContainsFunc(note.Endpoint+note.Protocol+note.Signal, unicode.IsControl) {
		return Note{}, errCorrupt // the endpoint will be printed
	}
	note.Reason, note.Host = printable(note.Reason), printable(note.Host)
	return note, nil
}

// printable makes text from a file safe to print on a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}

// maxFile is the longest request that is read. Receivers refuse one of more than 4 MiB.
const maxFile = 8 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) string { return fmt.Sprintf("%08x", crc32.Checksum(b, castagnoli)) }

// readRequest reads the file of a request. It returns errCorrupt if the file is not
// as it was written, or an *Untrusted error.
func readRequest(path string, size int64) (Note, []byte, error) {
	f, info, err := OpenFile(path, os.O_RDONLY)
	if err != nil {
		return Note{}, nil, err
	}
	defer f.Close()
	if info.Size() != size || size > maxFile { // it may be larger than memory
		return Note{}, nil, errCorrupt
	}
	r := bufio.NewReader(f)
	note, err := nextNote(r, size)
	if err != nil {
		return Note{}, nil, err
	}
	var body bytes.Buffer
	body.Grow(int(size) + bytes.MinRead) // ReadFrom asks for so much room to find the end
	if _, err := body.ReadFrom(io.LimitReader(r, size)); err != nil {
		return Note{}, nil, err
	}
	if note.Sum != "" && checksum(body.Bytes()) != note.Sum {
		return Note{}, nil, errCorrupt
	}
	return note, body.Bytes(), nil
}

// readNote reads only the note of a file.
func readNote(path string) (Note, error) {
	f, info, err := OpenFile(path, os.O_RDONLY)
	if err != nil {
		return Note{}, err
	}
	defer f.Close()
	return nextNote(bufio.NewReader(f), info.Size())
}
