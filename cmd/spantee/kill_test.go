//go:build unix

package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/cmd/spantee/internal/proc"
	"github.com/spantee/spantee/exporter/spool"
)

// TestSignalsAtAnyLine ends spantee by each signal after any number of lines.
// The spans of the lines that came out end as they should, with a collector or
// later.
func TestSignalsAtAnyLine(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGPIPE} {
		for _, protocol := range []string{"grpc", "no collector"} {
			name := fmt.Sprintf("spantee gets %s, %s", proc.SignalName(sig), protocol)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c := newCollector(t)
				if protocol == "grpc" {
					c.start("well")
				}
				env := append(c.environment("grpc"), "XDG_STATE_HOME="+t.TempDir())
				all, total, kept := map[string]*tracepb.Span{}, 0, 0
				var broken []map[string]*tracepb.Span
				for i := range 8 {
					lines := stream(fmt.Sprint("s", i), 5)
					lines = lines[:1+rand.IntN(len(lines)-1)]
					ended, cut := spansIn(t, lines, sig != syscall.SIGPIPE)
					cmd := spantee(t, env)
					endBy(t, cmd, sig, lines)
					kept += numberBefore(cmd.stderr.String(), "spooled for retry")
					total += len(ended) + len(cut)
					for id, span := range ended {
						all[id] = span
					}
					broken = append(broken, cut)
				}
				if protocol != "grpc" {
					c.start("well")
				}
				if err := spantee(t, env, "flush").Run(); err != nil {
					t.Error(err)
				}
				got, _ := c.taken()
				for _, cut := range broken { // their end depends on when the signal came
					for id, want := range cut {
						if got[id] == nil || errorType(got[id]) != errorType(want) || got[id].Name != want.Name {
							t.Errorf("%s, error %q, arrived as %v", want.Name, errorType(want), got[id])
						}
						delete(got, id)
					}
				}
				wantSpans(t, got, all)
				faults.add(name, total, total-kept, kept, 0)
			})
		}
	}
}

// endBy runs the command on lines, of which all have come out when the signal
// comes; SIGPIPE comes of nobody reading the next.
func endBy(t *testing.T, cmd *run, sig syscall.Signal, lines [][]byte) {
	t.Helper()
	cmd.Stdout = nil
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in := startReading(t, cmd, out, bytes.Join(lines, nil))
	if sig == syscall.SIGPIPE {
		out.Close()
		for { // a process that is being started may have it open for a moment
			if _, err := in.Write([]byte("\n")); err != nil {
				break
			}
		}
	} else {
		cmd.Process.Signal(sig)
	}
	if got := signalOf(t, cmd.Wait()); got != sig {
		t.Errorf("died of %v, want %v", got, sig)
	}
	in.Close()
}

// TestKillAtAnyPoint kills spantee at random points. Except for what came before the first
// checkpoint, every run has its root, and ended spans arrive as they ended, without a gap.
func TestKillAtAnyPoint(t *testing.T) {
	long(t)
	t.Parallel()
	points := cases(20, 120)
	for _, collectorUp := range []bool{true, false} {
		name := "spantee gets SIGKILL, grpc"
		if !collectorUp {
			name = "spantee gets SIGKILL, no collector"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCollector(t)
			if collectorUp {
				c.start("well")
			}
			state := t.TempDir()
			env := append(c.environment("grpc"), "XDG_STATE_HOME="+state)
			killed := make([][][]byte, points)
			work := make(chan int, points)
			for i := range points {
				work <- i
			}
			close(work)
			var workers sync.WaitGroup
			for range 4 {
				workers.Go(func() {
					for i := range work {
						lines := stream(fmt.Sprint("s", i), 5)
						killed[i] = lines[:1+rand.IntN(len(lines)-1)]
						kill(t, state, env, killed[i], !collectorUp && i%4 == 0)
					}
				})
			}
			workers.Wait()

			if !collectorUp {
				c.start("well")
			}
			flushed := spantee(t, env, "flush")
			if err := flushed.Run(); err != nil {
				t.Fatalf("%v, %s", err, flushed.stdout.String())
			}
			got, _ := c.taken()
			total := 0
			for i, lines := range killed {
				total += wantPrefix(t, got, lines, !collectorUp && i%4 == 0)
			}
			if len(got) > 0 {
				t.Errorf("%d more spans arrived", len(got))
			}
			recovered := numberBefore(flushed.stdout.String(), "of killed processes recovered")
			faults.add(name, total, total-recovered, recovered, 0)
			wantNothingLeft(t, filepath.Join(state, "spantee/spool"), env)
		})
	}
}

// wantNothingLeft fails if there are logs after a recovery. A process that is killed while it
// writes its log anew leaves a temporary file, which is removed once it is old.
func wantNothingLeft(t *testing.T, dir string, env []string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		if !strings.HasPrefix(e.Name(), ".new-") {
			t.Errorf("left behind: %s", e.Name())
		}
		if err := os.Chtimes(filepath.Join(dir, e.Name()), time.Time{}, time.Now().AddDate(0, 0, -1)); err != nil {
			t.Error(err)
		}
	}
	if err := spantee(t, env, "flush").Run(); err != nil {
		t.Error(err)
	}
	if left, err = os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind after a day: %v %v", left, err)
	}
}

