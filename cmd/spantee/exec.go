package main

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"

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
	agentStderr := stderr // the file itself, not a pipe
	if tracing.details {
		if tracing.stderr, err = newAgentStderr(stderr, say.w.patience); err != nil {
			return err
		}
		agentStderr = tracing.stderr.agents
	}
	limits := newLimits(o.limitOptions)
	tracing.watch.limits = limits
	agent, out, err := start(args, tracing.environment(), stdin, agentStderr, limits.ownGroup())
	tracing.stderr.start()
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
	disarm := dieOfNext(signals)
	limits.agentEnded()
	linger, stop := context.WithTimeout(context.Background(), lingering)
	defer stop()
	out.agentEnded()
	tracing.stderr.agentEnded()
	if !told {
		err = <-copied
	} else { // a signal asked for the end, whether anybody reads or not
		select {
		case err = <-copied:
		case <-linger.Done():
			pass.stop()
		}
	}
	tracing.stderr.awaitRead(linger.Done())
	if out.cut.Load() && (o.summary || say.terminal) && !o.quiet {
		say.line("a process left running by the agent still has stdout open; its output is lost from now on")
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
	if !tracing.stderr.flush() {
		say.w.abandon()
	}
	say.print()
	disarm()
	tracing.stay(end, signals)
	if end == (exitStatus{}) {
		return nil
	}
	return end
}

// start starts the agent, and returns its stdout.
func start(args, env []string, stdin, stderr *os.File, ownGroup bool) (agent *exec.Cmd, out *output, err error) {
	out, w, err := outputPipe()
	if err != nil {
		return nil, nil, err
	}
	defer w.Close()
	agent = exec.CommandContext(context.Background(), args[0], args[1:]...)
	agent.Env, agent.Stdin, agent.Stdout, agent.Stderr = env, stdin, w, stderr
	if ownGroup {
		setGroup(agent, stdin)
	}
	if err := agent.Start(); err != nil {
		out.Close()
		return nil, nil, err
	}
	return agent, out, nil
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
