package proc

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// BrokenPipe stands for a stdout without a reader, for which Windows has no signal.
const BrokenPipe = syscall.SIGPIPE

func QuitQuietly() {} // Windows has no SIGQUIT

func CatchSignals() <-chan os.Signal {
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	return c
}

// CatchForwarded takes Ctrl-C, which Windows sends to every process of the
// console, and passes nothing on: there are no other signals.
func CatchForwarded() <-chan os.Signal { return CatchSignals() }

func IsDeadly(os.Signal) bool { return true }

func fromTerminal(os.Signal) bool { return true }

func EndOf(state *os.ProcessState) Status { return Status{Code: state.ExitCode()} }

func SignalName(os.Signal) string { return "" }

// IsBrokenPipe reports whether a write failed because nobody reads any more.
func IsBrokenPipe(err error) bool {
	const errorNoData = syscall.Errno(232) // what writing to a closed pipe gives
	return errors.Is(err, syscall.ERROR_BROKEN_PIPE) || errors.Is(err, errorNoData)
}

func dieBy(s os.Signal) { os.Exit(Status{Signal: s}.ShellStatus()) }

// InForeground is always true: Windows has no job control.
func InForeground(*os.File) bool { return true }

// Windows has no process groups to end.
func setGroup(*exec.Cmd, *os.File) {}

func hasGroup(*os.Process) bool { return false }

func endProcess(p *os.Process, _ bool, _ time.Duration) { _ = p.Kill() }
