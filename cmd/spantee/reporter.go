package main

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spantee/spantee/cmd/spantee/internal/proc"
	"github.com/spantee/spantee/cmd/spantee/internal/tee"
	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/cilog"
	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/exporter/spool"
	"github.com/spantee/spantee/exporter/steplog"
	"github.com/spantee/spantee/exporter/tree"
	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/semconv"
)

// A reporter says everything that spantee says on stderr: problems, and on a terminal or with
// --summary what was traced.
type reporter struct {
	*options
	cfg      *config
	stderr   *os.File
	w        *proc.Stderr // on stderr
	terminal bool
	verbose  bool   // what was traced is said, too
	child    bool   // spantee started the agent
	again    string // the command that sends a recording again; "" for a live stream

	mu       sync.Mutex // guards the following fields, which an abandoned mapper may still use
	problems []string
	begun    int           // how many runs were printed when they began
	ended    int           // how many runs have
	waiting  []mapping.Run // that have ended, to be printed at the end
	skips    int           // files that are not traced
	unknown  []mapping.UnknownType
	doubts   []runs.Doubt // of all runs
	doubtful int          // runs that have any
	unusual  string       // how a run exceeds the usual
}

// A result is what became of a stream.
type result struct {
	stats       mapping.Stats
	failure     error // why the mapper did not see the whole stream
	hangs       bool  // the mapper must not be used any more
	lost        tee.Lost
	unprotected error // why a kill would have lost spans
	delivery    exporter.Report

	metrics        error // why the last metrics were not delivered
	metricsSpooled bool  // they will be sent later
}

// maxRuns is how many runs are listed on a terminal. --summary lists all.
const maxRuns = 20

func newReporter(o *options, stderr *os.File) *reporter {
	terminal := isTerminal(stderr)
	return &reporter{
		options: o, stderr: stderr, w: proc.NewStderr(stderr, o.patience()),
		terminal: terminal, verbose: terminal || o.summary,
	}
}

// newPlainReporter returns the reporter of a command that traces no stream.
func newPlainReporter(stderr *os.File) *reporter {
	return newReporter(&options{flushTimeout: defaultFlushTimeout}, stderr)
}

// patience is how long the end waits for a stderr that accepts nothing.
func (o *options) patience() time.Duration { return max(o.flushTimeout, proc.MinPatience) }

// say says at once what --quiet silences.
func (r *reporter) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.quiet {
		r.line(format, args...)
	}
}

// note says at once what is said only on a terminal or with --summary.
func (r *reporter) note(format string, args ...any) {
	if r.verbose {
		r.say(format, args...)
	}
}

// failed says why the command fails, even with --quiet.
func (r *reporter) failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.line("%s", withHint(err))
}

// line prints a line. It is called with mu held.
func (r *reporter) line(format string, args ...any) {
	fmt.Fprint(r.w, cilog.Break(fmt.Sprintf("spantee: "+format+"\n", args...)))
}

// stalled reports at once that an agent is silent, because somebody may be waiting
// for it.
func (r *reporter) stalled(agent string, idle time.Duration) {
	r.say("%s has printed nothing for %v, and no tool is running", agent, idle.Round(time.Second))
}

// minStatusWidth is the least width, in columns, in which a status is readable.
const minStatusWidth = 40

// mayShowStatus reports whether there is a status line. Another program that prints to the
// terminal would garble it, so stdout must not be the terminal, nor a pipe, because whatever
// reads the pipe may print there. A recording has no status.
func (r *reporter) mayShowStatus(stdout *os.File) bool {
	if r.again != "" || !r.terminal || r.quiet || r.cfg.display.dumb || isTerminal(stdout) {
		return false
	}
	info, err := stdout.Stat()
	return err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0
}

// showStatus says on the last line of the terminal what the agent does. Whatever else is said
// takes its place.
func (r *reporter) showStatus(open []*runs.Span, idle time.Duration) {
	if !proc.InForeground(r.stderr) { // the last line is the shell's
		r.w.ForgetStatus()
		return
	}
	style := r.cfg.display.treeStyle(r.stderr)
	if style.Width < minStatusWidth {
		r.w.Status("")
		return
	}
	r.w.Status(style.Status(open, idle))
}

// newLog returns what prints steps. The stream never waits for the lines of a live one.
func (r *reporter) newLog(source mapping.Source, compare func(trace string) string) *steplog.Log {
	cfg := steplog.Config{Style: r.cfg.display.treeStyle(r.stderr), Fold: r.cfg.display.fold, Out: r.w, Compare: compare}
	cfg.Recorded, cfg.Logged = source == mapping.Recording, source == mapping.Followed
	if !cfg.Recorded {
		cfg.Offer = r.w.Offer
	}
	return steplog.New(cfg)
}

