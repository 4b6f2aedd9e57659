package follow

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/sessionlog"
)

// A Session is mapped by a Mapper of its own. When it grows after a restart, or after it has
// been idle, it is mapped again from its beginning: the ids and counts of a run depend on what
// was before it.
type Session struct {
	*Log
	Grown           time.Time // when a file last grew
	Paused, Stalled bool      // since then
	Unsaved         bool      // by a State

	tailer   *Tailer
	claims   Claims
	mapper   *mapping.Mapper       // nil while the session sleeps
	unknown  []mapping.UnknownType // before it fell asleep
	inputs   []*mapping.Input      // of Files
	runs     map[trace.TraceID]*run
	mayBegin time.Time // when a run may; zero if none waits
}

// A run may be claimed until a span of it was handed over. It has no head start if it
// follows another run closely.
type run struct {
	session    string
	start      time.Time
	claimed    bool
	handedOver bool
}

const (
	// headStart is how long a run waits in which the filter or exec may claim it.
	headStart = 5 * time.Second

	// maxRead is how much of a session is mapped before its spans are handed over.
	maxRead = 1 << 20

	readSize = 128 << 10
)

// Session returns the session of a log. Runs that are claimed are left out.
func (t *Tailer) Session(l *Log, claims Claims) *Session {
	return &Session{Log: l, tailer: t, claims: claims}
}

// AddFile adds a file.
func (s *Session) AddFile(f *File) {
	s.Files = append(s.Files, f)
	if s.mapper != nil {
		s.inputs = append(s.inputs, s.input(f))
	}
}

// input returns an input for a file.
func (s *Session) input(f *File) *mapping.Input {
	in := s.mapper.Input()
	in.Path = f.Path
	return in
}

// IsAwake reports whether the session has a Mapper.
func (s *Session) IsAwake() bool { return s.mapper != nil }

// Busy reports whether a run is open.
func (s *Session) Busy() bool {
	if s.mapper == nil {
		return s.Open
	}
	return s.mapper.Busy()
}

// HasGrown reports whether there is more to read.
func (s *Session) HasGrown() bool {
	for _, f := range s.Files {
		if f.changed {
			return true
		}
	}
	return false
}

// MayRead reports whether what there is to read may be read now.
func (s *Session) MayRead() bool {
	return s.HasGrown() && (s.mayBegin.IsZero() || !time.Now().Before(s.mayBegin))
}

// Wake maps again what was mapped before. Files that do not exist any more are left out; it
// is an error if none exists.
func (s *Session) Wake(opts mapping.Options, again func(iter.Seq[mapping.Output])) (err error) {
	if s.mapper, err = mapping.New(opts); err != nil {
		return err
	}
	s.inputs, s.runs = nil, map[trace.TraceID]*run{}
	files, from := make([]*os.File, len(s.Files)), make([]int64, len(s.Files))
	for i, f := range s.Files {
		s.inputs = append(s.inputs, s.input(f))
		file, failed := s.tailer.Open(f)
		if failed != nil {
			err = failed
			continue
		}
		defer file.Close()
		files[i] = file
		if info, err := file.Stat(); err == nil && info.ModTime().After(s.Grown) {
			s.Grown = info.ModTime()
		}
	}
	if len(files) > 0 && !slices.ContainsFunc(files, func(file *os.File) bool { return file != nil }) {
		s.mapper, s.inputs = nil, nil
		for _, f := range s.Files {
			f.changed = false // until there is one again
		}
		return err
	}
	buf := make([]byte, readSize)
	for _, step := range s.Steps {
		if step.To == 0 {
			again(s.Take(step))
			continue
		}
		if files[step.File] != nil {
			piece := io.NewSectionReader(files[step.File], from[step.File], step.To-from[step.File])
			for n := 1; n > 0; {
				n, _ = piece.Read(buf)
				again(s.unclaimed(s.inputs[step.File].Map(buf[:n])))
			}
		}
		from[step.File] = step.To
	}
	return nil
}

