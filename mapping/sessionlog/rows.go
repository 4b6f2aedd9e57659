package sessionlog

import (
	"bufio"
	"errors"
	"io"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/spantee/spantee/mapping/agent"
)

// Rows reads the rows of a log, or of a part of it.
type Rows struct {
	Path string // of the log
	Row  []byte // the current one, or a piece of a long one

	open func() (io.ReadCloser, error)
	file io.ReadCloser // nil unless it is open
	buf  *bufio.Reader
	at   agent.Instant // the latest timestamp of the rows so far, as far as they were compared
	cut  bool          // the log ends within Row
	err  error         // why there is no Row
}

// NewRows returns the rows that in has.
func NewRows(in io.Reader) *Rows {
	return &Rows{open: func() (io.ReadCloser, error) { return io.NopCloser(in), nil }}
}

// Rows returns the rows of a log, which is opened when the first of them comes next.
func (l *Log) Rows() *Rows {
	r := &Rows{Path: l.Path, open: l.Open}
	if !l.First.IsZero() {
		r.at = agent.Instant(l.First.UnixNano())
	}
	return r
}

// Err returns why the rows cannot be read to their end.
func (r *Rows) Err() error {
	if errors.Is(r.err, io.EOF) {
		return nil
	}
	return r.err
}

// AtEnd reports whether there is no further Row.
func (r *Rows) AtEnd() bool { return r.err != nil }

// Cut reports whether the log ends within Row.
func (r *Rows) Cut() bool { return r.cut }

// Written returns when Row was written, as far as its log says.
func (r *Rows) Written() time.Time { return time.Unix(0, int64(r.written())) }

// written returns when Row was written, no earlier than the rows before.
func (r *Rows) written() agent.Instant {
	r.at = max(r.at, agent.RowTime(r.Row))
	return r.at
}

// Merge returns the next of the rows in the order of their timestamps, or else in that
// of all. Each Rows comes once more at its end. Those that are not read to their end are
// closed.
func Merge(all []*Rows) iter.Seq[*Rows] {
	return func(yield func(*Rows) bool) {
		all := slices.Clone(all)
		defer func() {
			for _, r := range all {
				r.close()
			}
		}()
		for len(all) > 0 {
			next, until := firstOf(all)
			r := all[next]
			if r.file == nil {
				r.start()
				continue
			}
			for r.err == nil && (len(all) == 1 || r.written() <= until) {
				if !yield(r) {
					return
				}
				r.next()
			}
			if r.err != nil {
				all = slices.Delete(all, next, next+1)
				r.close()
				if !yield(r) {
					return
				}
			}
		}
	}
}

// firstOf returns which of the rows come next, and until when.
func firstOf(all []*Rows) (next int, until agent.Instant) {
	until = math.MaxInt64
	for i, r := range all {
		switch {
		case i == 0:
		case r.at < all[next].at:
			next, until = i, all[next].at-1 // that one is the older log
		default:
			until = min(until, r.at)
		}
	}
	return next, until
}

// maxRow is how long a row may be to be read as a whole. A longer one comes in pieces: if the
// first of them lacks the timestamp, as if it was written at the same time as the row before.
const maxRow = 256 << 10

// start opens the log.
func (r *Rows) start() {
	if r.file, r.err = r.open(); r.err != nil {
		r.file = io.NopCloser(nil)
		return
	}
	r.buf = bufio.NewReaderSize(r.file, maxRow)
	r.next()
	r.written()
}

func (r *Rows) close() {
	if r.file != nil {
		_ = r.file.Close()
	}
}

// next reads the next row.
func (r *Rows) next() {
	row, err := r.buf.ReadSlice('\n')
	r.Row = row
	if r.cut = err != nil && !errors.Is(err, bufio.ErrBufferFull); r.cut && len(row) == 0 {
		r.err = err
	}
}
