package main

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/mapping"
)

const execUsage = `exec runs an agent as its child:

  spantee exec -- cursor-agent -p --output-format stream-json "fix the test" | jq -r .type

The agent's stdout goes through spantee. The agent keeps its stdin, stderr and
terminal; spantee passes signals on and exits with the agent's status. One second
after the agent exits, leftover processes lose stdout. With --content=details or
full, stderr goes through spantee, too, and leftover processes lose both. spantee
sets $TRACEPARENT for the agent, so that processes started by its tools can join
the trace. The root span records how the agent ended.`

func execCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "exec [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run an agent and trace it",
		Long:  execUsage,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return &exporter.Error{Err: errors.New("no command to run"), Hint: "spantee exec -- COMMAND"}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			return runAgent(&o, args, os.Stdin, os.Stdout, os.Stderr)
		},
	}
	o.addFlags(cmd.Flags())
	o.addViewFlags(cmd.Flags())
	o.limitOptions.addFlags(cmd.Flags())
	cmd.Flags().SetInterspersed(false) // flags after the command are the command's
	return cmd
}

// runAgent is like filter, with the agent as a child process.
func runAgent(o *options, args []string, stdin, stdout, stderr *os.File) error {
	if err := o.limitOptions.check(); err != nil {
		return err
	}
	cfg, err := o.resolve()
	if err != nil {
		return err
	}
	signals := catchForwarded()
	say := newReporter(o, cfg, stderr)
	say.child = true
	process := &mapping.Process{Executable: filepath.Base(args[0])}
	_, _ = rand.Read(process.Key[:]) // it never fails
	tracing, err := startTracing(o, cfg, say, nil, process)
	if err != nil {
		return err
	}
	var agentStderr io.Writer = stderr // the file itself, not a pipe
	if tracing.details {
		tracing.stderr.w = stderr
		agentStderr = &tracing.stderr
	}
	limits := newLimits(o.limitOptions)
	tracing.watch.limits = limits
	agent, out, err := start(args, tracing.environment(), stdin, agentStderr, limits.ownGroup())
	if err != nil {
		tracing.end(false)
		say.line("%v", err)
		say.w.Flush()
		return notStarted(err)
	}
	process.PID = agent.Process.Pid
	limits.startedAs(agent.Process)
	if root := tracing.mapper.Root(); say.hasDestination {
		say.runStarted(mapping.Run{TraceID: root.TraceID()})
	}
	tracing.status = newStatusLine(say, stdout)
	tracing.start()

	pass := newPassthrough(out, stdout, tracing.tap)
	copied := make(chan error, 1)
	stopWatch := watchClosed(stdout, func() { out.Close() }) // so that the agent's next write fails
	closeStdout := sync.OnceValue(func() error {
		stopWatch()
		return stdout.Close()
	})
	go func() {
		err := pass.run()
		if errors.Is(err, os.ErrClosed) {
			err = errOutput{syscall.EPIPE}
		}
		out.Close() // so that the agent's writes fail if nobody reads
		if err == nil {
			_ = closeStdout() // so that what follows in the pipe can finish, even if the agent goes on
		}
		copied <- err
	}()
	end, told := waitFor(agent, signals)
	restoreSignals() // the next signal kills
	limits.agentEnded()
	out.agentEnded()
	if !told {
		err = <-copied
	} else { // a signal asked for the end, whether anybody reads or not
		select {
		case err = <-copied:
		case <-time.After(lingering):
			pass.stop()
		}
	}
	if out.cut.Load() && (o.summary || say.terminal) && !o.quiet {
		say.line("a process that the agent left running still has its stdout open; its output is lost from now on")
	}
	tracing.ended = end
	lost := endOfCopy(err).code != 0
	if closed := closeStdout(); closed != nil && !isBrokenPipe(closed) && !lost {
		lost, err = true, closed
	}
	if lost {
		say.line("%v", err)
		if end == (exitStatus{}) { // the agent may succeed although its output was lost
			end.code = statusFailed
		}
	}
	tracing.end(false)
	say.print()
	tracing.stay(end)
	if end == (exitStatus{}) {
		return nil
	}
	return end
}

// start starts the agent, and returns its stdout.
func start(args, env []string, stdin *os.File, stderr io.Writer, ownGroup bool) (agent *exec.Cmd, out *output, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer w.Close()
	agent = exec.CommandContext(context.Background(), args[0], args[1:]...)
	agent.Env, agent.Stdin, agent.Stdout, agent.Stderr = env, stdin, w, stderr
	if ownGroup {
		setGroup(agent, stdin)
	}
	agent.WaitDelay = lingering // for stderr, if it is a pipe
	if err := agent.Start(); err != nil {
		r.Close()
		return nil, nil, err
	}
	return agent, &output{File: r, patience: lingering}, nil
}

// lingering is the total time to wait for output after the agent's end: a process
// that the agent left running may keep the pipe open forever.
const lingering = time.Second

// An output reads the agent's stdout. After the agent's end it returns EOF once
// there is nothing more to read, even if another process still has the pipe open.
type output struct {
	*os.File
	over     atomic.Bool
	cut      atomic.Bool   // another process still had the pipe open
	patience time.Duration // remaining time
}

func (o *output) Read(p []byte) (int, error) {
	for {
		over := o.over.Load()
		began := time.Now()
		if over {
			// Data already in the pipe is read, however long writing it takes.
			_ = o.SetReadDeadline(began.Add(max(o.patience, 10*time.Millisecond)))
		}
		n, err := o.File.Read(p)
		if over {
			o.patience -= time.Since(began)
		}
		switch {
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return n, err
		case o.patience <= 0:
			o.cut.Store(true)
			return 0, io.EOF
		}
	}
}

// agentEnded wakes a Read that is waiting.
func (o *output) agentEnded() {
	o.over.Store(true)
	_ = o.SetReadDeadline(time.Now()) // Windows has no deadlines: there, Read waits for whoever has the pipe open
}

func notStarted(err error) exitStatus {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exitStatus{code: statusNotFound}
	}
	return exitStatus{code: statusNotExecutable}
}

// waitFor waits for the agent's end and forwards signals to it. told reports
// whether a deadly signal was forwarded.
func waitFor(agent *exec.Cmd, signals <-chan os.Signal) (end exitStatus, told bool) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = agent.Wait() // ProcessState says how the agent ended
	}()
	for {
		select {
		case s := <-signals:
			if !fromTerminal(s) || hasGroup(agent.Process) {
				_ = agent.Process.Signal(s) // the agent may have just ended
				told = told || isDeadly(s)
			}
		case <-ended:
			return endOfProcess(agent.ProcessState), told
		}
	}
}

// keptStderr is how much of an agent's stderr is kept. It is more than a span may
// have, because half of a secret cannot be recognized.
const keptStderr = 16 << 10

// A tail passes on what is written to it at once, and keeps the last part.
type tail struct {
	w    io.Writer
	mu   sync.Mutex
	kept []byte
}

func (t *tail) Write(p []byte) (int, error) {
	n, err := t.w.Write(p)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p[:n]...)
	if over := len(t.kept) - keptStderr; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return n, err
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.kept)
}
