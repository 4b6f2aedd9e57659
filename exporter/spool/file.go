package spool

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spantee/spantee/exporter/internal/field"
)

// A name is the name of a file that waits, was rejected or is corrupt. It says what the file
// has, so that a truncated file is recognized.
type name struct {
	at      time.Time
	spans   int
	points  int // data points, if the file is of metrics
	bytes   int64
	tail    string // its owner, and what makes the name unique
	sending bool
}

const (
	waitingExt = ".otlp"
	sendingExt = ".sending"

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
	if n.sending {
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
	n.sending = ext == sendingExt
	parts := strings.Split(strings.TrimSuffix(s, ext), "-")
	if len(parts) != 4 {
		return name{}
	}
	at, _ := strconv.ParseInt(parts[0], 10, 64)
	number, ofPoints := strings.CutSuffix(parts[1], pointsMark)
	items, _ := strconv.ParseInt(number, 10, 32)
	n.at, n.tail = time.Unix(0, at), parts[3]
	n.bytes, _ = strconv.ParseInt(parts[2], 10, 64)
	if ofPoints {
		n.points = int(items)
	} else {
		n.spans = int(items)
	}
	if n.String() != s { // a number is none, or is written in another way
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

	// Of a request of metrics.
	Points int  `json:"points,omitempty"`
	Delta  bool `json:"delta,omitempty"`

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

// maxReason is how much of a reason a note has.
const maxReason = 1 << 10

var errCorrupt = errors.New("not a file of this version, or not as it was written")

// cutNote returns the note at the head of a file, and what follows it.
func cutNote(b []byte) (note Note, rest []byte, err error) {
	for number, v := range field.All(b, nil) {
		if number != fieldNote {
			break
		}
		note, err = decodeNote(v.Bytes)
		return note, b[len(v.Whole):], err
	}
	return Note{}, nil, errCorrupt
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

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) string { return fmt.Sprintf("%08x", crc32.Checksum(b, castagnoli)) }
