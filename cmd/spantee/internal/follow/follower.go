package follow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"time"

	"github.com/spantee/spantee/exporter/spool"
	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/sessionlog"
)

// A Config says what to follow.
type Config struct {
	Folders    []string        // DefaultFolders if there are none
	Since      time.Time       // when runs begin to count in folders that were not followed before; zero for now
	Agent      string          // of the logs that count; "" for all agents
	Mapping    mapping.Options // of every session
	Idle       time.Duration   // end runs whose log has not grown for so long
	StallAfter time.Duration   // 0 if agents may be silent
	NoState    bool            // keep nothing on disk
}

// A Host gets what the logs tell.
type Host struct {
	Following func(folder string, since time.Time)
	Polling   func(why error) // folders are polled, because they cannot be watched

	Started  func(run mapping.Run, leftOut bool)
	Emit     func(mapping.Output) // a span that has ended
	Remember func(mapping.Output) // a span that was emitted before, perhaps by another process
	Flush    func() error         // the error says why a kill would lose the emitted spans

	Grown   func(at time.Time)
	Stalled func(agent string, idle time.Duration)
	Tick    func(now time.Time) // called about once a second while anything happens

	Skipped func(path string, why error) // a file cannot be read
	Damaged func(why error)              // a part of the state was set aside
	Problem func(error)
}

// A Follower maps session logs as they grow.
type Follower struct {
	Config
	host     Host
	state    *State // nil if nothing is kept on disk
	claims   Claims
	tailer   *Tailer
	sessions []*Session
	byFile   map[*File]*Session  // nil for a file that is no log
	byKin    map[string]*Session // by what their files have in common
	failed   map[string]bool     // files that cannot be read

	flushed bool // all spans that were emitted are safe
	settled bool // until a log grows, there is nothing to do
}

// NewFollower reads where the former process left off. The caller must Close the Follower.
func NewFollower(cfg Config, host Host) (*Follower, error) {
	f := &Follower{Config: cfg, host: host, byFile: map[*File]*Session{}, byKin: map[string]*Session{}, failed: map[string]bool{}}
	logs, since, err := f.open()
	if err != nil {
		return nil, err
	}
	folders, err := f.folders(since)
	if err != nil {
		return nil, err
	}
	var known []*File
	for _, l := range logs {
		known = append(known, l.Files...)
	}
	f.flush()
	f.tailer = New(folders, known)
	for _, l := range logs {
		s := f.session(l)
		for _, file := range l.Files {
			f.byFile[file] = s
		}
		for _, name := range l.Kin {
			f.byKin[name] = s
		}
	}
	return f, nil
}

// open opens the state. One that hangs is left out: the logs are then followed from now on.
func (f *Follower) open() (logs []*Log, since map[string]time.Time, err error) {
	none := map[string]time.Time{}
	stateDir, err := spool.StateDir()
	if err != nil {
		return nil, none, nil
	}
	f.claims = ClaimsIn(stateDir)
	if f.NoState {
		return nil, none, nil
	}
	type opened struct {
		state *State
		logs  []*Log
		since map[string]time.Time
	}
	o, err := spool.Await(func() (o opened, err error) {
		o.state, o.logs, o.since, err = OpenState(stateDir, f.host.Damaged)
		return o, err
	})
	if errors.Is(err, spool.ErrFrozen) {
		f.leaveState(err)
		return nil, none, nil
	}
	f.state = o.state
	return o.logs, o.since, err
}

// leaveState goes on without the state.
func (f *Follower) leaveState(why error) {
	f.state, f.claims = nil, Claims{}
	f.host.Problem(fmt.Errorf("following without the state folder, so a restart begins anew: %w", why))
}

// session returns a session that is new or was saved.
func (f *Follower) session(l *Log) *Session {
	s := f.tailer.Session(l, f.claims)
	f.sessions = append(f.sessions, s)
	return s
}