// skipped reports why a file is not traced.
func (r *reporter) skipped(name string, why error) {
	r.mu.Lock()
	r.skips++
	r.mu.Unlock()
	r.say("%s: %s (skipped)", tree.Printable(name), withHint(why))
}

// now says at once what is wrong, because the command may run for days.
func (r *reporter) now(err error) { r.say("%s", withHint(err)) }

// problem says at the end what is wrong.
func (r *reporter) problem(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if text := withHint(err); !slices.Contains(r.problems, text) { // one variable may be wrong for spans and metrics
		r.problems = append(r.problems, text)
	}
}

// runStarted prints the trace id of a run that has begun, so that the user can
// watch it.
func (r *reporter) runStarted(run mapping.Run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.quiet || !r.terminal || r.again != "" || r.begun == maxRuns || !r.cfg.sampler.Keeps(run.TraceID) {
		return
	}
	r.begun++
	id := hex.EncodeToString(run.TraceID[:])
	r.line("trace %s began%s", id, spaced(r.cfg.traceLink(id)))
}

// runEnded prints a run at once if all runs are listed, because there may be more
// of them than fit into memory.
func (r *reporter) runEnded(run mapping.Run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended++
	switch {
	case r.quiet:
	case r.summary:
		r.nameRun(run)
	case len(r.waiting) < maxRuns:
		r.waiting = append(r.waiting, run)
	}
}

// runInFile prints a run of a recording.
func (r *reporter) runInFile(name string, run mapping.Run) {
	r.mu.Lock()
	r.ended++
	r.mu.Unlock()
	r.say("%s: %s", tree.Printable(name), r.describe(run))
}

// sessions names the sessions in session logs.
func (r *reporter) sessions(list sessionLines) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range list {
		if r.ended += s.runs; r.verbose && !r.quiet {
			r.line("%s session %s: %s, %s, %s", s.Agent, tree.Printable(s.Session), countFailed(s.runs, "run", s.failed),
				countFailed(s.Tools, "tool", s.ToolErrors), tree.Duration(s.Duration))
		}
	}
}

// A sessionLine is what is said about a session.
type sessionLine struct {
	mapping.Run
	runs, failed int
}

// sessionLines are those of sessions, in the order in which their first runs ended.
type sessionLines []*sessionLine

func (l *sessionLines) ended(run mapping.Run) {
	i := slices.IndexFunc(*l, func(s *sessionLine) bool { return s.Session == run.Session })
	if i < 0 {
		i = len(*l)
		*l = append(*l, &sessionLine{Run: mapping.Run{Agent: run.Agent, Session: run.Session}})
	}
	s := (*l)[i]
	s.runs++
	s.Tools += run.Tools
	s.ToolErrors += run.ToolErrors
	s.Duration += run.Duration
	if run.ErrorType != "" {
		s.failed++
	}
}

// odd reports what a file contained besides events.
func (r *reporter) odd(name string, stats mapping.Stats) {
	if s := oddLines(stats); s != "" {
		r.note("%s: %s", tree.Printable(name), s)
	}
}

// unknownTypes adds the unknown types of a stream's lines, and returns those of all streams.
func (r *reporter) unknownTypes(of []mapping.UnknownType) []mapping.UnknownType {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unknown = append(r.unknown, of...)
	return r.unknown
}

// maxTypes is how many unknown types of an agent are named.
const maxTypes = 5

// drift says which lines of an agent spantee does not know.
func drift(of []mapping.UnknownType) string {
	var names []string
	lines := 0
	for _, t := range of {
		if lines += t.Lines; !slices.Contains(names, t.Type) {
			names = append(names, t.Type)
		}
	}
	are := "are of types"
	if lines == 1 {
		are = "is of a type"
	}
	if more := len(names) - maxTypes; more > 0 {
		names = append(names[:maxTypes], fmt.Sprintf("%d more", more))
	}
	line := fmt.Sprintf("%s of %s %s that spantee %s does not know (%s)", count(lines, "line"), of[0].Agent+spaced(of[0].Version), are, tracer.Version(), strings.Join(names, ", "))
	if checked := agent.CheckedUpTo(of[0].Agent); agent.Newer(of[0].Version, checked) {
		line += "; it was checked up to " + checked
	}
	return line
}

