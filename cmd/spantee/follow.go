package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/trace"

	"github.com/spantee/spantee/cmd/spantee/internal/follow"
	"github.com/spantee/spantee/cmd/spantee/internal/proc"
	"github.com/spantee/spantee/exporter/spool"
	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/agent"
)

const followUsage = `follow traces sessions that nobody pipes into spantee, such as those in a terminal or an
editor. It reads the session logs that agents write, as they grow, until Ctrl-C:

  spantee follow

Without a FOLDER, it follows the folders of this user's agents, which spantee doctor
lists. The first time, it traces the runs that begin from now on (see --since); later, it
resumes where it left off. Runs that the filter or exec has traced are skipped. The logs
are only read, and symbolic links in a FOLDER are not followed.`

// followOptions are the flags of follow.
type followOptions struct {
	idle      time.Duration
	sinceFlag // for folders that were not followed before
}

func followCommand() *cobra.Command {
	var o options
	var f followOptions
	cmd := &cobra.Command{
		Use:   "follow [FOLDER...]",
		Short: "Trace the session logs of agents as they grow",
		Long:  followUsage,
		RunE:  func(_ *cobra.Command, folders []string) error { return followLogs(&o, f, folders, os.Stderr) },
	}
	flags := cmd.Flags()
	flags.DurationVar(&f.idle, "idle", 10*time.Minute, "end open runs as incomplete if their log has not grown for `TIME`; the session goes on if it grows again")
	flags.Var(&f.sinceFlag, "since", "in folders that were never followed, also trace runs that began after TIME: a date, or a duration such as 7d or 12h before now (default now)")
	group(flags, groupStream)
	o.addFlags(flags)
	o.addViewFlags(flags)
	return cmd
}

// defaultFolders returns the folders of this user's agents, by the agents' names.
func defaultFolders() iter.Seq2[string, string] {
	return func(yield func(agent, folder string) bool) {
		for _, a := range agent.Agents {
			for folder := range agentFolders(a.Folders) {
				if !yield(a.Name, folder) {
					return
				}
			}
		}
	}
}

// agentFolders returns the paths of an agent's folders for this user.
func agentFolders(f agent.Folders) iter.Seq[string] {
	return func(yield func(string) bool) {
		dir := os.Getenv(f.Variable)
		if dir == "" {
			home, _ := os.UserHomeDir()
			dir = filepath.Join(home, filepath.FromSlash(f.Default))
		}
		for _, name := range f.Names {
			if path := filepath.Join(dir, name); filepath.IsAbs(path) && !yield(path) {
				return
			}
		}
	}
}

// A follower traces session logs:
//
//	follow.Tailer -> Piece -> followed.mapper -> spans -> tracer.Stream
//	                              └─ steps -> follow.State
type follower struct {
	*tracing
	followOptions
	state   *follow.State // nil if nothing is kept on disk
	claimed follow.Claims
	since   map[string]time.Time // by folder
	tailer  *follow.Tailer
	byFile  map[string]*followed // by the paths of their files
	byKin   map[string]*followed // by what their files have in common
	awake   []*followed
	failed  map[string]bool // files that cannot be read

	journaled bool // all spans that were handed over are in the journal
}

func followLogs(o *options, fo followOptions, names []string, stderr *os.File) error {
	if fo.idle <= 0 {
		return invalid("--idle", fo.idle.String(), "more than 0s")
	}
	t, err := startTracing(o, stderr, &recording{written: time.Unix(0, 0), grows: true}, nil)
	if err != nil {
		return err
	}
	if !t.isNeeded() {
		return errors.New("no spans are sent: " + t.say.whyNowhere())
	}
	t.cfg.parent = trace.SpanContext{} // the sessions are not what started this process
	f := &follower{
		tracing: t, followOptions: fo, since: map[string]time.Time{},
		byFile: map[string]*followed{}, byKin: map[string]*followed{}, failed: map[string]bool{},
	}
	if err := f.begin(names); err != nil {
		return err
	}
	signals := proc.CatchSignals() // until here, nothing needs to end well
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.run(ctx)
	}()
	<-signals
	disarm := proc.DieOfNext(signals)
	stop()
	t.setWait(false) // Begin must not wait any more
	<-done
	return f.end(disarm)
}