// folders returns the folders to follow, and adds those that are new to since.
func (f *Follower) folders(since map[string]time.Time) (folders []Folder, err error) {
	names := f.Folders
	if len(names) == 0 {
		for _, folder := range DefaultFolders() {
			names = append(names, folder)
		}
	}
	now := time.Now()
	for _, name := range names {
		path, err := filepath.Abs(name)
		if err != nil {
			return nil, err
		}
		if _, known := since[path]; !known {
			since[path] = cmp.Or(f.Since, now)
		}
		f.host.Following(path, since[path])
		folders = append(folders, Folder{Path: path, Since: since[path]})
	}
	if f.state == nil {
		return folders, nil
	}
	_, err = spool.Await(func() (any, error) { return nil, f.state.SaveFolders(since) })
	if errors.Is(err, spool.ErrFrozen) {
		f.leaveState(err)
		err = nil
	}
	return folders, err
}

// Run maps what the logs get until ctx ends.
func (f *Follower) Run(ctx context.Context) {
	f.changed() // finds files that were renamed meanwhile
	if err := f.tailer.Polling(); err != nil {
		f.host.Polling(err)
	}
	for _, s := range f.sessions {
		if s.Open { // when follow ended
			_ = f.wake(s) // or once it grows
		}
	}
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for ctx.Err() == nil {
		f.changed()
		all := f.readAll(ctx, time.Now().Add(time.Second))
		f.tick(time.Now())
		if all && f.settled {
			f.tailer.Wait(ctx)
		}
		select {
		case <-ctx.Done():
		case <-second.C:
		}
	}
	f.saveAll()
}

// readAll reads what the sessions have got. It returns false if that is too much for now.
func (f *Follower) readAll(ctx context.Context, until time.Time) bool {
	for grown := true; grown; {
		grown = false
		for _, s := range f.sessions {
			if s.MayRead() {
				grown = true
				if f.read(s); ctx.Err() != nil || time.Now().After(until) {
					return false
				}
			}
		}
	}
	return true
}

// Close ends the watch, and lets another process follow. Open runs go on when it does. It
// returns the unknown types of the rows that were read.
func (f *Follower) Close() (unknown []mapping.UnknownType) {
	f.tailer.Close()
	if f.state != nil {
		f.state.Close()
	}
	for _, s := range f.sessions {
		unknown = append(unknown, s.UnknownTypes()...)
	}
	return unknown
}

// pauseAfter is how long a log has not grown when a model's answer counts as its last word:
// programs that the agent runs after that may make it go on.
const pauseAfter = 5 * time.Second

// changed finds the sessions that have grown. All new files are found before one of them is
// read, the oldest logs first: others begin with copies of their rows.
func (f *Follower) changed() {
	type newLog struct {
		sessionlog.Log
		file *File
	}
	var added []newLog
	for file, err := range f.tailer.Changed() {
		if err != nil {
			f.fail(file.Path, err)
			continue
		}
		if _, known := f.byFile[file]; known {
			continue
		}
		if log, ok := f.tailer.Describe(file); ok { // otherwise once it has grown
			added = append(added, newLog{log, file})
		}
	}
	slices.SortStableFunc(added, func(a, b newLog) int {
		return cmp.Or(a.First.Compare(b.First), a.file.Modified.Compare(b.file.Modified))
	})
	for _, log := range added {
		f.byFile[log.file] = nil
		if len(log.Kin) > 0 && (f.Agent == "" || f.Agent == log.Agent) {
			f.add(log.Log, log.file)
		}
	}
}

// add adds a new file to the session that it belongs to.
func (f *Follower) add(log sessionlog.Log, file *File) {
	var s *Session
	for _, name := range log.Kin {
		s = cmp.Or(s, f.byKin[name])
	}
	if s == nil {
		s = f.session(&Log{Since: f.tailer.Since(log.Path)})
	}
	for _, name := range log.Kin {
		if f.byKin[name] == nil {
			f.byKin[name] = s
			s.Kin = append(s.Kin, name)
		}
	}
	s.AddFile(file)
	f.byFile[file] = s
}

func (f *Follower) fail(path string, why error) {
	if !f.failed[path] {
		f.failed[path] = true
		f.host.Skipped(path, why)
	}
}