// byAgent returns the unknown types of each version of an agent, in the order of the first.
func byAgent(all []mapping.UnknownType) (groups [][]mapping.UnknownType) {
	for _, t := range all {
		same := func(group []mapping.UnknownType) bool {
			return group[0].Agent == t.Agent && group[0].Version == t.Version
		}
		if i := slices.IndexFunc(groups, same); i >= 0 {
			groups[i] = append(groups[i], t)
		} else {
			groups = append(groups, []mapping.UnknownType{t})
		}
	}
	return groups
}

// addDoubts adds what makes the success of a run doubtful.
func (r *reporter) addDoubts(span *tracer.Span) {
	if !span.EndsRun || span.Facts().Failed {
		return
	}
	doubts := slices.DeleteFunc(span.Facts().Doubts(), func(d runs.Doubt) bool { return d.Name == semconv.DoubtUnknownLines }) // drift says it
	if len(doubts) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.doubtful++
	for _, d := range doubts {
		if i := slices.IndexFunc(r.doubts, func(other runs.Doubt) bool { return other.Name == d.Name }); i >= 0 {
			r.doubts[i].Count += d.Count
		} else {
			r.doubts = append(r.doubts, d)
		}
	}
}

// doubted says what makes successes doubtful.
func (r *reporter) doubted() string {
	about := ""
	if r.ended > 1 {
		about = fmt.Sprintf(" about %d of %s", r.doubtful, count(r.ended, "run"))
	}
	texts := make([]string, len(r.doubts))
	for i, d := range r.doubts {
		texts[i] = d.String()
	}
	return fmt.Sprintf("doubts%s: %s", about, strings.Join(texts, ", "))
}

// nameRun prints a run, unless a tree shows it.
func (r *reporter) nameRun(run mapping.Run) {
	if !r.tree || r.cfg.traceURL != "" {
		r.line("%s", r.describe(run))
	}
}

