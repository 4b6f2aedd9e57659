package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/trace"

	"github.com/spantee/spantee/cmd/spantee/internal/follow"
	"github.com/spantee/spantee/cmd/spantee/internal/proc"
	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/exporter/spool"
	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/sessionlog"
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

		ValidArgsFunction: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs),
	}
	flags := cmd.Flags()
	flags.DurationVar(&f.idle, "idle", 10*time.Minute, "end open runs as incomplete if their log did not grow for `TIME`")
	flags.Var(&f.sinceFlag, "since", "in folders never followed, also trace runs that began after `TIME`, such as 2026-11-01, 7d or 12h (default now)")
	o.addFlags(cmd)
	o.addLogFlag(cmd)
	o.addViewFlags(cmd)
	return cmd
}

// defaultFolders returns the folders of this user's agents, by the agents' names.
func defaultFolders() iter.Seq2[string, string] {
	return func(yield func(agent, folder string) bool) {
		for _, a := range agent.Agents {
			for _, folder := range agentFolders(a.Folders) {
				if !yield(a.Name, folder) {
					return
				}
			}
		}
	}
}

// agentFolders returns the paths of an agent's folders for this user.
func agentFolders(f agent.Folders) (folders []string) {
	dir := os.Getenv(f.Variable)
	if dir == "" {
		home, _ := os.UserHomeDir()
		dir = filepath.Join(home, filepath.FromSlash(f.Default))
	}
	for _, name := range f.Names {
		if path := filepath.Join(dir, name); filepath.IsAbs(path) {
			folders = append(folders, path)
		}
	}
	return folders
}

// A follower traces session logs:
//
//	follow.Tailer -> follow.Session -> spans -> tracer.Stream
//	                      └─ steps -> follow.State
type follower struct {
	followOptions
	stream   *tracer.Stream
	sinks    *sinks
	ending   *ending
	say      *reporter
	opts     *options
	state    *follow.State // nil if nothing is kept on disk
	claimed  follow.Claims
	tailer   *follow.Tailer
	sessions []*follow.Session
	byFile   map[*follow.File]*follow.Session // nil for a file that is no log
	byKin    map[string]*follow.Session       // by what their files have in common
	failed   map[string]bool                  // files that cannot be read

	logged  bool // all spans that were handed over are in the log
	settled bool // until a log grows, there is nothing to do
}

func followLogs(o *options, fo followOptions, names []string, stderr *os.File) error {
	if fo.idle <= 0 {
		return invalid("--idle", fo.idle.String(), "more than 0s")
	}
	setup, err := setUp(o, stderr, source{Options: mapping.Options{Replay: time.Unix(0, 0)}, grows: true})
	if err != nil {
		return err
	}
	if !setup.sinks.needed() {
		return errors.New("no spans are sent: " + setup.sinks.say.whyNowhere())
	}
	setup.sinks.cfg.parent = trace.SpanContext{} // the sessions are not what started this process
	f := &follower{
		followOptions: fo, stream: setup.stream, sinks: setup.sinks, ending: setup.ending, say: setup.sinks.say, opts: o,
		byFile: map[*follow.File]*follow.Session{}, byKin: map[string]*follow.Session{}, failed: map[string]bool{},
	}
	signals := proc.CatchSignals()
	if err := f.begin(names); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.run(ctx)
	}()
	<-signals
	disarm := proc.DieOfNext(signals)
	stop()
	f.sinks.endStream()
	<-done
	return f.end(disarm)
}

// begin reads where the former process left off.
func (f *follower) begin(names []string) error {
	var logs []*follow.Log
	since := map[string]time.Time{} // by folder
	if stateDir, err := spool.StateDir(); err == nil {
		f.claimed = follow.ClaimsIn(stateDir)
		if f.sinks.cfg.spool != nil {
			if f.state, logs, since, err = follow.OpenState(stateDir, f.say.now); err != nil {
				return err
			}
		}
	}
	folders, err := f.folders(names, since)
	if err != nil {
		return err
	}
	var known []*follow.File
	for _, l := range logs {
		known = append(known, l.Files...)
	}
	f.flush()
	f.sinks.snapshots.openAt = f.openAt
	f.tailer = follow.New(folders, known)
	for _, l := range logs {
		s := f.session(l)
		for _, file := range l.Files {
			f.byFile[file] = s
		}
		for _, name := range l.Kin {
			f.byKin[name] = s
		}
	}
	return nil
}

