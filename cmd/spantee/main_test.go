package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"

	"github.com/spantee/spantee/exporter/receiver/receivertest"
	"github.com/spantee/spantee/exporter/tree/treetest"
)

var update = flag.Bool("update", false, "rewrite what the scripts expect")

func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){"spantee": main, "collector": collectorMain, "splice-writer": spliceWriter})
}

// tests runs the tests, unless this process is a spantee command that a test started.
type tests struct{ m *testing.M }

func (t tests) Run() int {
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, "OTEL_") || strings.HasPrefix(name, "SPANTEE_T") || strings.HasPrefix(name, "TRACE") || strings.HasPrefix(name, "GITHUB_") {
			os.Unsetenv(name) // a developer's own collector is not to be tested
		}
	}
	// What nohup or a shell has ignored would stay ignored in the commands that the
	// tests run, which then would not end. A signal that is caught here has its
	// default in them.
	caught := make(chan os.Signal, 1)
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM} {
		if signal.Ignored(s) {
			signal.Notify(caught, s)
		}
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	_ = flag.Set("test.parallel", "8") // most tests wait for processes; -parallel overrides it
	code := t.m.Run()
	faults.print(os.Stdout)
	if err := errors.Join(faults.check(), goleak.Find()); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// long skips a test that takes a second or more if -short is set.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds")
	}
}

// thorough is read before Run takes spantee's own variables out of the environment.
var thorough = os.Getenv("SPANTEE_THOROUGH") != ""

// cases returns how many cases a test tries: the greater number for .ci/run.
func cases(few, many int) int {
	if thorough {
		return many
	}
	return few
}

// slow skips a test that takes half a minute or more, unless .ci/run has set the
// variable.
func slow(t *testing.T) {
	t.Helper()
	if !thorough {
		t.Skip("takes half a minute: set SPANTEE_THOROUGH")
	}
}

// TestScripts runs what a user types. A script has a receiver of its own, to
// which the environment points; "trace FILE" writes what the receiver got, and
// "arrived N" waits for N roots.
func TestScripts(t *testing.T) {
	fixtures, err := filepath.Abs("../../testdata/cursor")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "../../testdata/script",
		RequireExplicitExec: true,
		UpdateScripts:       *update,
		Setup: func(env *testscript.Env) error {
			r := receivertest.Start(env.T().(testing.TB))
			env.Values["receiver"] = r
			env.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", r.GRPCEndpoint())
			env.Setenv("HTTP_ENDPOINT", r.HTTPEndpoint())
			env.Setenv("TAKEN", strings.TrimPrefix(r.HTTPEndpoint(), "http://"))
			env.Setenv("FIXTURES", fixtures)
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "state"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"trace": func(ts *testscript.TestScript, _ bool, args []string) {
				r := ts.Value("receiver").(*receivertest.Receiver)
				ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(treetest.Golden(r.Spans())), 0o644))
			},
			"arrived": func(ts *testscript.TestScript, _ bool, args []string) {
				r := ts.Value("receiver").(*receivertest.Receiver)
				n, err := strconv.Atoi(args[0])
				ts.Check(err)
				r.Await(func() bool { return countRoots(r.Spans()) >= n })
			},
		},
	})
}

func countRoots(spans []*tracepb.Span) (roots int) {
	for _, span := range spans {
		if len(span.ParentSpanId) == 0 {
			roots++
		}
	}
	return roots
}

// A run of the spantee command.
type run struct {
	stdout, stderr bytes.Buffer
	*exec.Cmd
}

// spantee prepares to run the command with extra variables in its environment,
// and a spool of its own unless they name one.
func spantee(t *testing.T, env []string, args ...string) *run {
	t.Helper()
	path, err := exec.LookPath("spantee")
	if err != nil {
		t.Fatal(err)
	}
	r := &run{Cmd: exec.Command(path, args...)}
	r.Stdout, r.Stderr = &r.stdout, &r.stderr
	r.Env = append(append(os.Environ(), "XDG_STATE_HOME="+t.TempDir(), "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1"), env...)
	return r
}

// startPiped starts a command between two pipes.
func (r *run) startPiped(t *testing.T) (in io.WriteCloser, out io.ReadCloser) {
	t.Helper()
	r.Stdout = nil
	in, err := r.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if out, err = r.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	return in, out
}

func fixture(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("../../testdata/cursor/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// until waits for something that only the disk tells.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for again := time.NewTicker(10 * time.Millisecond); !ok(); {
		select {
		case <-again.C:
		case <-deadline:
			t.Fatal("no ", what)
		}
	}
}

// lookPath skips a test if the machine lacks a program, but not for .ci/run.
func lookPath(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && !thorough {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}
