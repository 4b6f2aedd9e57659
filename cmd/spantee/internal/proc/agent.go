// Package proc runs an agent as a child process: it starts the agent, passes signals on,
// reads the output, and ends spantee with the agent's status. It also handles spantee's
// own signals and stderr.
package proc

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"sync/atomic"
	"time"
)

// An Agent is the process that exec runs.
type Agent struct {
	Stdout *Output
	Stderr *AgentStderr // nil if it is spantee's own

	cmd     *exec.Cmd
	grouped bool // it leads a process group of its own
	killed  atomic.Bool
}

// killDelay is how long an agent has to end after SIGTERM.
const killDelay = 5 * time.Second

// Start starts an agent. If patience is not 0, the agent's stderr is read and passed on to
// stderr, which may block for as long as that after the agent exits. With ownGroup, the agent
// gets a process group of its own if it can have one.
func Start(args, env []string, stdin, stderr *os.File, patience time.Duration, ownGroup bool) (*Agent, error) {
	out, w, err := outputPipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	a := &Agent{Stdout: out, cmd: exec.CommandContext(context.Background(), args[0], args[1:]...)}
	a.cmd.Env, a.cmd.Stdin, a.cmd.Stdout, a.cmd.Stderr = env, stdin, w, stderr
	if patience > 0 {
		in, w, err := outputPipe()
		if err != nil {
			out.Close()
			return nil, err
		}
		defer w.Close()
		a.cmd.Stderr, a.Stderr = w, newAgentStderr(in, stderr, patience)
	}
	if ownGroup {
		setGroup(a.cmd, stdin)
	}
	if err := a.cmd.Start(); err != nil {
		out.Close()
		return nil, err
	}
	a.grouped = hasGroup(a.cmd.Process)
	return a, nil
}

// NotStarted returns the status for an error of Start.
func NotStarted(err error) Status {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return Status{Code: StatusNotFound}
	}
	return Status{Code: StatusNotExecutable}
}

// PID returns the agent's process id.
func (a *Agent) PID() int { return a.cmd.Process.Pid }

// Wait waits for the agent's end and passes signals on to it. signaled reports
// whether one of them was deadly. After that, the agent's output ends soon.
func (a *Agent) Wait(signals <-chan os.Signal) (end Status, signaled bool) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = a.cmd.Wait() // ProcessState says how the agent ended
	}()
	for {
		select {
		case s := <-signals:
			if !fromTerminal(s) || hasGroup(a.cmd.Process) {
				_ = a.cmd.Process.Signal(s) // the agent may have just ended
				signaled = signaled || IsDeadly(s)
			}
		case <-ended:
			if a.killed.Load() && a.grouped {
				endProcess(a.cmd.Process, true, 0) // what the agent left running
			}
			a.Stdout.agentEnded()
			a.Stderr.agentEnded()
			return EndOf(a.cmd.ProcessState), signaled
		}
	}
}

// Kill ends the agent, or its group if it leads one.
func (a *Agent) Kill() {
	if !a.killed.Swap(true) {
		go endProcess(a.cmd.Process, a.grouped, killDelay)
	}
}
