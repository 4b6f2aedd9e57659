//go:build unix

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/spool"
)

// slowDisk names a variable that makes calls on the spool's disk slow, in the
// commands that a test starts: "rename 25ms".
const slowDisk = "SPANTEE_TEST_SLOW_DISK"

func init() {
	call, delay, ok := strings.Cut(os.Getenv(slowDisk), " ")
	if d, err := time.ParseDuration(delay); ok && err == nil {
		slow := func(c string) {
			if c == call {
				time.Sleep(d)
			}
		}
		spool.OnDisk.Store(&slow)
	}
}

// TestStorm runs the command many times at once, over one spool, while commands,
// flushes and the collector are killed at random. In the end every trace has its
// root, no span lacks its parent, and no span is there in two versions.
func TestStorm(t *testing.T) {
	t.Parallel()
	s := newStorm(t)
	over := make(chan struct{})
	var chaos, workers sync.WaitGroup
	chaos.Go(func() { s.killCollectors(over) })
	chaos.Go(func() { s.killFlushes(over) })
	work := make(chan int)
	for range 6 {
		workers.Go(func() {
			for i := range work {
				s.run(i)
			}
		})
	}
	for i := range cases(20, 500) {
		work <- i
	}
	close(work)
	workers.Wait()
	close(over)
	chaos.Wait()
	s.check()
}

type storm struct {
	t     *testing.T
	state string
	dir   string // of what collectors took
	c     *collector
	env   []string

	mu         sync.Mutex
	runs       []stormRun
	files      []string
	collectors int // that were killed
	flushes    int
}

// A stormRun is a session, and what is known of it from outside.
type stormRun struct {
	session string
	slow    bool
	killed  time.Time            // zero if it was not
	ended   map[string]time.Time // tools whose end had come out, by their call ids
	done    bool                 // so had the result
}

func newStorm(t *testing.T) *storm {
	s := &storm{t: t, state: t.TempDir(), dir: t.TempDir(), c: newCollector(t)}
	s.startCollector()
	s.env = append(s.c.environment("grpc"), "XDG_STATE_HOME="+s.state)
	return s
}

func (s *storm) startCollector() {
	s.mu.Lock()
	s.c.file = filepath.Join(s.dir, fmt.Sprint(len(s.files)))
	s.files = append(s.files, s.c.file)
	s.mu.Unlock()
	s.c.start("well")
}

func (s *storm) environment(slow bool) []string {
	env := slices.Clone(s.env)
	if slow {
		calls := []string{"rename", "create", "append"}
		env = append(env, fmt.Sprintf("%s=%s %dms", slowDisk, calls[rand.IntN(len(calls))], 25+rand.IntN(200)))
	}
	return env
}

func pause(most time.Duration) { time.Sleep(rand.N(most + 1)) } // chaos, not synchronisation

func (s *storm) killCollectors(over chan struct{}) {
	for {
		select {
		case <-over:
			return
		case <-time.After(rand.N(800 * time.Millisecond)):
		}
		s.c.kill()
		pause(200 * time.Millisecond)
		s.startCollector()
		s.collectors++
	}
}

func (s *storm) killFlushes(over chan struct{}) {
	for {
		select {
		case <-over:
			return
		case <-time.After(rand.N(500 * time.Millisecond)):
		}
		cmd := spantee(s.t, s.environment(rand.IntN(2) == 0), "flush")
		if err := cmd.Start(); err != nil {
			s.t.Error(err)
			return
		}
		pause(150 * time.Millisecond)
		cmd.Process.Kill()
		cmd.Wait()
		s.flushes++
	}
}

// stormStream is a session whose ids are provisional until its first stamp, a few
// lines in.
func stormStream(session string) (lines [][]byte) {
	at := time.Now().UnixMilli()
	stampFrom := rand.IntN(8)
	line := func(format string, args ...any) {
		at += 7
		stamp := ""
		if len(lines) >= stampFrom {
			stamp = fmt.Sprintf(`,"timestamp_ms":%d`, at)
		}
		lines = append(lines, fmt.Appendf(nil, format+`,"session_id":"%s"%s}`+"\n", append(args, session, stamp)...))
	}
	line(`{"type":"system","subtype":"init","model":"GPT-5"`)
	for i := range 1 + rand.IntN(8) {
		for range rand.IntN(4) {
			line(`{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"some words "}]}`)
		}
		line(`{"type":"tool_call","subtype":"started","call_id":"%d","tool_call":{"readToolCall":{"args":{"path":"p"}}}`, i)
		line(`{"type":"tool_call","subtype":"completed","call_id":"%d","tool_call":{"readToolCall":{"args":{"path":"p"},"result":{"success":{"content":"c"}}}}`, i)
	}
	line(`{"type":"result","subtype":"success","is_error":false,"duration_ms":%d,"result":"done"`, 7*len(lines))
	return lines
}

