package spool

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// A name is that of a request's file. All that a listing or the cap needs
// stands in it, so that neither opens a file, and a file that was cut short
// is known by its size.
type name struct {
	at      time.Time
	spans   int
	bytes   int64
	tail    string // tells apart those of one instant
	sending bool
}

const (
	waitingExt = ".otlp"
	sendingExt = ".sending"
)

func newName(spans, bytes int) name {
	return name{at: time.Now(), spans: spans, bytes: int64(bytes), tail: random()}
}

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
	return n, errors.Join(err1, err2, err3) == nil && spans >= 0 && size >= 0
}

func isTemp(name string) bool { return strings.HasPrefix(name, tempPrefix) }

// A Note is what a file says besides its spans.
type Note struct {
	Destination
	Reason string `json:"reason,omitempty"`

	// Of an open file: who writes it.
	Host string `json:"host,omitempty"`
	PID  int    `json:"pid,omitempty"`
}

// fieldNote is where a note stands: in a field that OTLP does not have.
const fieldNote = 1000

func encodeNote(note Note) []byte {
	text, err := json.Marshal(note)
	if err != nil {
		panic(err) // of strings and a number
	}
	b := protowire.AppendTag(nil, fieldNote, protowire.BytesType)
	return protowire.AppendBytes(b, text)
}

var errCorrupt = errors.New("not a request")

// decodeNote takes the note off the head of a file.
func decodeNote(b []byte) (note Note, rest []byte, err error) {
	num, typ, tag := protowire.ConsumeTag(b)
	if tag < 0 || num != fieldNote || typ != protowire.BytesType {
		return Note{}, nil, errCorrupt
	}
	text, n := protowire.ConsumeBytes(b[tag:])
	if n < 0 || json.Unmarshal(text, &note) != nil {
		return Note{}, nil, errCorrupt
	}
	return note, b[tag+n:], nil
}

func (f file) read() (Note, *coltracepb.ExportTraceServiceRequest, error) {
	b, err := os.ReadFile(f.path())
	if err != nil {
		return Note{}, nil, err
	}
	note, rest, err := decodeNote(b)
	if err != nil || int64(len(b)) != f.name.bytes {
		return Note{}, nil, errCorrupt
	}
	req := new(coltracepb.ExportTraceServiceRequest)
	if proto.Unmarshal(rest, req) != nil {
		return Note{}, nil, errCorrupt
	}
	return note, req, nil
}

func (f file) readNote() (Note, error) { return readNote(f.path()) }

// readNote reads no more of a file than its head.
func readNote(path string) (Note, error) {
	f, err := os.Open(path)
	if err != nil {
		return Note{}, err
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, 4<<10)) // a reason is a line
	if err != nil {
		return Note{}, err
	}
	note, _, err := decodeNote(head)
	return note, err
}