// kill runs spantee on lines and kills it once they have come out: after the first
// checkpoint, or with traced, after all lines were traced.
func kill(t *testing.T, state string, env []string, lines [][]byte, traced bool) {
	cmd := spantee(t, env)
	cmd.Stdout = nil
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Error(err)
		return
	}
	in := startReading(t, cmd, out, bytes.Join(lines, nil))
	defer in.Close()
	ended, _ := spansIn(t, lines, true)
	s := spool.Spool{Dir: filepath.Join(state, "spantee/spool")}
	for deadline := time.Now().Add(30 * time.Second); ; {
		entries, err := s.List()
		if err != nil {
			t.Error(err)
			return
		}
		i := slices.IndexFunc(entries, func(e spool.Entry) bool {
			return e.State == spool.Open && e.Spans > 0 && e.PID == cmd.Process.Pid
		})
		if i >= 0 {
			journal, _ := os.ReadFile(entries[i].Path)
			if !traced || holdsAll(journal, ended) {
				break
			}
		}
		if time.Now().After(deadline) {
			t.Error("nothing came to the journal")
			break
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
}

// A kill right after the first byte leaves a root, or nothing at all: a span without its root
// would be an orphan.
func TestKillAfterTheFirstByte(t *testing.T) {
	t.Parallel()
	c := newCollector(t) // nobody listens
	env := append(c.environment("grpc"), "XDG_STATE_HOME="+t.TempDir())
	const runs = 20
	for i := range runs {
		cmd := spantee(t, env)
		in, out := cmd.startPiped(t)
		go in.Write(bytes.Join(stream(fmt.Sprint("s", i), 5)[:3], nil))
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Error(err)
		}
		cmd.Process.Kill()
		cmd.Wait()
		in.Close()
	}
	c.start("well")
	if err := spantee(t, env, "flush").Run(); err != nil {
		t.Error(err)
	}
	got, _ := c.taken()
	hasRoot := map[string]bool{}
	for _, span := range got {
		if len(span.ParentSpanId) == 0 {
			hasRoot[string(span.TraceId)] = true
		}
	}
	for _, span := range got {
		if !hasRoot[string(span.TraceId)] {
			t.Errorf("%s has no root", span.Name)
		}
	}
	faults.add("SIGKILL after the first byte", len(got), 0, len(got), 0)
}

// Delivered spans soon leave the journal, even if no more lines come: a kill does not
// send them again.
func TestKillAfterDelivery(t *testing.T) {
	long(t)
	t.Parallel()
	c := newCollector(t)
	c.start("well")
	state := t.TempDir()
	env := append(c.environment("grpc"), "XDG_STATE_HOME="+state)
	cmd := spantee(t, env)
	lines := stream("s", 5)[:24]
	_, open := spansIn(t, lines, true)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Write(bytes.Join(lines, nil))
	c.await()
	s := spool.Spool{Dir: filepath.Join(state, "spantee/spool")}
	for deadline := time.Now().Add(30 * time.Second); ; {
		entries, err := s.List()
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) == 1 && entries[0].Spans == len(open) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("what was delivered is still in the journal: %+v", entries)
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	flushed := spantee(t, env, "flush")
	if err := flushed.Run(); err != nil {
		t.Fatal(err)
	}
	got, again := c.taken()
	if again > 0 {
		t.Errorf("%d spans came twice", again)
	}
	total := len(got)
	if n := wantPrefix(t, got, lines, true); n != total {
		t.Errorf("%d of %d spans are those of the run", n, total)
	}
	faults.add("SIGKILL after a delivery", total, total-numberBefore(flushed.stdout.String(), "delivered"), numberBefore(flushed.stdout.String(), "delivered"), 0)
}

func holdsAll(journal []byte, spans map[string]*tracepb.Span) bool {
	for _, span := range spans {
		if !bytes.Contains(journal, span.SpanId) {
			return false
		}
	}
	return true
}

// wantPrefix takes the spans of one killed run out of got. They must be those
// of some of its lines, from the first on, or of all of them; and its root must
// be there, with the spans that had not ended, as killed. It returns how many
// there are.
func wantPrefix(t *testing.T, got map[string]*tracepb.Span, lines [][]byte, whole bool) int {
	t.Helper()
	first := len(lines)
	if !whole {
		first = 1
	}
	var mine map[string]*tracepb.Span
	for n := len(lines); n >= first; n-- {
		ended, cut := spansIn(t, lines[:n], true)
		mine = map[string]*tracepb.Span{}
		ok := true
		for id, want := range ended {
			ok = ok && got[id] != nil && proto.Equal(got[id], want)
			mine[id] = got[id]
		}
		root := false
		for id, want := range cut {
			// A checkpoint is up to a second old: what has begun since is not in it.
			if got[id] == nil {
				continue
			}
			ok = ok && got[id].Name == want.Name && (errorType(got[id]) == "killed" || errorType(want) == "")
			root = root || want.Name == "invoke_agent cursor-agent"
			mine[id] = got[id]
		}
		if ok && root {
			break
		}
		mine = nil
	}
	if mine == nil {
		t.Errorf("a run killed after %d lines is not there as it was", len(lines))
	}
	for id := range mine {
		delete(got, id)
	}
	return len(mine)
}