// UnknownTypes returns the unknown types of the rows that were read since the session woke
// up last.
func (s *Session) UnknownTypes() []mapping.UnknownType {
	if s.mapper != nil {
		return s.mapper.UnknownTypes()
	}
	return s.unknown
}

// Sleep frees the memory of the session.
func (s *Session) Sleep() {
	s.Open, s.unknown = s.Busy(), s.UnknownTypes()
	s.mapper, s.inputs, s.runs = nil, nil, nil
}

// Restart begins anew, because a file was replaced. The runs that the new file repeats began
// before the last span that was handed over.
func (s *Session) Restart() {
	s.Sleep()
	for _, f := range s.Files {
		f.Position, f.changed = Position{Path: f.Path}, true
	}
	if s.Latest.After(s.Since) {
		s.Since = s.Latest
	}
	s.Steps = nil
}

// A part is what the rows of a file were read from.
type part struct {
	index int
	file  *File
	in    *os.File
	read  int64
}

// Read maps what the files have got, in the order of the rows' timestamps, except a run that
// is too young. It hands over the spans of at most maxRead bytes.
func (s *Session) Read(handOver func(iter.Seq[mapping.Output])) error {
	var all []*sessionlog.Rows
	parts := map[*sessionlog.Rows]*part{}
	for i, f := range s.Files {
		if !f.changed {
			continue
		}
		in, err := s.tailer.Open(f)
		if errors.Is(err, fs.ErrNotExist) {
			f.changed = false
			continue
		}
		if err != nil {
			f.changed = false
			return &fs.PathError{Op: "open", Path: f.Path, Err: err}
		}
		defer in.Close()
		if info, err := in.Stat(); err == nil {
			f.size, f.Modified = info.Size(), info.ModTime()
		}
		rows := sessionlog.NewRows(io.NewSectionReader(in, f.Offset, f.size-f.Offset))
		all, parts[rows] = append(all, rows), &part{index: i, file: f, in: in}
	}
	var failed error
	handOver(s.unclaimed(func(yield func(mapping.Output) bool) {
		size := 0
		for r := range sessionlog.Merge(all) {
			p := parts[r]
			switch {
			case r.AtEnd():
				p.file.changed = false
				if r.Err() != nil {
					failed = &fs.PathError{Op: "read", Path: p.file.Path, Err: r.Err()}
				}
				continue
			case r.Cut(): // the rest of the row is not written yet
				continue
			case size >= maxRead || !s.mayMap(r.Written()):
				return
			}
			size += len(r.Row)
			p.read += int64(len(r.Row))
			s.Add(Step{File: p.index, To: p.file.Offset + p.read})
			for out := range s.inputs[p.index].Map(r.Row) {
				if !yield(out) {
					return
				}
			}
		}
	}))
	now := time.Now()
	for _, p := range parts {
		if p.read == 0 {
			continue
		}
		p.file.advance(p.in, p.read)
		s.Paused = false
		if p.file.Modified.After(s.Grown) {
			s.Grown = p.file.Modified
		}
		if now.Sub(s.Grown) < time.Minute {
			s.Grown = now // by a clock that stops while the computer sleeps
		}
	}
	if s.Busy() || !s.HasGrown() {
		s.mayBegin = time.Time{} // the next run gets a head start of its own
	}
	return failed
}

// mayMap reports whether the next row may be mapped. If no run is open, the row may begin
// one, which the filter or exec may be about to claim.
func (s *Session) mayMap(written time.Time) bool {
	now := time.Now()
	if s.Busy() || now.Sub(written) >= headStart || !s.mayBegin.IsZero() && !now.Before(s.mayBegin) {
		return true
	}
	if s.mayBegin.IsZero() {
		s.mayBegin = now.Add(headStart) // whatever the timestamp is
	}
	return false
}

