package mapping

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"io"
	"iter"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/spantee/spantee/mapping/agent"
)

// A Log is a session log: a file that an agent writes while it works.
type Log struct {
	Path  string
	Agent string    // the value of Options.Agent
	First time.Time // its first timestamp
	Kin   []string  // logs that share one of these names have to be read by one Mapper
	Open  func() (io.ReadCloser, error)

	KinKnown bool // the head was long enough to find all of Kin

	folder string // "" if Kin has the logs that it copies
}

// LogHead is how many bytes of a file FindLog needs.
const LogHead = 64 << 10

// FindLog describes the session log at path, which begins with head. It returns false if
// the file is not a log, belongs with no other file, or does not show yet what it is.
func FindLog(path string, head []byte) (log Log, ok bool) {
	rows := func(yield func(*agent.Marks) bool) {
		var marks agent.Marks
		for row := range bytes.Lines(head) {
			if marks.Read(row); !yield(&marks) {
				return
			}
		}
	}
	for m := range rows {
		a, foreign := m.Agent(nil)
		if a == nil && foreign == nil {
			continue
		}
		if a != nil && a.Kin != nil {
			log.Agent = a.Flag
			log.Kin, log.KinKnown = a.Kin(path, rows)
			if a.CopiesNameless {
				log.folder = filepath.Dir(path)
			}
		}
		break
	}
	for row := range bytes.Lines(head) {
		if at := agent.RowTime(row); at != 0 {
			log.First = time.Unix(0, int64(at))
			break
		}
	}
	log.Path = path
	return log, len(log.Kin) > 0
}

// names returns names that logs have in common which GroupLogs puts into one group.
func (l *Log) names() []string {
	if l.folder == "" {
		return l.Kin
	}
	return append(slices.Clone(l.Kin), "folder "+l.folder)
}

// GroupLogs splits logs into groups that are read by one Mapper each, the oldest log of a
// group first.
func GroupLogs(logs []Log) (groups [][]Log) {
	named := map[string][]int{}
	for i := range logs {
		for _, name := range logs[i].names() {
			named[name] = append(named[name], i)
		}
	}
	grouped := make([]bool, len(logs))
	for i := range logs {
		if grouped[i] {
			continue
		}
		grouped[i] = true
		related := []int{i}
		for n := 0; n < len(related); n++ {
			for _, name := range logs[related[n]].names() {
				for _, k := range named[name] {
					if !grouped[k] {
						grouped[k], related = true, append(related, k)
					}
				}
				delete(named, name)
			}
		}
		slices.SortFunc(related, func(a, b int) int { return cmp.Or(logs[a].First.Compare(logs[b].First), a-b) })
		var group []Log
		for _, k := range related {
			group = append(group, logs[k])
		}
		groups = append(groups, group)
	}
	return groups
}

// ReadLogs maps the logs of a group in the order of their rows' timestamps, and then closes
// the Mapper. A log that cannot be read comes with its error, and ends there.
func (m *Mapper) ReadLogs(logs []Log) iter.Seq2[Output, error] {
	return func(yield func(Output, error) bool) {
		inputs := map[*Rows]*Input{}
		var all []*Rows
		for _, log := range logs {
			all = append(all, log.rows())
		}
		for r := range MergeRows(all) {
			in := inputs[r]
			if in == nil {
				in = m.Input()
				inputs[r] = in
			}
			if r.err == nil {
				in.write(r.Row)
			} else {
				in.close()
				delete(inputs, r)
			}
			if !m.yieldAll(yield) || r.Err() != nil && !yield(Output{}, &LogError{r.path, r.Err()}) {
				return
			}
		}
		m.Close(false)
		m.yieldAll(yield)
	}
}

// A LogError says why a log was not read to its end.
type LogError struct {
	Path string
	Err  error
}

func (e *LogError) Error() string { return e.Path + ": " + e.Err.Error() }

// Unwrap returns why.
func (e *LogError) Unwrap() error { return e.Err }

// Rows reads the rows of a log, or of a part of it.
type Rows struct {
	Row []byte // the current one, or a piece of a long one

	path string
	open func() (io.ReadCloser, error)
	file io.ReadCloser // nil unless it is open
	buf  *bufio.Reader
	at   instant // the latest timestamp of the rows so far, as far as they were compared
	cut  bool    // the log ends within Row
	err  error   // why there is no Row
}

// NewRows returns the rows that in has.
func NewRows(in io.Reader) *Rows {
	return &Rows{open: func() (io.ReadCloser, error) { return io.NopCloser(in), nil }}
}

// rows returns the rows of a log, which is opened when the first of them comes next.
func (l *Log) rows() *Rows {
	r := &Rows{path: l.Path, open: l.Open}
	if !l.First.IsZero() {
		r.at = instant(l.First.UnixNano())
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
func (r *Rows) written() instant {
	r.at = max(r.at, agent.RowTime(r.Row))
	return r.at
}

// MergeRows returns the next of the rows in the order of their timestamps, or else in that
// of all. Each Rows comes once more at its end. Those that are not read to their end are
// closed.
func MergeRows(all []*Rows) iter.Seq[*Rows] {
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
func firstOf(all []*Rows) (next int, until instant) {
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