// read maps what a session has got.
func (f *Follower) read(s *Session) {
	f.settled = false
	emitted, before := false, s.Grown
	err := f.wake(s)
	if err == nil {
		err = s.Read(func(outputs iter.Seq[mapping.Output]) { emitted = f.emit(s, outputs) })
	}
	if errors.Is(err, ErrReplaced) {
		if s.IsAwake() {
			f.do(s, Step{End: true})
		}
		s.Restart()
	} else if failed, ok := errors.AsType[*fs.PathError](err); ok {
		f.fail(failed.Path, failed.Err)
	}
	if emitted {
		f.save(s)
	}
	if s.Grown.After(before) {
		f.host.Grown(s.Grown)
		s.Stalled = time.Since(s.Grown) >= f.Idle // a stall of long ago is no news
	}
	f.look(s, time.Now())
}

// wake maps again what was emitted, unless the session is awake.
func (f *Follower) wake(s *Session) error {
	if s.IsAwake() {
		return nil
	}
	opts := f.Mapping
	opts.Source, opts.Since = mapping.Followed, s.Since
	return s.Wake(opts, func(outputs iter.Seq[mapping.Output]) {
		for out := range outputs {
			f.host.Remember(out)
		}
	})
}

// tick is called every second until all is settled.
func (f *Follower) tick(now time.Time) {
	if !f.flushed {
		f.flush()
	}
	for _, s := range f.sessions {
		f.look(s, now)
	}
	f.host.Tick(now)
	f.settled = f.saveAll() && !slices.ContainsFunc(f.sessions, (*Session).IsAwake)
}

// look does what is due because a session has not grown.
func (f *Follower) look(s *Session, now time.Time) {
	if !s.IsAwake() || s.HasGrown() {
		return
	}
	idle := now.Sub(s.Grown)
	if !s.Paused && idle >= min(pauseAfter, f.Idle) {
		s.Paused = true
		f.do(s, Step{Pause: true})
	}
	if f.StallAfter > 0 && !s.Stalled && idle >= f.StallAfter && s.Busy() {
		s.Stalled = true
		for _, agent := range s.Stall(idle) {
			f.host.Stalled(agent, idle)
		}
	}
	if idle >= f.Idle {
		if s.Busy() {
			f.do(s, Step{End: true})
		}
		s.Sleep()
	}
}

// do takes a step other than a piece.
func (f *Follower) do(s *Session, step Step) {
	s.Add(step)
	emitted := f.emit(s, s.Take(step))
	if !s.Busy() {
		s.Prune()
	}
	if emitted {
		f.save(s)
	}
}

// emit emits spans, and reports whether there were any. Then the caller saves how far the
// session was mapped. A kill loses no span, because the spans are flushed first and the
// position is saved second. After a kill between the two, the next process maps the piece
// again, which gives the same spans with the same ids. Open spans are not flushed: they are
// mapped again, too.
func (f *Follower) emit(s *Session, outputs iter.Seq[mapping.Output]) (emitted bool) {
	for out := range outputs {
		if out.Started != nil {
			f.host.Started(*out.Started, out.Started.Start.Before(s.Since))
			continue
		}
		emitted = true
		f.host.Emit(out)
		if out.End.After(s.Latest) {
			s.Latest = out.End
		}
	}
	s.Unsaved = true
	f.flush()
	return emitted
}

// flush makes the emitted spans safe. If that fails, the state must not get ahead of them until
// it has worked.
func (f *Follower) flush() {
	f.flushed = f.host.Flush() == nil
}

// saveAll saves how far all sessions were mapped. It returns false if that has to be tried
// again.
func (f *Follower) saveAll() bool {
	all := true
	for _, s := range f.sessions {
		if !f.save(s) {
			all = false
		}
	}
	return all
}

// save saves how far a session was mapped. It returns false if that failed.
func (f *Follower) save(s *Session) bool {
	if !s.Unsaved || f.state == nil || len(s.Files) == 0 {
		return true
	}
	if !f.flushed {
		return false
	}
	s.Open = s.Busy()
	if err := f.state.Save(s.Log); err != nil {
		f.host.Problem(fmt.Errorf("cannot save the position, so a restart may send spans again: %w", err))
		return false
	}
	s.Unsaved = false
	return true
}

// OpenSpans returns the spans that have not ended, as they would end now.
func (f *Follower) OpenSpans(now time.Time) iter.Seq[mapping.Output] {
	return func(yield func(mapping.Output) bool) {
		for _, s := range f.sessions {
			for out := range s.OpenSpans(now) {
				if !yield(out) {
					return
				}
			}
		}
	}
}