// Take does what happened while no file grew.
func (s *Session) Take(step Step) iter.Seq[mapping.Output] {
	switch {
	case step.Stall > 0:
		s.mapper.NoteStall(step.Stall)
	case step.Pause:
		return s.unclaimed(func(yield func(mapping.Output) bool) {
			for _, in := range s.inputs {
				for out := range in.Flush() {
					if !yield(out) {
						return
					}
				}
			}
		})
	case step.End:
		return s.unclaimed(s.mapper.EndRuns())
	}
	return func(func(mapping.Output) bool) {}
}

// Stall notes that nothing was written for a time. It returns the agents that stall.
func (s *Session) Stall(idle time.Duration) (agents []string) {
	if agents = s.mapper.NoteStall(idle); len(agents) > 0 {
		s.Add(Step{Stall: idle})
		s.Unsaved = true
	}
	return agents
}

// unclaimed leaves out the runs that the filter or exec has traced.
func (s *Session) unclaimed(outputs iter.Seq[mapping.Output]) iter.Seq[mapping.Output] {
	return func(yield func(mapping.Output) bool) {
		for out := range outputs {
			id := out.TraceID
			if began := out.Started; began != nil {
				id = began.TraceID
				s.runs[id] = &run{session: began.Session, start: began.Start}
			}
			claimed := s.isClaimed(id)
			if r := s.runs[id]; r != nil && out.Span != nil {
				r.handedOver = true
			}
			if !claimed && !yield(out) {
				return
			}
		}
	}
}

// isClaimed reports whether the filter or exec has traced a run.
func (s *Session) isClaimed(id trace.TraceID) bool {
	r := s.runs[id]
	if r == nil {
		return false
	}
	if !r.claimed && !r.handedOver {
		r.claimed = s.claims.Has(r.session, r.start)
	}
	return r.claimed
}

// OpenSpans returns the spans that have not ended, as they would end now.
func (s *Session) OpenSpans(now time.Time) iter.Seq[mapping.Output] {
	return func(yield func(mapping.Output) bool) {
		if s.mapper == nil || !s.Busy() {
			return
		}
		claimed := make(map[trace.TraceID]bool) // the claims are files
		for out := range s.mapper.Open(now) {
			id := out.TraceID
			if _, known := claimed[id]; !known {
				claimed[id] = s.isClaimed(id)
			}
			if !claimed[id] && !yield(out) {
				return
			}
		}
	}
}

// Describe describes the log in a new file. It returns false if the file does not show yet
// what it is; a file that is no log has no Agent.
func (t *Tailer) Describe(f *File) (log sessionlog.Log, ok bool) {
	in, err := t.Open(f)
	if err != nil {
		return log, false
	}
	defer in.Close()
	return DescribeLog(f.Path, in, maxHead)
}

// DescribeLog describes the log that in reads, from as few of its bytes as that takes, and at
// most limit. It returns false if the file ends before it shows what it is: its last row may
// be half a row.
func DescribeLog(path string, in io.Reader, limit int) (log sessionlog.Log, ok bool) {
	head := make([]byte, minHead)
	for n := 0; ; head = append(head, make([]byte, len(head))...) {
		read, _ := io.ReadFull(in, head[n:])
		n += read
		rows := head[:n]
		if n < limit {
			rows = rows[:bytes.LastIndexByte(rows, '\n')+1]
		}
		log, ok = sessionlog.Find(path, rows)
		switch {
		case ok && log.KinKnown && !log.First.IsZero(), n >= limit:
			return log, true
		case n < len(head):
			known := ok && log.KinKnown
			if !ok { // the only row may lack a newline
				log, _ = sessionlog.Find(path, head[:n])
			}
			return log, known
		}
	}
}

// minHead is how much of a file is read first to find out what it is.
const minHead = 16 << 10

// maxHead is how much of a file is read at most: a first prompt may be long.
const maxHead = 4 << 20
