//go:build unix

package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Whatever others do to the log of a running process, what it calls spooled is on disk and is
// sent once, and the rest is said to be lost.
func TestSpoolRemovedWhileRunning(t *testing.T) {
	t.Parallel()
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	removeAll := func(t *testing.T, folder string) {
		t.Helper()
		err := os.RemoveAll(folder)
		for errors.Is(err, syscall.ENOTEMPTY) { // spantee wrote into it meanwhile
			err = os.RemoveAll(folder)
		}
		must(t, err)
	}
	move := func(t *testing.T, from, to string) { t.Helper(); must(t, os.Rename(from, to)) }
	write := func(t *testing.T, path string, b []byte) { t.Helper(); must(t, os.WriteFile(path, b, 0o600)) }
	read := func(t *testing.T, path string) []byte {
		t.Helper()
		b, err := os.ReadFile(path)
		must(t, err)
		return b
	}
	// Each gets the path of the log, which is in the spool in the state folder.
	for name, disturb := range map[string]func(t *testing.T, log string){
		"removed":             func(t *testing.T, log string) { must(t, os.Remove(log)) },
		"folder removed":      func(t *testing.T, log string) { removeAll(t, filepath.Dir(log)) },
		"state removed":       func(t *testing.T, log string) { removeAll(t, filepath.Dir(filepath.Dir(log))) },
		"truncated":           func(t *testing.T, log string) { must(t, os.Truncate(log, 0)) },
		"a byte truncated":    func(t *testing.T, log string) { must(t, os.Truncate(log, int64(len(read(t, log))-1))) },
		"half truncated":      func(t *testing.T, log string) { must(t, os.Truncate(log, int64(len(read(t, log))/2))) },
		"appended to":         func(t *testing.T, log string) { write(t, log, append(read(t, log), "{}\n"...)) },
		"renamed":             func(t *testing.T, log string) { move(t, log, filepath.Join(filepath.Dir(log), "1-other.log")) },
		"renamed with .old":   func(t *testing.T, log string) { move(t, log, log+".old") },
		"moved out":           func(t *testing.T, log string) { move(t, log, filepath.Join(t.TempDir(), "log")) },
		"rewritten by a tool": func(t *testing.T, log string) { b := read(t, log); write(t, log+"~", b); move(t, log+"~", log) },
		"replaced by nothing": func(t *testing.T, log string) { write(t, log+"~", nil); move(t, log+"~", log) },
		"replaced by a link": func(t *testing.T, log string) {
			to := filepath.Join(t.TempDir(), "log")
			move(t, log, to)
			must(t, os.Symlink(to, log))
		},
		"linked and removed": func(t *testing.T, log string) {
			must(t, os.Link(log, filepath.Join(filepath.Dir(log), "1-other.log")))
			must(t, os.Remove(log))
		},
		"folder renamed": func(t *testing.T, log string) { move(t, filepath.Dir(log), filepath.Dir(log)+".old") },
		"folder replaced": func(t *testing.T, log string) {
			move(t, filepath.Dir(log), filepath.Dir(log)+".old")
			must(t, os.Mkdir(filepath.Dir(log), 0o700))
		},
		"folder copied and replaced": func(t *testing.T, log string) {
			move(t, filepath.Dir(log), filepath.Dir(log)+".old")
			must(t, os.CopyFS(filepath.Dir(log), os.DirFS(filepath.Dir(log)+".old")))
			must(t, os.Chmod(filepath.Dir(log), 0o700))
			must(t, os.Chmod(log, 0o600))
		},
		"replaced by a folder": func(t *testing.T, log string) { must(t, os.Remove(log)); must(t, os.Mkdir(log, 0o700)) },
		"folder replaced by a file": func(t *testing.T, log string) {
			removeAll(t, filepath.Dir(log))
			write(t, filepath.Dir(log), nil)
		},
		"folder replaced by others'": func(t *testing.T, log string) {
			removeAll(t, filepath.Dir(log))
			must(t, os.Mkdir(filepath.Dir(log), 0o700))
			must(t, os.Chmod(filepath.Dir(log), 0o777))
		},
	} {
		for when, rest := range map[string]int{"while it goes on": 20, "at its end": 0} {
			t.Run(name+" "+when, func(t *testing.T) {
				state, c := t.TempDir(), newCollector(t)
				env := append(c.environment("grpc"), "XDG_STATE_HOME="+state)
				lines := stream("s", 5)
				ended, _ := spansIn(t, lines, false)
				cmd := spantee(t, env)
				in, out := cmd.startPiped(t)
				go func() { cmd.stdout.ReadFrom(out) }()
				in.Write(bytes.Join(lines[:len(lines)-rest], nil))
				awaitFile(t, state, "agent.name") // all that ended is written at once
				var logs []string
				for len(logs) == 0 { // it has another name while it is written
					logs, _ = filepath.Glob(filepath.Join(state, "spantee", "spool", "[0-9]*.log"))
				}
				disturb(t, logs[0])
				in.Write(bytes.Join(lines[len(lines)-rest:], nil))
				in.Close()
				if err := cmd.Wait(); err != nil {
					t.Error(err)
				}
				said := cmd.stderr.String()
				spooled, lost := numberBefore(said, "spooled for retry"), numberBefore(said, "lost")
				if spooled+lost != len(ended) {
					t.Errorf("of %d spans: %s", len(ended), said)
				}
				c.start("well")
				if err := spantee(t, env, "flush").Run(); err != nil && lost == 0 {
					t.Error(err)
				}
				got, again := c.taken()
				if len(got) != spooled || again > 0 {
					t.Errorf("%d arrived, %d of them again, after: %s", len(got), again, said)
				}
				if lost == 0 {
					wantSpans(t, got, ended)
				}
				faults.add("log is removed while its process runs, "+name, len(ended), 0, len(got), lost)
			})
		}
	}
}