// print prints the whole report.
func (r *reporter) print(o result, hasDestination bool) {
	defer r.w.Flush()
	r.w.Status("")
	if r.quiet {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	lineIf := func(when bool, format string, args ...any) {
		if when {
			r.line(format, args...)
		}
	}
	d := o.delivery
	if r.verbose {
		for _, run := range r.waiting {
			r.nameRun(run)
		}
		more := r.ended - len(r.waiting)
		lineIf(more > 0 && len(r.waiting) > 0, "and %s (--summary names them all)", count(more, "more trace"))
		others := o.stats
		others.BadLines = 0 // said below
		odd := oddLines(others)
		lineIf(odd != "", "%s", odd)
		lineIf(d.Earlier.Delivered > 0, "%s of earlier runs delivered", count(d.Earlier.Delivered, "span"))
	}
	why := cmp.Or(o.unprotected, d.Unprotected)
	lineIf(why != nil && (r.verbose || errors.As(why, new(*spool.Untrusted))), "crash protection was unavailable: %v", why)
	for _, p := range r.problems {
		r.line("%s", p)
	}
	if o.failure != nil {
		lost := ""
		if o.lost.Bytes > 0 {
			lost = fmt.Sprintf("; %s (%s) untraced", bytesText(o.lost.Bytes), count(int(o.lost.Lines), "line"))
		}
		r.line("tracing stopped early: %v%s", o.failure, lost)
	}
	untraced := r.untraced(o, hasDestination)
	lineIf(untraced != "", "%s", untraced)
	undelivered := r.undelivered(d)
	if o.metrics != nil {
		fate := "; metrics lost"
		if o.metricsSpooled {
			fate = "; metrics spooled"
		}
		undelivered = cmp.Or(undelivered, "metrics not delivered: "+withHint(o.metrics)) + fate // usually for the same reason
	}
	lineIf(undelivered != "", "%s", undelivered)
	lineIf(d.SetAside > 0, "%s in the spool set aside unread (spantee spool shows why)", count(d.SetAside, "file"))
	lineIf(d.Earlier.Dropped > 0, "%s of earlier runs dropped: evicted for lack of room, or rejected by the receiver (spantee spool shows what is left)", count(d.Earlier.Dropped, "span"))
	for _, types := range byAgent(r.unknown) {
		r.line("%s", drift(types))
	}
	lineIf(o.stats.EvictedRuns > 0, "%s ended early: too many at once", count(o.stats.EvictedRuns, "run"))
	lineIf(o.stats.Runs > 0 && o.stats.BadLines > 0, "%s", badLines(o.stats))
	lineIf(r.doubtful > 0, "%s", r.doubted())
	lineIf(r.unusual != "", "%s", r.unusual)
}

func (r *reporter) describe(run mapping.Run) string {
	id := hex.EncodeToString(run.TraceID[:])
	s := fmt.Sprintf("trace %s: %s, %s, %s", id, count(run.Spans, "span"),
		countFailed(run.Tools, "tool", run.ToolErrors), tree.Duration(run.Duration))
	switch _, notCode := strconv.Atoi(run.ErrorType); {
	case run.ErrorType == "":
	case notCode == nil && r.child:
		s += ", exit " + run.ErrorType
	default:
		s += ", " + run.ErrorType
	}
	if !r.cfg.sampler.Keeps(run.TraceID) {
		return s + ", not sampled"
	}
	return s + spaced(r.cfg.traceLink(id))
}

// oddLines describes what the stream contained besides events.
func oddLines(stats mapping.Stats) string {
	unidentified := stats.Unidentified
	if stats.Runs == 0 {
		unidentified = 0 // notAStream says it
	}
	return enumerate(", ",
		part{stats.BadLines, badLines(stats)},
		part{stats.EndsWithoutStart, count(stats.EndsWithoutStart, "event") + " of something whose start is missing"},
		part{unidentified, count(unidentified, "line") + " that could be from any agent"},
		part{stats.Evicted, count(stats.Evicted, "span") + " ended early because too much was open"},
		part{stats.Oversize, count(stats.Oversize, "line") + " too long to parse"})
}

// badLines describes the lines that are not JSON, or have no type.
func badLines(stats mapping.Stats) string {
	are := "are"
	if stats.BadLines == 1 {
		are = "is"
	}
	return fmt.Sprintf("%s of %s %s not JSON, the first is line %d", count(stats.BadLines, "line"), cmp.Or(stats.Agent, "the input"), are, stats.FirstBad)
}

// untraced says why there is no trace.
func (r *reporter) untraced(o result, hasDestination bool) string {
	why := notAStream(o.stats)
	switch {
	case r.summary && !hasDestination:
		return "no trace: " + r.whyNowhere()
	case r.summary && o.stats.Lines == 0 && o.failure == nil && r.ended+r.skips == 0:
		return "no trace: the input was empty"
	case o.stats.Runs > 0:
		if o.stats.Foreign != "" {
			return fmt.Sprintf("part of the input was not traced: it looks like %s (supported: %s)", o.stats.Foreign, supported())
		}
	case why != "" && r.ended > 0:
		return "the trace has only its root span: " + why
	case why != "":
		return "no trace: " + why
	}
	return ""
}

func supported() string { return strings.Join(mapping.Agents, ", ") }

// notAStream returns why a stream holds no run, "" if unknown.
func notAStream(s mapping.Stats) string {
	switch {
	case s.UTF16:
		return "the input is UTF-16, as PowerShell 5.1 writes into pipes and files; use PowerShell 7, cmd or spantee exec (spantee replay reads such files)"
	case s.Foreign != "":
		return fmt.Sprintf("the input looks like %s (supported: %s; --agent overrides)", s.Foreign, supported())
	case s.Unidentified > s.BadLines:
		return fmt.Sprintf("%s of JSON, which may be any agent's (set --agent: %s)", count(s.Unidentified, "line"), supported())
	case s.BadLines > 0:
		return "the input is not JSON lines; make the agent print them (Cursor: --output-format stream-json)"
	}
	return ""
}

// whyNowhere says which setting turned tracing off.
func (r *reporter) whyNowhere() string {
	if r.cfg.nowhere != nil {
		return withHint(r.cfg.nowhere)
	}
	return "tracing is disabled by " + r.cfg.destination.source
}

// undelivered describes which spans were not delivered, why, and what became of
// them.
func (r *reporter) undelivered(d exporter.Report) string {
	if d.Delivered == d.Ended {
		return ""
	}
	s := fmt.Sprintf("%d of %s not delivered: %s", d.Ended-d.Delivered, count(d.Ended, "span"),
		withHint(d.Cause))
	if r.again != "" { // a recording is not spooled
		return s + "; to send them, run " + r.again
	}
	s += "; " + enumerate(", ",
		part{d.Spooled, fmt.Sprintf("%d spooled for retry", d.Spooled)},
		part{d.Rejected, fmt.Sprintf("%d rejected, and kept in the spool without being sent again", d.Rejected)},
		part{d.Dropped, fmt.Sprintf("%d lost", d.Dropped)})
	if d.NotKept != nil {
		s += fmt.Sprintf(" (spool: %v)", d.NotKept)
	}
	return s
}