// begin reads where the former process left off.
func (f *follower) begin(names []string) error {
	var logs []*follow.Log
	if stateDir, err := spool.StateDir(); err == nil {
		f.claimed = follow.ClaimsIn(stateDir)
		if f.cfg.spool != nil {
			if f.state, err = follow.OpenState(stateDir); err == nil {
				logs, err = f.state.Logs()
			}
			if err == nil {
				f.since, err = f.state.Folders()
			}
			if err != nil {
				return err
			}
		}
	}
	folders, err := f.folders(names)
	if err != nil {
		return err
	}
	var known []follow.Position
	for _, l := range logs {
		s := &followed{Log: l}
		for _, file := range l.Files {
			f.byFile[file.Path] = s
		}
		for _, name := range l.Kin {
			f.byKin[name] = s
		}
		known = append(known, l.Files...)
	}
	f.checkpoint()
	f.open.source = f
	f.setWait(true) // no agent waits for this
	f.tailer = follow.New(folders, known)
	if err := f.tailer.Polling(); err != nil {
		f.say.say("polling for changes every 2 s: %v", err)
	}
	for _, l := range logs {
		if l.Open {
			_ = f.wake(f.byFile[l.Files[0].Path], "") // or once it grows
		}
	}
	return nil
}

// folders returns the folders to follow, and remembers those that are new.
func (f *follower) folders(names []string) (folders []follow.Folder, err error) {
	if len(names) == 0 {
		for _, folder := range defaultFolders() {
			names = append(names, folder)
		}
	}
	now := time.Now()
	for _, name := range names {
		path, err := filepath.Abs(name)
		if err != nil {
			return nil, err
		}
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return nil, invalid("FOLDER", name, "a folder; for a file use spantee replay")
		}
		since, known := f.since[path]
		if !known {
			since = f.Time
			if since.IsZero() {
				since = now
			}
			f.since[path] = since
		}
		f.say.following(path, since)
		folders = append(folders, follow.Folder{Path: path, Since: since})
	}
	if f.state != nil {
		err = f.state.SaveFolders(f.since)
	}
	return folders, err
}

// run traces what the logs get until ctx ends.
func (f *follower) run(ctx context.Context) {
	for due := time.Now(); ctx.Err() == nil; {
		if now := time.Now(); !due.After(now) {
			f.tick(now)
			due = now.Add(time.Second)
		}
		wait, cancel := ctx, context.CancelFunc(func() {})
		if len(f.awake) > 0 {
			wait, cancel = context.WithDeadline(ctx, due)
		}
		if p, err := f.tailer.Next(wait); err == nil {
			f.take(p)
		}
		cancel()
	}
	for _, s := range f.awake {
		f.save(s)
	}
}

// end delivers what is left. Open runs go on when follow is started again.
func (f *follower) end(disarm func()) error {
	defer f.open.feed.Close()
	f.tailer.Close()
	if f.state != nil {
		f.state.Close()
	}
	f.endBy(f.flushTimeout)
	f.endAll()
	end := f.conclude(proc.Status{})
	f.say.print(f.result, f.hasDestination())
	disarm()
	if f.page != nil {
		f.page.close()
	}
	return end.Err()
}

const (
	// headStart is how long a run waits in which the filter or exec may claim it.
	headStart = 5 * time.Second

	// pauseAfter is how long a log has not grown when a model's answer counts as its last
	// word: programs that the agent runs after that may make it go on.
	pauseAfter = 5 * time.Second
)

const (
	// maxPieces and maxPieceBytes bound how many files of a session are read at once.
	maxPieces     = 100
	maxPieceBytes = 1 << 20

	// forgetAfter is how long a file that belongs to a session has not grown when it is left
	// out until it grows: Claude Code's sessions of a project belong together, and their
	// logs only get more.
	forgetAfter = 7 * 24 * time.Hour
)

// A followed session is mapped by a Mapper of its own. When the session grows after a
// restart, or after it has been idle, it is mapped again from its beginning: the ids and
// counts of a run depend on what was before it.
type followed struct {
	*follow.Log
	mapper *mapping.Mapper // nil while the session sleeps
	inputs []*mapping.Input
	piped  map[trace.TraceID]bool // the runs that the filter or exec has traced

	grown           time.Time
	paused, stalled bool      // since then
	mayBegin        time.Time // when its next run may; zero if it has not grown
	unsaved         bool
}

