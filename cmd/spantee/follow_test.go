//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/cmd/spantee/internal/follow"
	"github.com/spantee/spantee/exporter/metrics/metricstest"
	"github.com/spantee/spantee/exporter/receiver/receivertest"
	"github.com/spantee/spantee/mapping"
)

// A sessionLog is written like Claude Code's.
type sessionLog struct {
	t       *testing.T
	path    string
	session string
	rows    int
	at      time.Time // of the next row
	slow    bool      // a row is written in halves, with pauses
}

func newSessionLog(t *testing.T, dir, session string, at time.Time) *sessionLog {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return &sessionLog{t: t, path: filepath.Join(dir, session+".jsonl"), session: session, at: at}
}

func (l *sessionLog) row(kind, message string) {
	l.rows++
	l.at = l.at.Add(time.Millisecond)
	l.write(fmt.Sprintf(`{"type":"%s","message":%s,"uuid":"%s-%d","requestId":"r-%s-%d","isSidechain":false,"sessionId":"%s","timestamp":"%s"}`+"\n",
		kind, message, l.session, l.rows, l.session, l.rows, l.session, l.at.UTC().Format("2006-01-02T15:04:05.000Z")))
}

func (l *sessionLog) write(text string) {
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		l.t.Error(err)
		return
	}
	defer f.Close()
	if l.slow {
		pause(20 * time.Millisecond)
		half := rand.IntN(len(text))
		_, _ = f.WriteString(text[:half])
		pause(2 * time.Millisecond)
		text = text[half:]
	}
	if _, err := f.WriteString(text); err != nil {
		l.t.Error(err)
	}
}

func (l *sessionLog) prompt() { l.row("user", `{"role":"user","content":"go on"}`) }