func (s *storm) run(i int) {
	r := stormRun{session: fmt.Sprint("s", i), slow: rand.IntN(2) == 0, ended: map[string]time.Time{}}
	lines := stormStream(r.session)
	rhythm := []time.Duration{0, 5 * time.Millisecond, 100 * time.Millisecond}[rand.IntN(3)]
	cmd := spantee(s.t, s.environment(r.slow))
	cmd.Stdout = nil
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err1 != nil || err2 != nil || cmd.Start() != nil {
		s.t.Error("cannot start", err1, err2)
		return
	}
	var writing sync.WaitGroup
	writing.Go(func() {
		defer in.Close()
		for _, line := range lines {
			if _, err := in.Write(line); err != nil {
				return // it was killed
			}
			pause(rhythm)
		}
	})
	var kill *time.Timer
	killed := make(chan time.Time, 1)
	if rand.IntN(3) > 0 {
		kill = time.AfterFunc(rand.N(time.Duration(len(lines))*rhythm/2+100*time.Millisecond), func() {
			killed <- time.Now()
			cmd.Process.Kill()
		})
	}
	for echo := bufio.NewScanner(out); echo.Scan(); {
		line := echo.Bytes()
		if i := bytes.Index(line, []byte(`"completed","call_id":"`)); i >= 0 {
			id, _, _ := bytes.Cut(line[i+len(`"completed","call_id":"`):], []byte(`"`))
			r.ended[string(id)] = time.Now()
		}
		r.done = r.done || bytes.Contains(line, []byte(`"type":"result"`))
	}
	err := cmd.Wait()
	switch {
	case kill != nil && !kill.Stop() && err != nil:
		r.killed = <-killed
	case err != nil:
		s.t.Errorf("%s: %v, %s", r.session, err, cmd.stderr.String())
	}
	writing.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs = append(s.runs, r)
}

// taken is what all collectors took, each span once. Two versions of a span are
// an error.
func (s *storm) taken() (spans map[string]*tracepb.Span, again int) {
	spans = map[string]*tracepb.Span{}
	for _, file := range s.files {
		s.c.file = file
		more, twice := s.c.taken()
		again += twice
		for id, span := range more {
			if before := spans[id]; before != nil {
				again++
				if !proto.Equal(before, span) {
					s.t.Errorf("%s came twice, and not the same:\n%v\n%v", span.Name, before, span)
				}
			}
			spans[id] = span
		}
	}
	return spans, again
}

func (s *storm) check() {
	t := s.t
	flushed := spantee(t, s.environment(false), "flush")
	if err := flushed.Run(); err != nil {
		t.Errorf("flush: %v, %s", err, flushed.stdout.String())
	}
	left, err := spool.Spool{Dir: filepath.Join(s.state, "spantee/spool")}.List()
	if len(left) > 0 || err != nil {
		t.Errorf("left in the spool: %+v, %v", left, err)
	}
	spans, again := s.taken()

	roots := map[string]bool{}      // by trace
	traces := map[string][]string{} // by session
	tools := map[string]bool{}      // by session and call
	orphans, rootless := 0, map[string]bool{}
	for _, span := range spans {
		if len(span.ParentSpanId) == 0 {
			roots[string(span.TraceId)] = true
		} else if spans[fmt.Sprintf("%x-%x", span.TraceId, span.ParentSpanId)] == nil {
			orphans++
		}
		session := attribute(span, "session.id")
		if trace := string(span.TraceId); !slices.Contains(traces[session], trace) {
			traces[session] = append(traces[session], trace)
		}
		if id := attribute(span, "gen_ai.tool.call.id"); id != "" && errorType(span) != "killed" {
			tools[session+"/"+id] = true
		}
	}
	for _, span := range spans {
		if !roots[string(span.TraceId)] {
			rootless[string(span.TraceId)] = true
		}
	}
	torn := 0
	for _, ids := range traces {
		if len(ids) > 1 {
			torn++
		}
	}
	killed, ended, arrived := 0, 0, 0
	missing := map[bool][]time.Duration{}
	for _, r := range s.runs {
		if !r.killed.IsZero() {
			killed++
		}
		for id, at := range r.ended {
			ended++
			switch {
			case tools[r.session+"/"+id]:
				arrived++
			case r.killed.IsZero():
				t.Errorf("%s was not killed, and its tool %s is missing", r.session, id)
			default:
				missing[r.slow] = append(missing[r.slow], r.killed.Sub(at).Round(time.Millisecond/10))
			}
		}
	}
	if orphans > 0 || len(rootless) > 0 || torn > 0 {
		t.Errorf("%d spans without their parent, %d traces without a root, %d sessions in two traces", orphans, len(rootless), torn)
	}
	t.Logf("%d runs, %d of them killed, %d collectors and %d flushes killed; %d spans, %d of them twice; %d of %d tools missing",
		len(s.runs), killed, s.collectors, s.flushes, len(spans), again, ended-arrived, ended)
	for slow, ages := range missing {
		slices.Sort(ages)
		t.Logf("missing tools ended so long before their kill (slow disk: %v): %v", slow, ages)
	}
	faults.add("storm of SIGKILLs", ended, arrived, 0, ended-arrived)
}
