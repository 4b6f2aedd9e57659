package main

import (
	"bufio"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// silentAgent prints a line, and then ends when nobody reads its stdout any more.
func silentAgent() {
	fmt.Println("{}")
	for {
		fds := []unix.PollFd{{Fd: 1}}
		if _, err := unix.Poll(fds, -1); err != unix.EINTR {
			os.Exit(7)
		}
	}
}

// An agent that prints nothing learns all the same, and at once, that nobody
// reads any more.
func TestExecPassesTheReadersEndOn(t *testing.T) {
	cmd := spantee(t, []string{"OTEL_TRACES_EXPORTER=none"}, "exec", "--", lookPath(t, "silent-agent"))
	cmd.Stdout = nil
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	bufio.NewReader(out).ReadString('\n')
	out.Close()
	cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 7 {
		t.Errorf("status %d", got)
	}
	checkStderr(t, cmd.stderr.String(), "")
}