// session returns a session that is new or was saved.
func (f *follower) session(l *follow.Log) *follow.Session {
	s := f.tailer.Session(l, f.claimed)
	f.sessions = append(f.sessions, s)
	return s
}

// folders returns the folders to follow, and adds those that are new to since.
func (f *follower) folders(names []string, since map[string]time.Time) (folders []follow.Folder, err error) {
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
		if _, known := since[path]; !known {
			since[path] = cmp.Or(f.Time, now)
		}
		f.say.following(path, since[path])
		folders = append(folders, follow.Folder{Path: path, Since: since[path]})
	}
	if f.state != nil {
		err = f.state.SaveFolders(since)
	}
	return folders, err
}

// run traces what the logs get until ctx ends.
func (f *follower) run(ctx context.Context) {
	f.changed() // finds files that were renamed meanwhile
	if err := f.tailer.Polling(); err != nil {
		f.say.say("polling for changes every 2 s: %v", err)
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
func (f *follower) readAll(ctx context.Context, until time.Time) bool {
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

// end delivers what is left. Open runs go on when follow is started again.
func (f *follower) end(disarm func()) error {
	defer f.sinks.snapshots.feed.Close()
	f.tailer.Close()
	if f.state != nil {
		f.state.Close()
	}
	for _, s := range f.sessions {
		f.say.unknownTypes(s.UnknownTypes())
	}
	f.ending.endBy(f.opts.flushTimeout)
	f.ending.endAll()
	end := f.ending.conclude(proc.Status{})
	f.say.print(f.ending.result, f.sinks.any())
	disarm()
	if f.sinks.page != nil {
		f.sinks.page.close()
	}
	return end.Err()
}

// pauseAfter is how long a log has not grown when a model's answer counts as its last word:
// programs that the agent runs after that may make it go on.
const pauseAfter = 5 * time.Second

// changed finds the sessions that have grown. All new files are found before one of them is
// read, the oldest logs first: others begin with copies of their rows.
func (f *follower) changed() {
	type newLog struct {
		sessionlog.Log
		file *follow.File
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
		if len(log.Kin) > 0 && (f.opts.agent == "" || f.opts.agent == log.Agent) {
			f.add(log.Log, log.file)
		}
	}
}

// add adds a new file to the session that it belongs to.
func (f *follower) add(log sessionlog.Log, file *follow.File) {
	var s *follow.Session
	for _, name := range log.Kin {
		s = cmp.Or(s, f.byKin[name])
	}
	if s == nil {
		s = f.session(&follow.Log{Since: f.tailer.Since(log.Path)})
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

func (f *follower) fail(path string, why error) {
	if !f.failed[path] {
		f.failed[path] = true
		f.say.skipped(path, why)
	}
}

// read traces what a session has got.
func (f *follower) read(s *follow.Session) {
	f.settled = false
	emitted, before := false, s.Grown
	err := f.wake(s)
	if err == nil {
		err = s.Read(func(outputs iter.Seq[mapping.Output]) { emitted = f.handOver(s, outputs) })
	}
	if errors.Is(err, follow.ErrReplaced) {
		if s.IsAwake() {
			f.do(s, follow.Step{End: true})
		}
		s.Restart()
	} else if failed := new(sessionlog.Error); errors.As(err, &failed) {
		f.fail(failed.Path, failed.Err)
	}
	if emitted {
		f.save(s)
	}
	if s.Grown.After(before) {
		f.sinks.metrics.received(s.Grown)
		s.Stalled = time.Since(s.Grown) >= f.idle // a stall of long ago is no news
	}
	f.look(s, time.Now())
}

// wake maps again what was handed over, unless the session is awake.
func (f *follower) wake(s *follow.Session) error {
	if s.IsAwake() {
		return nil
	}
	return s.Wake(f.sinks.mapping(mapping.Options{Replay: s.Since, Since: s.Since}), func(outputs iter.Seq[mapping.Output]) {
		for out := range outputs {
			f.sinks.metrics.remember(out)
		}
	})
}

// tick is called every second until all is settled.
func (f *follower) tick(now time.Time) {
	if !f.logged {
		f.flush()
	}
	for _, s := range f.sessions {
		f.look(s, now)
	}
	f.sinks.snapshots.tick(now, 0)
	f.settled = f.saveAll() && !slices.ContainsFunc(f.sessions, (*follow.Session).IsAwake)
}

// look does what is due because a session has not grown.
func (f *follower) look(s *follow.Session, now time.Time) {
	if !s.IsAwake() || s.HasGrown() {
		return
	}
	idle := now.Sub(s.Grown)
	if !s.Paused && idle >= min(pauseAfter, f.idle) {
		s.Paused = true
		f.do(s, follow.Step{Pause: true})
	}
	if f.opts.stallAfter > 0 && !s.Stalled && idle >= f.opts.stallAfter && s.Busy() {
		s.Stalled = true
		for _, agent := range s.Stall(idle) {
			f.say.stalled(agent, idle)
			f.sinks.metrics.stalled(agent)
		}
	}
	if idle >= f.idle {
		if s.Busy() {
			f.do(s, follow.Step{End: true})
		}
		s.Sleep()
	}
}

// do takes a step other than a piece.
func (f *follower) do(s *follow.Session, step follow.Step) {
	s.Add(step)
	emitted := f.handOver(s, s.Take(step))
	if !s.Busy() {
		s.Prune()
	}
	if emitted {
		f.save(s)
	}
}

// handOver hands over spans, and reports whether there were any. Then the caller saves how
// far the session was mapped. A kill loses no span, because the spans are written first and
// the position second. After a kill between the two, the next process maps the piece again,
// which gives the same spans with the same ids. Open spans are not written: they are mapped
// again, too.
func (f *follower) handOver(s *follow.Session, outputs iter.Seq[mapping.Output]) (emitted bool) {
	for out := range outputs {
		if out.Started != nil {
			if f.ending.result.stats.Runs++; !out.Started.Start.Before(s.Since) {
				f.say.runStarted(*out.Started)
			}
			continue
		}
		emitted = true
		f.stream.Emit(out)
		if out.End.After(s.Latest) {
			s.Latest = out.End
		}
		if out.Ended != nil {
			f.say.runEnded(*out.Ended)
		}
	}
	s.Unsaved = true
	f.flush()
	return emitted
}

// flush ends a piece in the log. If that fails, the state must not get ahead of the log until
// it has worked.
func (f *follower) flush() {
	f.logged = f.stream.Flush() == nil
}

// saveAll saves how far all sessions were mapped. It returns false if that has to be tried
// again.
func (f *follower) saveAll() bool {
	all := true
	for _, s := range f.sessions {
		if !f.save(s) {
			all = false
		}
	}
	return all
}

// save saves how far a session was mapped. It returns false if that failed.
func (f *follower) save(s *follow.Session) bool {
	if !s.Unsaved || f.state == nil || len(s.Files) == 0 {
		return true
	}
	if !f.logged {
		return false
	}
	s.Open = s.Busy()
	if err := f.state.Save(s.Log); err != nil {
		f.say.problem(fmt.Errorf("cannot save the position, so a restart may send spans again: %w", err))
		return false
	}
	s.Unsaved = false
	return true
}

// openAt returns the spans that have not ended.
func (f *follower) openAt(now time.Time) iter.Seq[mapping.Output] {
	return func(yield func(mapping.Output) bool) {
		for _, s := range f.sessions {
			for out := range s.OpenAt(now) {
				if !yield(out) {
					return
				}
			}
		}
	}
}