// The disk is full, simulated by a limit on the size of files. The stream goes on, and
// spans that could be neither sent nor kept are counted and reported once.
func TestFullDisk(t *testing.T) {
	c := newCollector(t)
	lines := stream("s", 20)
	ended, _ := spansIn(t, lines, false)
	bare := spantee(t, append(c.environment("grpc"), "XDG_STATE_HOME="+t.TempDir()))
	cmd := &run{Cmd: exec.Command("/bin/sh", "-c", "ulimit -f 1; exec spantee")}
	cmd.Stdout, cmd.Stderr, cmd.Env = &cmd.stdout, &cmd.stderr, bare.Env
	cmd.Stdin = bytes.NewReader(bytes.Join(lines, nil))
	if err := cmd.Run(); err != nil {
		t.Errorf("spantee: %v", err)
	}
	if !bytes.Equal(cmd.stdout.Bytes(), bytes.Join(lines, nil)) {
		t.Error("other bytes came out")
	}
	checkStderr(t, cmd.stderr.String(), fmt.Sprintf("%d lost (spool: ", len(ended)))
	faults.add("disk full", len(ended), 0, 0, len(ended))
}

// What was open in the latest snapshot of a killed process ends no earlier than what ended
// inside of it since then, however deep: a sub-agent's call, the sub-agent, the call that
// started it, the root.
func TestKilledEndsCoverWhatEnded(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	state := t.TempDir()
	env := append(c.environment("grpc"), "XDG_STATE_HOME="+state)
	cmd := spantee(t, env)
	cmd.Stdout = nil
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	line := func(after time.Duration, format string, args ...any) {
		stamp := began.Add(after).UTC().Format("2006-01-02T15:04:05.000Z")
		fmt.Fprintf(in, format+`,"timestamp":%q,"session_id":"a1b2c3d4-0000-4000-8000-000000000001","uuid":"u%d"}`+"\n", append(args, stamp, after)...)
	}
	call := func(after time.Duration, message, parent, id, tool, input string) {
		line(after, `{"type":"assistant","message":{"id":%q,"role":"assistant","model":"m","content":[{"type":"tool_use","id":%q,"name":%q,"input":%s}]},"parent_tool_use_id":%s`, message, id, tool, input, parent)
	}
	line(0, `{"type":"system","subtype":"init","cwd":"/w","model":"m","permissionMode":"default","tools":[],"mcp_servers":[],"claude_code_version":"2.1.290"`)
	call(time.Millisecond, "msg_1", "null", "toolu_1", "Agent", `{"subagent_type":"Explore","prompt":"look"}`)
	call(2*time.Millisecond, "msg_2", `"toolu_1"`, "toolu_2", "Bash", `{"command":"ls"}`)
	awaitFile(t, state, "invoke_agent Explore")
	line(30*time.Second, `{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_2","content":"ok"}]},"parent_tool_use_id":"toolu_1"`)
	awaitFile(t, state, "spantee.tool.result_bytes")
	cmd.Process.Kill()
	cmd.Wait()
	in.Close()

	c.start("well")
	if err := spantee(t, env, "flush").Run(); err != nil {
		t.Error(err)
	}
	spans, _ := c.taken()
	var ended uint64
	for _, s := range spans {
		if strings.HasPrefix(s.Name, "execute_tool Bash") {
			ended = s.EndTimeUnixNano
		}
	}
	if ended == 0 {
		t.Fatalf("the call is not among %d spans", len(spans))
	}
	for _, name := range []string{"invoke_agent Explore", "execute_tool Agent", "invoke_agent claude-code"} {
		found := false
		for _, s := range spans {
			if s.Name == name {
				found = true
				if s.EndTimeUnixNano < ended {
					t.Errorf("%s ends %v before the call inside of it", name, time.Duration(ended-s.EndTimeUnixNano))
				}
			}
		}
		if !found {
			t.Errorf("no %s", name)
		}
	}
}

// awaitFile waits until a file of a folder contains a text.
func awaitFile(t *testing.T, folder, text string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		found := false
		filepath.WalkDir(folder, func(path string, _ os.DirEntry, _ error) error {
			b, _ := os.ReadFile(path) // it may be gone by now
			found = found || bytes.Contains(b, []byte(text))
			return nil
		})
		if found {
			return
		}
	}
	t.Fatalf("no file has %q", text)
}