// tool writes a call, and its result.
func (l *sessionLog) tool() {
	id := fmt.Sprintf("%s-call-%d", l.session, l.rows)
	l.row("assistant", fmt.Sprintf(`{"id":"m-%s-%d","model":"claude-opus-5","role":"assistant","content":[{"type":"tool_use","id":"%s","name":"Bash","input":{"command":"ls"}}],"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":5}}`, l.session, l.rows, id))
	l.row("user", fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"%s","content":"ok"}]}`, id))
}

func (l *sessionLog) answer() {
	l.row("assistant", fmt.Sprintf(`{"id":"m-%s-%d","model":"claude-opus-5","role":"assistant","content":[{"type":"text","text":"done"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":5}}`, l.session, l.rows))
}

// spans are those of the whole log, by their keys.
func (l *sessionLog) spans() map[string]*tracepb.Span {
	l.t.Helper()
	m, err := mapping.New(mapping.Options{Source: mapping.Followed})
	if err != nil {
		l.t.Fatal(err)
	}
	text, err := os.ReadFile(l.path)
	if err != nil {
		l.t.Fatal(err)
	}
	spans := map[string]*tracepb.Span{}
	take := func(out mapping.Output) {
		if span := new(tracepb.Span); out.Span != nil {
			if err := proto.Unmarshal(out.Span, span); err != nil {
				l.t.Fatal(err)
			}
			spans[spanKey(span)] = span
		}
	}
	in := m.Input()
	for out := range in.Map(text) {
		take(out)
	}
	for out := range in.Flush() {
		take(out)
	}
	for out := range m.EndRuns() {
		take(out)
	}
	return spans
}

// followed reports whether everything in the logs was handed over.
func followedAll(state string, logs []*sessionLog) bool {
	done := map[string]int64{}
	dir := filepath.Join(state, "spantee/follow/logs")
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		var l follow.Log
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err == nil && json.Unmarshal(b, &l) == nil && !l.Open {
			for _, f := range l.Files {
				done[f.Path] = f.Offset
			}
		}
	}
	for _, l := range logs {
		if info, err := os.Stat(l.path); err != nil || done[l.path] != info.Size() {
			return false
		}
	}
	return true
}

// lastSaved returns when follow last saved how far a session is mapped.
func lastSaved(state string) (last time.Time) {
	entries, _ := os.ReadDir(filepath.Join(state, "spantee/follow/logs"))
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	return last
}

// follow is killed while 20 logs grow. In the end every span has arrived as if there had been
// no kill.
func TestFollowIsKilled(t *testing.T) {
	long(t)
	t.Parallel()
	kills := cases(10, 100)
	c := newCollector(t)
	c.start("well")
	state, dir := t.TempDir(), t.TempDir()
	env := append(c.environment("grpc"), "XDG_STATE_HOME="+state)
	var logs []*sessionLog
	for i := range 20 {
		l := newSessionLog(t, filepath.Join(dir, fmt.Sprint(i%3)), fmt.Sprint("s", i), time.Now().Add(-time.Hour))
		l.slow = true
		logs = append(logs, l)
	}
	var writing sync.WaitGroup
	write := func() { // a run to each log
		for _, l := range logs {
			writing.Go(func() {
				l.prompt()
				for range rand.IntN(5) {
					l.tool()
				}
				l.answer()
			})
		}
	}
	for i := range kills {
		write()
		cmd := spantee(t, env, "follow", "--since", "24h", dir)
		before := lastSaved(state)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		until(t, "progress", func() bool { return lastSaved(state).After(before) })
		writing.Wait()
		write()
		pause(200 * time.Millisecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if cmd.stderr.Len() > 0 {
			t.Errorf("run %d: %s", i, cmd.stderr.String())
		}
		writing.Wait()
	}
	logs[0].prompt() // a run that is cut off
	logs[0].tool()
	last := spantee(t, env, "follow", "--since", "24h", "--idle", "1s", dir)
	if err := last.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "end of the logs", func() bool { return followedAll(state, logs) })
	_ = last.Process.Signal(os.Interrupt)
	if err := last.Wait(); err != nil {
		t.Errorf("%v: %s", err, last.stderr.String())
	}
	if flushed := spantee(t, env, "flush"); flushed.Run() != nil {
		t.Errorf("flush: %s", flushed.stdout.String())
	}
	got, again := c.taken()
	arrived := len(got)
	missing := 0
	for _, l := range logs {
		for id, want := range l.spans() {
			switch span := got[id]; {
			case span == nil:
				missing++
				t.Errorf("%s: %s is missing", l.session, want.Name)
			case !proto.Equal(span, want):
				t.Errorf("%s: got\n%v\nwant\n%v", l.session, span, want)
			}
			delete(got, id)
		}
	}
	for _, span := range got {
		t.Errorf("%s: %s is too much", attribute(span, "session.id"), span.Name)
	}
	t.Logf("%d kills; %d spans, %d missing, %d came twice", kills, arrived, missing, again)
}

// followIn follows a folder until the test ends it.
func followIn(t *testing.T, r *receivertest.Receiver, state, dir string, flags ...string) (stop func() (stderr string)) {
	t.Helper()
	cmd := spantee(t, []string{"XDG_STATE_HOME=" + state, "OTEL_EXPORTER_OTLP_ENDPOINT=" + r.GRPCEndpoint()}, append([]string{"follow", dir, "--flush-timeout=30s"}, flags...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // a test that fails before its end leaves no process
	return func() string {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %s", err, cmd.stderr.String())
		}
		return cmd.stderr.String()
	}
}

// roots are the error types of the runs that have arrived, by session.
func roots(r *receivertest.Receiver) map[string][]string {
	list := map[string][]string{}
	for _, span := range r.Spans() {
		if len(span.ParentSpanId) == 0 {
			session := attribute(span, "session.id")
			list[session] = append(list[session], errorType(span))
		}
	}
	return list
}

func await(r *receivertest.Receiver, session string, runs int) {
	r.Await(func() bool { return len(roots(r)[session]) >= runs })
}

// Runs that began before follow first started are not sent.
func TestFollowBeginsNow(t *testing.T) {
	t.Parallel()
	r := receivertest.Start(t)
	state, dir := t.TempDir(), t.TempDir()
	l := newSessionLog(t, dir, "s1", time.Now().Add(-time.Minute))
	l.prompt()
	l.tool()
	l.answer()
	l.prompt()
	l.tool()
	began := newSessionLog(t, dir, "before", time.Now().Add(-time.Minute))
	began.prompt()
	began.answer()
	stop := followIn(t, r, state, dir)
	until(t, "beginning", func() bool {
		_, err := os.Stat(filepath.Join(state, "spantee/follow/folders"))
		return err == nil
	})
	l.at = time.Now()
	l.tool()
	l.answer()
	l.prompt()
	l.tool()
	l.answer()
	await(r, "s1", 1)
	stop()
	if got := roots(r); len(got["s1"]) != 1 || len(got["before"]) > 0 {
		t.Errorf("runs: %v", got)
	}
	tools := 0
	for _, span := range r.Spans() {
		if strings.HasPrefix(span.Name, "execute_tool") {
			tools++
		}
	}
	if tools != 1 {
		t.Errorf("%d tool calls, want that of the last run", tools)
	}
}

// A damaged state is set aside, and said. Sessions are followed all the same.
func TestFollowWithADamagedState(t *testing.T) {
	t.Parallel()
	r := receivertest.Start(t)
	state, dir := t.TempDir(), t.TempDir()
	logs := filepath.Join(state, "spantee/follow/logs")
	if err := os.MkdirAll(logs, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"logs/null": `{"files":[null]}`, "logs/step": `{"files":[{"path":"/a","offset":1}],"steps":[{"file":7,"to":1}]}`,
		"logs/offset": `{"files":[{"path":"/a","offset":-5}]}`, "folders": `null`,
	} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(logs), name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stop := followIn(t, r, state, dir, "--since", "1h") // a busy machine may start it late
	l := newSessionLog(t, dir, "s1", time.Now())
	l.prompt()
	l.answer()
	await(r, "s1", 1)
	stderr := stop()
	for _, name := range []string{"null", "step", "offset"} {
		if !strings.Contains(stderr, filepath.Join("follow/logs", name)+" is damaged") {
			t.Errorf("%s is not reported: %s", name, stderr)
		}
	}
}

func TestFollowGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	r := receivertest.Start(t)
	state, dir := t.TempDir(), t.TempDir()
	l := newSessionLog(t, dir, "s1", time.Now().Add(-time.Minute))
	l.prompt()
	l.tool()
	stop := followIn(t, r, state, dir, "--since", "1h")
	r.Await(func() bool { return len(r.Spans()) == 1 }) // the tool; the chat may still grow
	stop()
	if got := len(r.Spans()); got != 1 {
		t.Errorf("%d spans: a run that goes on was ended", got)
	}
	other, elsewhere := newSessionLog(t, t.TempDir(), "s2", time.Now().Add(-time.Minute)), receivertest.Start(t)
	other.prompt()
	other.answer()
	if err := os.Rename(dir, dir+"-away"); err != nil { // as on a disk that is not mounted
		t.Fatal(err)
	}
	stop = followIn(t, elsewhere, state, filepath.Dir(other.path), "--since", "1h", "--idle", "1s")
	await(elsewhere, "s2", 1)
	stop()
	if err := os.Rename(dir+"-away", dir); err != nil {
		t.Fatal(err)
	}
	l.tool()
	stop = followIn(t, r, state, dir)
	l.answer()
	await(r, "s1", 1)
	if stderr := stop(); stderr != "" {
		t.Error(stderr)
	}
	want := l.spans()
	if got := r.Spans(); len(got) != len(want) {
		t.Errorf("%d spans, want %d", len(got), len(want))
	}
	for _, span := range r.Spans() {
		if !proto.Equal(span, want[spanKey(span)]) {
			t.Errorf("got\n%v\nwant\n%v", span, want[spanKey(span)])
		}
	}
}

func TestFollowEndsIdleRuns(t *testing.T) {
	t.Parallel()
	r := receivertest.Start(t)
	dir := t.TempDir()
	l := newSessionLog(t, dir, "s1", time.Now().Add(-time.Minute))
	l.prompt()
	l.answer()
	l.prompt()
	l.row("assistant", `{"id":"m","model":"claude-opus-5","role":"assistant","content":[{"type":"text","text":"let me see"}],"stop_reason":null}`)
	stop := followIn(t, r, t.TempDir(), dir, "--since", "1h", "--idle", "2s", "--stall-after", "1s")
	await(r, "s1", 2)
	stderr := stop()
	if got := fmt.Sprint(roots(r)["s1"]); got != "[ incomplete]" {
		t.Errorf("runs: %v", got)
	}
	if !strings.Contains(stderr, "claude-code has printed nothing for") {
		t.Errorf("no stall was reported: %q", stderr)
	}
}

// A session is idle even if another one of its folder grows, and goes on if the other's log
// is replaced.
func TestFollowTellsSessionsOfAFolderApart(t *testing.T) {
	t.Parallel()
	r := receivertest.Start(t)
	dir := t.TempDir()
	idle := newSessionLog(t, dir, "idle", time.Now().Add(-time.Minute))
	idle.prompt()
	idle.tool()
	replaced := newSessionLog(t, dir, "replaced", time.Now().Add(-time.Minute+time.Second))
	replaced.prompt()
	replaced.tool()
	stop := followIn(t, r, t.TempDir(), dir, "--since", "1h", "--idle", "2s")
	r.Await(func() bool { return len(r.Spans()) >= 2 }) // the tools
	if err := os.Remove(replaced.path); err != nil {
		t.Fatal(err)
	}
	for i := 0; len(roots(r)["idle"]) == 0; i++ {
		if i == 600 {
			t.Fatal("the idle run has not ended")
		}
		replaced.tool()
		pause(100 * time.Millisecond)
	}
	idle.tool()
	idle.answer()
	await(r, "idle", 2)
	stop()
	if got := fmt.Sprint(roots(r)["idle"]); got != "[incomplete ]" {
		t.Errorf("runs: %v", got)
	}
}

func TestFollowOfAReplacedLog(t *testing.T) {
	t.Parallel()
	r := receivertest.Start(t)
	dir := t.TempDir()
	l := newSessionLog(t, dir, "s1", time.Now().Add(-time.Minute))
	l.prompt()
	l.answer()
	l.prompt()
	l.tool()
	stop := followIn(t, r, t.TempDir(), dir, "--since", "1h")
	r.Await(func() bool { return len(r.Spans()) >= 3 })
	whole, err := os.ReadFile(l.path)
	if err == nil { // without its last row, but with others
		err = os.WriteFile(l.path, whole[:strings.LastIndex(strings.TrimSpace(string(whole)), "\n")+1], 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	l.answer()
	l.prompt()
	l.answer()
	l.prompt()
	await(r, "s1", 3)
	stop()
	seen := map[string]*tracepb.Span{}
	for _, span := range r.Spans() {
		if before := seen[spanKey(span)]; before != nil && !proto.Equal(before, span) {
			t.Errorf("came twice, and not the same:\n%v\n%v", before, span)
		}
		seen[spanKey(span)] = span
	}
	if got := fmt.Sprint(roots(r)["s1"]); got != "[ incomplete ]" {
		t.Errorf("runs: %v", got)
	}
}

// A log that is replaced while nobody follows it is read from its beginning, without the runs
// that were sent before.
func TestFollowOfALogReplacedMeanwhile(t *testing.T) {
	t.Parallel()
	r := receivertest.Start(t)
	state, dir := t.TempDir(), t.TempDir()
	l := newSessionLog(t, dir, "s1", time.Now().Add(-time.Minute))
	l.prompt()
	l.answer()
	stop := followIn(t, r, state, dir, "--since", "1h", "--idle", "1s")
	await(r, "s1", 1)
	stop()
	whole, err := os.ReadFile(l.path)
	if err == nil {
		err = os.WriteFile(l.path, append([]byte("\n"), whole...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	l.prompt()
	l.answer()
	l.prompt()
	stop = followIn(t, r, state, dir, "--idle", "1s")
	await(r, "s1", 3)
	stop()
	if got := fmt.Sprint(roots(r)["s1"]); got != "[  incomplete]" {
		t.Errorf("runs: %v", got)
	}
}

// A run that the filter traces is not traced again from the agent's log, whichever begins
// first.
func TestFollowLeavesOutWhatIsPiped(t *testing.T) {
	t.Parallel()
	long(t)
	r := receivertest.Start(t)
	state, dir := t.TempDir(), t.TempDir()
	stop := followIn(t, r, state, dir)
	until(t, "beginning", func() bool {
		_, err := os.Stat(filepath.Join(state, "spantee/follow/folders"))
		return err == nil
	})
	logged := newSessionLog(t, dir, "piped-session-0001", time.Now())
	logged.prompt()
	logged.answer()
	pipe := spantee(t, []string{"XDG_STATE_HOME=" + state, "OTEL_EXPORTER_OTLP_ENDPOINT=" + r.GRPCEndpoint()})
	pipe.Stdin = strings.NewReader(`{"type":"system","subtype":"init","session_id":"piped-session-0001","model":"claude-opus-5","tools":[],"mcp_servers":[],"permissionMode":"default","apiKeySource":"none","cwd":"/","uuid":"u1"}
{"type":"result","subtype":"success","is_error":false,"duration_ms":5,"num_turns":1,"result":"done","session_id":"piped-session-0001","total_cost_usd":0,"uuid":"u2"}
`)
	if err := pipe.Run(); err != nil {
		t.Fatal(err, pipe.stderr.String())
	}
	other := newSessionLog(t, dir, "typed-session-0001", time.Now())
	other.prompt()
	other.answer()
	await(r, other.session, 1)
	later := newSessionLog(t, dir, logged.session, time.Now().Add(time.Hour)) // the same session, typed
	later.rows = 10
	later.prompt()
	later.answer()
	r.Await(func() bool {
		return slices.ContainsFunc(r.Spans(), func(span *tracepb.Span) bool {
			return len(span.ParentSpanId) == 0 && span.StartTimeUnixNano > uint64(time.Now().Add(time.Minute).UnixNano())
		})
	})
	stop()
	if got := roots(r); len(got[logged.session]) != 2 || len(got[other.session]) != 1 {
		t.Errorf("runs: %v", got)
	}
}

// A run that follows another one closely may be claimed after its first row was read.
func TestFollowLeavesOutWhatIsClaimedLater(t *testing.T) {
	t.Parallel()
	r := receivertest.Start(t)
	state, dir := t.TempDir(), t.TempDir()
	began := time.Now().Add(-time.Minute)
	l := newSessionLog(t, dir, "s1", began)
	l.prompt()
	l.answer()
	l.at = began.Add(10 * time.Second)
	l.prompt()
	stop := followIn(t, r, state, dir, "--since", "1h")
	await(r, l.session, 1) // ended by the prompt of the second run
	if err := follow.ClaimsIn(filepath.Join(state, "spantee")).Add([]string{l.session}, l.at.Add(-time.Second), l.at.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	l.tool()
	l.answer()
	l.at = began.Add(20 * time.Second)
	l.prompt()
	l.answer()
	l.prompt()
	await(r, l.session, 2)
	stop()
	for _, span := range r.Spans() {
		if start := time.Unix(0, int64(span.StartTimeUnixNano)); start.After(began.Add(5*time.Second)) && start.Before(began.Add(15*time.Second)) {
			t.Errorf("%s of the claimed run was sent", span.Name)
		}
	}
}

// A run is claimed as soon as its session is known, also by exec, however long its first
// model call takes.
func TestRunsAreClaimedAtOnce(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"exec", "--", "cat"}} {
		state := t.TempDir()
		cmd := spantee(t, []string{"XDG_STATE_HOME=" + state, "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1"}, args...)
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err == nil {
			_, err = io.WriteString(in, `{"type":"thread.started","thread_id":"01a1f0c2-91d4-7f31-8a55-3c7e5d0b9a11"}`+"\n")
		}
		if err != nil {
			t.Fatal(err)
		}
		until(t, "claim", func() bool {
			return follow.ClaimsIn(filepath.Join(state, "spantee")).Has("01a1f0c2-91d4-7f31-8a55-3c7e5d0b9a11", time.Now())
		})
		in.Close()
		_ = cmd.Wait()
	}
}

// The metrics of a session whose log has not grown for long are sent, and how far it was
// mapped is saved, without waiting for any log to grow.
func TestFollowSettlesIdleSessions(t *testing.T) {
	t.Parallel()
	r := metricstest.Start(t)
	state, dir := t.TempDir(), t.TempDir()
	cmd := spantee(t, []string{"XDG_STATE_HOME=" + state, "OTEL_EXPORTER_OTLP_ENDPOINT=" + r.GRPCEndpoint(), "OTEL_METRIC_EXPORT_INTERVAL=100"},
		"follow", dir, "--since", "24h")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	logs, away := filepath.Join(state, "spantee/follow/logs"), filepath.Join(state, "away")
	until(t, "beginning", func() bool {
		_, err := os.Stat(filepath.Join(state, "spantee/follow/folders"))
		return err == nil
	})
	then := time.Now().Add(-time.Hour)
	l := newSessionLog(t, t.TempDir(), "s1", then)
	l.prompt()
	l.answer()
	inFolder := filepath.Join(dir, filepath.Base(l.path))
	err := os.Rename(logs, away)
	if err == nil {
		err = os.WriteFile(logs, nil, 0o600) // nothing can be saved
	}
	if err == nil {
		err = os.Chtimes(l.path, then, then)
	}
	if err == nil {
		err = os.Rename(l.path, inFolder)
	}
	if err != nil {
		t.Fatal(err)
	}
	l.path = inFolder
	r.Await(t, func() bool {
		for name, p := range r.Points() {
			if strings.HasPrefix(name, "spantee.run.count") && p.Sum == 1 {
				return true
			}
		}
		return false
	})
	if err = os.Remove(logs); err == nil {
		err = os.Rename(away, logs)
	}
	if err != nil {
		t.Fatal(err)
	}
	until(t, "saved position", func() bool { return followedAll(state, []*sessionLog{l}) })
	_ = cmd.Process.Signal(os.Interrupt)
	if err := cmd.Wait(); err != nil || !strings.Contains(cmd.stderr.String(), "cannot save the position") {
		t.Errorf("%v: %s", err, cmd.stderr.String())
	}
}

func TestFollowTwice(t *testing.T) {
	t.Parallel()
	r := receivertest.Start(t)
	state, dir := t.TempDir(), t.TempDir()
	stop := followIn(t, r, state, dir)
	until(t, "lock", func() bool {
		_, err := os.Stat(filepath.Join(state, "spantee/follow/folders"))
		return err == nil
	})
	second := spantee(t, []string{"XDG_STATE_HOME=" + state}, "follow", dir)
	if second.Run() == nil || second.ProcessState.ExitCode() != 1 || !strings.Contains(second.stderr.String(), "already running") {
		t.Errorf("%v: %s", second.ProcessState, second.stderr.String())
	}
	stop()
	err := filepath.WalkDir(state, func(path string, d fs.DirEntry, err error) error {
		if info, _ := d.Info(); err == nil && info.Mode().Perm()&0o077 != 0 && path != state {
			t.Errorf("%s: %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// What follow sends of logs, with those of sub-agents and forks, is what replay sends, also
// if somebody has copied the logs.
func TestFollowSendsWhatReplaySends(t *testing.T) {
	t.Parallel()
	dir, copies := t.TempDir(), map[string][]byte{}
	for _, agent := range []string{"claude-log", "codex-log", "pi-log"} {
		fixtures := os.DirFS(filepath.Join("../../testdata", agent))
		err := fs.WalkDir(fixtures, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(name) != ".jsonl" {
				return err
			}
			text, err := fs.ReadFile(fixtures, name)
			if err != nil || !strings.HasSuffix(string(text), "\n") { // half a line is not mapped before its end
				return err
			}
			path := filepath.Join(dir, agent, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				return err
			}
			copies[filepath.Join(filepath.Dir(path), "copy-of-"+filepath.Base(path))] = text
			return os.WriteFile(path, text, 0o600)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	replayed, followed := receivertest.Start(t), receivertest.Start(t)
	replay := spantee(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + replayed.GRPCEndpoint()}, "replay", "-r", "--flush-timeout=1m", dir)
	if err := replay.Run(); err != nil {
		t.Fatal(err, replay.stderr.String())
	}
	for path, text := range copies {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stop := followIn(t, followed, t.TempDir(), dir, "--since", "2000-01-01", "--idle", "1s")
	want := map[string]*tracepb.Span{}
	for _, span := range replayed.Spans() {
		want[spanKey(span)] = span
	}
	followed.Await(func() bool { return len(followed.Spans()) >= len(want) })
	stop()
	for _, span := range followed.Spans() {
		if !proto.Equal(span, want[spanKey(span)]) {
			t.Errorf("got\n%v\nwant\n%v", span, want[spanKey(span)])
		}
		delete(want, spanKey(span))
	}
	for _, span := range want {
		t.Errorf("%s of %s is missing", span.Name, attribute(span, "session.id"))
	}
}

// A state folder that does not answer costs the position, aloud, and not the end. A pipe
// without a reader stands for it.
func TestFollowEndsOnAFrozenDisk(t *testing.T) {
	t.Parallel()
	r := receivertest.Start(t)
	state, dir := t.TempDir(), t.TempDir()
	stop := followIn(t, r, state, dir, "--since", "1h")
	folder := filepath.Join(state, "spantee/follow")
	until(t, "beginning", func() bool {
		_, err := os.Stat(filepath.Join(folder, "folders"))
		return err == nil
	})
	if err := syscall.Mkfifo(filepath.Join(folder, "new"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := newSessionLog(t, t.TempDir(), "s1", time.Now().Add(-time.Minute))
	l.prompt()
	l.tool()
	if err := os.Rename(l.path, filepath.Join(dir, "s1.jsonl")); err != nil { // whole: after a part, nothing is read any more
		t.Fatal(err)
	}
	r.Await(func() bool { return len(r.Spans()) == 1 }) // the tool
	if stderr := stop(); !strings.Contains(stderr, "cannot save the position, so a restart may send spans again: the disk did not answer in time") {
		t.Errorf("said %q", stderr)
	}
}

// A state folder that does not answer at the start costs the position, aloud, and not the start.
func TestFollowStartsOnAFrozenDisk(t *testing.T) {
	t.Parallel()
	for name, freeze := range map[string]func(t *testing.T, state string) (env string){
		"locking": func(*testing.T, string) string { return slowDisk + "=lock 1h" },
		"writing": func(t *testing.T, state string) string {
			if err := errors.Join(os.MkdirAll(filepath.Join(state, "spantee/follow"), 0o700), syscall.Mkfifo(filepath.Join(state, "spantee/follow/new"), 0o600)); err != nil {
				t.Fatal(err)
			}
			return "X="
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := receivertest.Start(t)
			state, dir := t.TempDir(), t.TempDir()
			cmd := spantee(t, []string{"XDG_STATE_HOME=" + state, "OTEL_EXPORTER_OTLP_ENDPOINT=" + r.GRPCEndpoint(), freeze(t, state)}, "follow", dir, "--since=1h")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill() })
			l := newSessionLog(t, t.TempDir(), "s1", time.Now().Add(-time.Minute))
			l.prompt()
			l.tool()
			if err := os.Rename(l.path, filepath.Join(dir, "s1.jsonl")); err != nil {
				t.Fatal(err)
			}
			r.Await(func() bool { return len(r.Spans()) == 1 }) // the tool
			_ = cmd.Process.Signal(os.Interrupt)
			if err := cmd.Wait(); err != nil || !strings.Contains(cmd.stderr.String(), "following without the state folder, so a restart begins anew: the disk did not answer in time") {
				t.Errorf("%v, said %q", err, cmd.stderr.String())
			}
		})
	}
}