// take traces a piece, together with what other files of its session have got.
func (f *follower) take(p follow.Piece) {
	if p.Err != nil {
		if !f.failed[p.Path] {
			f.failed[p.Path] = true
			f.say.skipped(p.Path, p.Err)
		}
		return
	}
	s := f.find(p)
	if s == nil { // the other new files are found before this one is mapped
		f.add(p)
		f.tailer.PutBack(p, 0, time.Now())
		return
	}
	if p.Replaced {
		f.restart(s, p.Path)
	}
	if i := s.file(p.Path); s.mapper == nil || s.inputs[i] == nil {
		if f.wake(s, p.Path) != nil {
			return
		}
	}
	pieces, size := []*unmapped{newUnmapped(p)}, len(p.Bytes)
	for len(pieces) < maxPieces && size < maxPieceBytes {
		also, ok := f.tailer.Also(func(path string) bool {
			return f.byFile[path] == s && !slices.ContainsFunc(pieces, func(u *unmapped) bool { return u.Path == path })
		})
		if !ok {
			break
		}
		if also.Err != nil {
			f.take(also)
			continue
		}
		if i := s.file(also.Path); also.Replaced || s.inputs[i] == nil { // not before this piece
			f.tailer.PutBack(also, 0, time.Now())
			break
		}
		pieces, size = append(pieces, newUnmapped(also)), size+len(also.Bytes)
	}
	emitted := f.handOver(s, s.mapRows(pieces))
	now := time.Now()
	for _, u := range pieces {
		position := u.Position
		if len(u.rest) > 0 {
			position = f.tailer.PutBack(u.Piece, len(u.Bytes)-len(u.rest), s.mayBegin)
		}
		if position.Offset == u.From {
			continue
		}
		s.Files[s.file(u.Path)] = position
		age := now.Sub(u.Modified)
		if s.grown, s.paused, s.stalled = u.Modified, false, age >= f.idle; age < time.Minute { // a stall of long ago is no news
			s.grown = now // by a clock that stops while the computer sleeps
		}
	}
	if emitted {
		f.save(s)
	}
	if s.busy() || !slices.ContainsFunc(pieces, func(u *unmapped) bool { return len(u.rest) > 0 }) {
		s.mayBegin = time.Time{} // the next run gets a head start of its own
	}
	f.metrics.received(s.grown)
	if !p.More {
		f.look(s, now)
	}
	f.open.showChanged()
}

// unmapped is a piece whose rows are not all mapped yet.
type unmapped struct {
	follow.Piece
	rest  []byte
	stamp agent.Instant // of the next row, zero if it has none
}

func newUnmapped(p follow.Piece) *unmapped {
	p.Bytes = slices.Clone(p.Bytes) // the Tailer's are valid until its next piece
	u := &unmapped{Piece: p, rest: p.Bytes}
	u.stamp = agent.RowTime(u.row())
	return u
}

// skip goes on behind the next row.
func (u *unmapped) skip(row []byte) {
	u.rest = u.rest[len(row):]
	u.stamp = agent.RowTime(u.row())
}

// row returns the next row.
func (u *unmapped) row() []byte {
	head, _, _ := bytes.Cut(u.rest, []byte{'\n'})
	return u.rest[:min(len(head)+1, len(u.rest))]
}

// mapRows maps rows in the order of their timestamps until a file may have an earlier one
// that was not read yet, or until a row may begin a run that is too young.
func (s *followed) mapRows(pieces []*unmapped) iter.Seq[mapping.Output] {
	return func(yield func(mapping.Output) bool) {
		for {
			var next *unmapped
			for _, u := range pieces {
				switch {
				case len(u.rest) == 0 && u.More:
					return
				case len(u.rest) > 0 && (next == nil || u.stamp < next.stamp):
					next = u
				}
			}
			if next == nil || !s.mayMap(next) {
				return
			}
			row := next.row()
			next.skip(row)
			i := s.file(next.Path)
			s.Add(follow.Step{File: i, To: next.From + int64(len(next.Bytes)-len(next.rest))})
			for out := range s.inputs[i].Map(row) {
				if !yield(out) {
					return
				}
			}
		}
	}
}

// mayMap reports whether the next row may be mapped. If no run is open, the row may begin
// one, which the filter or exec may be about to claim.
func (s *followed) mayMap(u *unmapped) bool {
	now := time.Now()
	if s.busy() || now.Sub(time.Unix(0, int64(u.stamp))) >= headStart || !s.mayBegin.IsZero() && !now.Before(s.mayBegin) {
		return true
	}
	if s.mayBegin.IsZero() {
		s.mayBegin = now.Add(headStart) // whatever the timestamp is
	}
	return false
}

// find returns the session that a piece belongs to, nil if its file is new.
func (f *follower) find(p follow.Piece) *followed {
	if s := f.byFile[p.Renamed]; s != nil && p.Renamed != "" {
		delete(f.byFile, p.Renamed)
		s.Files[s.file(p.Renamed)].Path = p.Path
		f.byFile[p.Path] = s
		s.unsaved = true
	}
	return f.byFile[p.Path]
}

