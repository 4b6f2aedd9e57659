//go:build unix

package main

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A signal ends the commands that read files, even if a file blocks or never ends.
func TestASignalEndsReading(t *testing.T) {
	dir := t.TempDir()
	fifo := func(name string) string {
		path := filepath.Join(dir, name)
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	unwritten, idle, unread := fifo("unwritten"), fifo("idle"), fifo("unread")
	writer, err := os.OpenFile(idle, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	const missing, recorded = "no-such-file", "../../testdata/cursor/killed.jsonl"
	view := append([]string{"view", "--no-open", "--listen", "127.0.0.1:0"}, freePorts...)
	export := []string{"view", "--export", filepath.Join(dir, "page.html")}
	for i, args := range [][]string{
		append(view, missing, unwritten),
		append(view, missing, idle),
		append(view, missing, "/dev/zero"),
		append(export, missing, unwritten),
		append(export, missing, "/dev/zero"),
		{"view", "--export", unread, missing, recorded},
		{"replay", missing, unwritten},
		{"replay", missing, idle},
		{"replay", missing, "/dev/zero"},
		{"replay", "--now", missing, "/dev/zero"},
	} {
		sig := []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}[i%2]
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			cmd := spantee(t, nil, slices.Clone(args)...)
			cmd.Stderr = nil
			stderr, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer time.AfterFunc(time.Minute, func() { cmd.Process.Kill() }).Stop()
			said := bufio.NewReader(stderr)
			if line, err := said.ReadString('\n'); !strings.Contains(line, missing) { // signals are caught by then
				t.Errorf("%q, %v", line, err)
			}
			cmd.Process.Signal(sig)
			if got := signalOf(t, cmd.Wait()); got != sig {
				t.Errorf("died of %v", got)
			}
		})
	}
}
