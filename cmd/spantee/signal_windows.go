package main

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// brokenPipe stands for a stdout without a reader, for which Windows has no signal.
const brokenPipe = syscall.SIGPIPE

func quitQuietly() {} // Windows has no SIGQUIT

func catchSignals() <-chan os.Signal {
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	return c
}

// catchForwarded takes Ctrl-C, which Windows sends to every process of the
// console, and passes nothing on: there are no other signals.
func catchForwarded() <-chan os.Signal { return catchSignals() }

func isDeadly(os.Signal) bool { return true }

func fromTerminal(os.Signal) bool { return true }

func endOfProcess(state *os.ProcessState) exitStatus { return exitStatus{code: state.ExitCode()} }

func signalName(os.Signal) string { return "" }

func isBrokenPipe(err error) bool {
	const errorNoData = syscall.Errno(232) // what writing to a closed pipe gives
	return errors.Is(err, syscall.ERROR_BROKEN_PIPE) || errors.Is(err, errorNoData)
}

func dieBy(s os.Signal) {
	code := 128
	if sig, ok := s.(syscall.Signal); ok {
		code += int(sig)
	}
	os.Exit(code)
}

// inForeground is always true: Windows has no job control.
func inForeground(*os.File) bool { return true }