// add adds a new file to the session that it belongs to.
func (f *follower) add(p follow.Piece) {
	var s *followed
	log, _ := mapping.FindLog(p.Path, p.Bytes)
	for _, name := range log.Kin {
		s = cmp.Or(s, f.byKin[name])
	}
	if s == nil {
		s = &followed{Log: &follow.Log{Since: f.sinceOf(p.Path)}}
	}
	for _, name := range log.Kin {
		if f.byKin[name] == nil {
			f.byKin[name] = s
			s.Kin = append(s.Kin, name)
		}
	}
	f.byFile[p.Path] = s
}

// sinceOf returns since when a file's folder is followed, the innermost if there are several.
func (f *follower) sinceOf(path string) (since time.Time) {
	innermost := 0
	for folder, at := range f.since {
		if strings.HasPrefix(path, folder+string(filepath.Separator)) && len(folder) > innermost {
			innermost, since = len(folder), at
		}
	}
	return since
}

// file returns the index of a file, which it adds if it is new.
func (s *followed) file(path string) int {
	i := slices.IndexFunc(s.Files, func(p follow.Position) bool { return p.Path == path })
	if i < 0 {
		i = len(s.Files)
		s.Files = append(s.Files, follow.Position{Path: path})
		if s.mapper != nil {
			s.inputs = append(s.inputs, s.mapper.Input())
		}
	}
	return i
}

// busy reports whether a run is open.
func (s *followed) busy() bool {
	if s.mapper == nil {
		return s.Open
	}
	return s.mapper.Busy()
}

// wake maps again what was handed over, because a file has grown. Files that are not there
// any more, or that have not grown for long, are left out.
func (f *follower) wake(s *followed, grown string) (err error) {
	if s.mapper != nil {
		f.sleep(s)
	}
	if s.mapper, err = mapping.New(f.mapping(&recording{written: s.Since, since: s.Since}, nil)); err != nil {
		return err
	}
	s.inputs, s.piped = nil, map[trace.TraceID]bool{}
	f.awake = append(f.awake, s)
	from := make([]int64, len(s.Files))
	files := make([]*os.File, len(s.Files))
	for i, p := range s.Files {
		s.inputs = append(s.inputs, nil)
		if p.Path == grown {
			s.inputs[i] = s.mapper.Input()
		}
		file, err := f.tailer.Open(p)
		if err != nil {
			continue
		}
		defer file.Close()
		info, err := file.Stat()
		if err != nil || p.Path != grown && time.Since(info.ModTime()) > forgetAfter {
			continue
		}
		files[i], s.grown = file, latest(s.grown, info.ModTime())
		if s.inputs[i] == nil {
			s.inputs[i] = s.mapper.Input()
		}
	}
	again := func(mapping.Output) {}
	buf := make([]byte, readSize)
	for _, step := range s.Steps {
		if step.To == 0 {
			f.filter(s, s.repeat(step), again)
			continue
		}
		if files[step.File] != nil {
			piece := io.NewSectionReader(files[step.File], from[step.File], step.To-from[step.File])
			for n := 1; n > 0; {
				n, _ = piece.Read(buf)
				f.filter(s, s.inputs[step.File].Map(buf[:n]), again)
			}
		}
		from[step.File] = step.To
	}
	return nil
}

// repeat does what happened while no file grew.
func (s *followed) repeat(step follow.Step) iter.Seq[mapping.Output] {
	switch {
	case step.Stall > 0:
		s.mapper.NoteStall(step.Stall)
	case step.Pause:
		return func(yield func(mapping.Output) bool) {
			for _, in := range s.inputs {
				if in == nil {
					continue
				}
				for out := range in.Flush() {
					if !yield(out) {
						return
					}
				}
			}
		}
	case step.End:
		return s.mapper.EndRuns()
	}
	return func(func(mapping.Output) bool) {}
}

// restart begins a session anew whose file was replaced. The runs that the new file repeats
// began before the last span that was sent.
func (f *follower) restart(s *followed, replaced string) {
	if s.mapper != nil {
		f.do(s, follow.Step{End: true})
		f.sleep(s)
	}
	for _, file := range s.Files {
		if file.Path != replaced {
			f.tailer.Rewind(file.Path)
		}
	}
	s.Since = latest(s.Since, s.Latest)
	s.Files, s.Steps = nil, nil
}

// sleep frees the memory of a session.
func (f *follower) sleep(s *followed) {
	f.save(s)
	f.awake = slices.DeleteFunc(f.awake, func(a *followed) bool { return a == s })
	s.mapper, s.inputs, s.piped = nil, nil, nil
}

