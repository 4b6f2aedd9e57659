package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/spantee/spantee/cmd/spantee/internal/follow"
	"github.com/spantee/spantee/cmd/spantee/internal/proc"
	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/content"
)

const execUsage = `exec runs an agent as its child:

  spantee exec -- cursor-agent -p --output-format stream-json "fix it" | jq .

The agent's stdout goes through spantee. The agent keeps its stdin, stderr and
terminal; spantee passes signals on and exits with the agent's status. One
second after the agent exits, leftover processes lose stdout. With
--content=details or full, stderr goes through spantee, too, and leftover
processes lose both. spantee sets $TRACEPARENT for the agent, so that processes
started by its tools can join the trace. The root span records how the agent
ended.`

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
	o.addFlags(cmd)
	o.addLogFlag(cmd)
	o.addBaselineFlag(cmd)
	o.addViewFlags(cmd)
	o.limits.AddFlags(cmd)
	cmd.Flags().SetInterspersed(false) // flags after the command are the command's
	return cmd
}

// runAgent is like filter, with the agent as a child process.
func runAgent(o *options, args []string, stdin, stdout, stderr *os.File) error {
	signals := proc.CatchForwarded()
	process := tracer.NewProcess(args...)
	setup, err := setUp(o, stderr, source{Options: mapping.Options{Process: process, Printed: true, ReadLog: follow.ReadLog}})
	if err != nil {
		return err
	}
	reporter, ending := setup.sinks.reporter, setup.ending
	var stderrPatience time.Duration // 0 if the agent writes to spantee's stderr itself
	if setup.sinks.cfg.content.Content != content.None {
		stderrPatience = o.patience()
	}
	limits := setup.sinks.limits
	agent, err := proc.Start(args, setup.environment(), stdin, stderr, stderrPatience, limits.MayKill())
	if err != nil {
		ending.endAll(0)
		reporter.failed(err)
		end := ending.conclude(proc.NotStarted(err))
		reporter.w.Flush()
		return end
	}
	process.PID = agent.PID()
	if limits != nil {
		limits.Agent = agent
	}
	out := agent.Stdout
	if root := setup.stream.Mapper.Root(); setup.sinks.any() {
		reporter.runStarted(mapping.Run{TraceID: root.TraceID()})
	}
	loop := setup.start(out, stdout)
	copied := make(chan error, 1)
	closeStdout := sync.OnceValue(stdout.Close)
	go func() {
		err := loop.tee.Copy()
		out.Close() // so that the agent's writes fail if nobody reads
		if err == nil {
			_ = closeStdout() // so that what follows in the pipe can finish, even if the agent goes on
		}
		copied <- err
	}()
	end, signaled := agent.Wait(signals)
	disarm := proc.DieOfNext(signals)
	linger, stop := context.WithTimeout(context.Background(), proc.Lingering)
	defer stop()
	var over <-chan struct{} // ends the copy, whether anybody reads or not
	if signaled {
		over = linger.Done()
	}
	select {
	case err = <-copied:
	case <-over:
		loop.tee.Stop()
	}
	agent.Stderr.AwaitRead(linger.Done())
	if out.Cut() {
		reporter.note("a process left running by the agent still has stdout open; its output is lost from now on")
	}
	ended := end
	ofResult := make(chan proc.Status, 1) // if spantee ended the agent after its result
	loop.atEnd = func(m *mapping.Mapper) {
		m.SetExit(ended.Code, proc.SignalName(ended.Signal), agent.Stderr.String())
		if limits == nil || !limits.AfterResult || signaled {
			return
		}
		if errorType, finished := m.Finished(); finished { // it has not begun another run
			m.SetEndedAfterResult()
			var status proc.Status
			if errorType != "" {
				status.Code = proc.StatusFailed
			}
			ofResult <- status
		}
	}
	lost := endOfCopy(err).Code != 0
	if closed := closeStdout(); closed != nil && !proc.IsBrokenPipe(closed) && !lost {
		lost, err = true, closed
	}
	if lost {
		reporter.failed(err)
	}
	loop.end(false)
	select {
	case end = <-ofResult:
	default:
	}
	if lost && end == (proc.Status{}) { // the agent may succeed although its output was lost
		end.Code = proc.StatusFailed
	}
	if !agent.Stderr.Flush() {
		reporter.w.EndBy(time.Now()) // what spantee says is not read either
	}
	return ending.finish(end, signals, disarm)
}

// environment returns the environment of the process, with the trace that it is
// part of.
func (s *setup) environment() []string {
	env := os.Environ()
	if s.sinks.exporter == nil {
		return env
	}
	env = slices.DeleteFunc(env, func(kv string) bool {
		return strings.HasPrefix(kv, "TRACEPARENT=") || strings.HasPrefix(kv, "TRACESTATE=")
	})
	root := s.stream.Mapper.Root()
	if !s.sinks.cfg.sampler.Keeps(root.TraceID()) {
		root = root.WithTraceFlags(root.TraceFlags().WithSampled(false))
	}
	return append(env, tracer.Environment(root)...)
}
