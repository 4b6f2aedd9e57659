package mapping

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"io"
	"iter"
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
}

// LogHead is how many bytes of a file FindLog needs.
const LogHead = 64 << 10

// FindLog describes the session log at path, which begins with head. It returns false if
// the file is not a log, or belongs with no other file.
func FindLog(path string, head []byte) (log Log, ok bool) {
	var first, marks agent.Marks
	log.Path = path
	line, _, _ := bytes.Cut(head, newline)
	first.Read(line)
	for line := range bytes.Lines(head) {
		if at := agent.RowTime(line); at != 0 && log.First.IsZero() {
			log.First = time.Unix(0, int64(at))
		}
		if log.Agent == "" {
			marks.Read(line)
			a, _ := marks.Agent()
			if a != nil && a.Kin != nil {
				log.Agent, log.Kin = a.Flag, a.Kin(path, &first)
			}
			if a != nil && len(log.Kin) == 0 {
				return log, false
			}
		}
		if log.Agent != "" && !log.First.IsZero() {
			break
		}
	}
	return log, log.Agent != ""
}

// GroupLogs splits logs into groups that are read by one Mapper each, the oldest log of a
// group first.
func GroupLogs(logs []Log) (groups [][]Log) {
	parents := make([]int, len(logs))
	find := func(i int) int {
		for ; parents[i] != i; i = parents[i] {
			parents[i] = parents[parents[i]]
		}
		return i
	}
	named := map[string]int{}
	for i, log := range logs {
		parents[i] = i
		for _, name := range log.Kin {
			if k, ok := named[name]; ok {
				parents[find(i)] = find(k)
			} else {
				named[name] = i
			}
		}
	}
	byRoot := map[int]int{}
	for i, log := range logs {
		root := find(i)
		at, ok := byRoot[root]
		if !ok {
			at = len(groups)
			byRoot[root], groups = at, append(groups, nil)
		}
		groups[at] = append(groups[at], log)
	}
	for _, group := range groups {
		slices.SortStableFunc(group, func(a, b Log) int { return a.First.Compare(b.First) })
	}
	return groups
}

// ReadLogs maps the logs of a group in the order of their rows' timestamps, and then closes
// the Mapper. A log that cannot be read comes with its error, and ends there.
func (m *Mapper) ReadLogs(logs []Log) iter.Seq2[Output, error] {
	return func(yield func(Output, error) bool) {
		more := true
		take := func(outputs iter.Seq[Output]) {
			for out := range outputs {
				if more = more && yield(out, nil); !more {
					return
				}
			}
		}
		var open []*logReader
		defer func() {
			for _, r := range open {
				_ = r.file.Close()
			}
		}()
		fail := func(path string, err error) { more = more && yield(Output{}, &LogError{path, err}) }
		for more && len(open)+len(logs) > 0 {
			slices.SortFunc(open, func(a, b *logReader) int {
				return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.in.number, b.in.number)) // the older log first
			})
			if len(logs) > 0 && (len(open) == 0 || logs[0].begins() < open[0].at) {
				r, err := m.open(logs[0])
				if err != nil {
					fail(logs[0].Path, err)
				} else {
					open = append(open, r)
				}
				logs = logs[1:]
				continue
			}
			r, until := open[0], latest
			if len(open) > 1 {
				until = open[1].at
				if open[1].in.number < r.in.number {
					until--
				}
			}
			if len(logs) > 0 {
				until = min(until, logs[0].begins())
			}
			for more && r.err == nil && r.at <= until {
				take(r.in.Map(r.row))
				r.next()
			}
			if r.err != nil {
				open = open[1:]
				_ = r.file.Close()
				take(r.in.Close())
				if !errors.Is(r.err, io.EOF) {
					fail(r.path, r.err)
				}
			}
		}
		if more {
			take(m.Close(false))
		}
	}
}

// begins returns the time of the first row that has one, 0 if none has.
func (l *Log) begins() instant {
	if l.First.IsZero() {
		return 0
	}
	return instant(l.First.UnixNano())
}

// A LogError says why a log was not read to its end.
type LogError struct {
	Path string
	Err  error
}

func (e *LogError) Error() string { return e.Path + ": " + e.Err.Error() }

// Unwrap returns why.
func (e *LogError) Unwrap() error { return e.Err }

// A logReader reads the rows of a log.
type logReader struct {
	path string
	file io.ReadCloser
	in   *Input
	buf  *bufio.Reader
	long []byte
	row  []byte  // the next one, or a piece of it
	at   instant // when the row was written, no earlier than the rows before
	err  error   // why there is no next row
}

func (m *Mapper) open(log Log) (*logReader, error) {
	file, err := log.Open()
	if err != nil {
		return nil, err
	}
	r := &logReader{path: log.Path, file: file, in: m.Input(), buf: bufio.NewReaderSize(file, 32<<10)}
	r.next()
	return r, nil
}

// maxRow is how much of a row is read to find its timestamp. The rest of a longer row is
// mapped piece by piece, as if it was written at the same time as the row before.
const maxRow = 1 << 20

// next reads the next row.
func (r *logReader) next() {
	r.long = r.long[:0]
	for {
		row, err := r.buf.ReadSlice('\n')
		r.row = row
		if whole := err == nil; !whole || len(r.long) > 0 {
			r.long = append(r.long, row...)
			r.row = r.long
			if errors.Is(err, bufio.ErrBufferFull) && len(r.long) < maxRow {
				continue
			}
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) && len(r.row) == 0 {
			r.err = err
		}
		r.at = max(r.at, agent.RowTime(r.row))
		return
	}
}