// tick is called every second while a session is awake.
func (f *follower) tick(now time.Time) {
	if !f.journaled {
		f.checkpoint()
	}
	for _, s := range slices.Clone(f.awake) {
		f.look(s, now)
	}
	if f.to.Open != nil {
		open := map[string][][]byte{}
		for out := range f.OpenAt(now) {
			open[out.Agent] = append(open[out.Agent], slices.Clone(out.Span))
		}
		f.to.Open(open)
	}
	f.open.show()
	f.metrics.save()
}

// look does what is due because a session has not grown.
func (f *follower) look(s *followed, now time.Time) {
	if f.tailer.Pending(func(path string) bool { return f.byFile[path] == s }) {
		return // it has grown
	}
	idle := now.Sub(s.grown)
	if !s.paused && idle >= min(pauseAfter, f.idle) {
		s.paused = true
		f.do(s, follow.Step{Pause: true})
	}
	if f.stallAfter > 0 && !s.stalled && idle >= f.stallAfter && s.busy() {
		s.stalled = true
		agents := s.mapper.NoteStall(idle)
		if len(agents) > 0 {
			s.Add(follow.Step{Stall: idle})
			s.unsaved = true
		}
		for _, agent := range agents {
			f.say.stalled(agent, idle)
			f.metrics.stalled(agent)
		}
	}
	if idle >= f.idle {
		if s.busy() {
			f.do(s, follow.Step{End: true})
		}
		f.sleep(s)
		return
	}
	f.save(s)
}

// do takes a step other than a piece.
func (f *follower) do(s *followed, step follow.Step) {
	s.Add(step)
	if f.handOver(s, s.repeat(step)) {
		f.save(s)
	}
}

// handOver hands over spans, and reports whether there were any. Then the caller saves how
// far the session was mapped. The order makes sure that no kill loses a span: the journal
// has the spans before the state says so. A kill between the two, within the time of one
// small write, makes the next process map the piece again, which gives the same spans with
// the same ids. The journal gets no open spans, because they are mapped again, too.
func (f *follower) handOver(s *followed, outputs iter.Seq[mapping.Output]) (emitted bool) {
	if e := f.to.Exporter; e != nil {
		e.Begin()
	}
	f.filter(s, outputs, func(out mapping.Output) {
		if out.Started != nil {
			if f.result.stats.Runs++; !out.Started.Start.Before(s.Since) {
				f.say.runStarted(*out.Started)
			}
			return
		}
		emitted = true
		f.stream.Emit(out)
		s.Latest = latest(s.Latest, out.End)
		if out.Ended != nil {
			f.say.runEnded(*out.Ended)
		}
	})
	s.unsaved = true
	f.checkpoint()
	return emitted
}

// checkpoint ends a piece in the journal. If that fails, the state must not get ahead of the
// journal until it has worked.
func (f *follower) checkpoint() {
	f.journaled = f.to.Exporter == nil || f.to.Exporter.Checkpoint(nil) == nil
}

// filter hands on the spans of a session, except those of runs that the filter or exec has
// traced.
func (f *follower) filter(s *followed, outputs iter.Seq[mapping.Output], emit func(mapping.Output)) {
	for out := range outputs {
		id := out.TraceID
		if run := out.Started; run != nil {
			id = run.TraceID
			s.piped[id] = f.claimed.Has(run.Session, run.Start)
		}
		if !s.piped[id] {
			emit(out)
		}
	}
}

func (f *follower) save(s *followed) {
	if !s.unsaved || !f.journaled || f.state == nil || len(s.Files) == 0 {
		return
	}
	s.Open = s.busy()
	if err := f.state.Save(s.Log); err != nil {
		f.say.problem(fmt.Errorf("cannot save the position, so a restart may send spans again: %w", err))
		return
	}
	s.unsaved = false
}

// OpenAt returns the spans that have not ended.
func (f *follower) OpenAt(now time.Time) iter.Seq[mapping.Output] {
	return func(yield func(mapping.Output) bool) {
		for _, s := range f.awake {
			if !s.busy() {
				continue
			}
			for out := range s.mapper.OpenAt(now) {
				if !s.piped[out.TraceID] && !yield(out) {
					return
				}
			}
		}
	}
}

// Stats returns the generation of all runs.
func (f *follower) Stats() (stats mapping.Stats) {
	for _, s := range f.awake {
		stats.Generation += s.mapper.Stats().Generation
	}
	return stats
}
