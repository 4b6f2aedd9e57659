//go:build unix

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spantee/spantee/exporter/receiver/receivertest"
	"github.com/spantee/spantee/exporter/viewer"
)

// The page stays when the stream has ended. The stream and the exit status are
// as without it.
func TestViewStays(t *testing.T) {
	v := startView(t, recordedRun(t, "../../testdata/cursor/fix-failing-test.jsonl"), "--view")
	if line, err := v.stderr.ReadString('\n'); line != "spantee: serving the page until Ctrl-C\n" {
		t.Fatalf("%q %v", line, err)
	}
	if l := v.list(t); len(l.Sessions) != 1 || l.Sessions[0].Spans != 11 || !l.Sessions[0].Ended {
		t.Errorf("%+v", l.Sessions)
	}
	if err := v.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(v.stderr)
	if err := v.cmd.Wait(); err != nil || len(rest) > 0 {
		t.Errorf("%v, and it says %q", err, rest)
	}
	if !bytes.Equal(v.cmd.stdout.Bytes(), fixture(t, "fix-failing-test.jsonl")) {
		t.Error("the stream came out changed")
	}
}

// A signal while the stream goes on ends both, as without the page.
func TestViewInterrupted(t *testing.T) {
	stdin, lines, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	defer lines.Close()
	v := startView(t, stdin, "--view")
	if err := v.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	err = v.cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGINT {
		t.Errorf("%v", err)
	}
}

// Spans go to the page alone, unless somebody said where else.
func TestViewAndElsewhere(t *testing.T) {
	r := receivertest.Start(t)
	v := startView(t, recordedRun(t, "../../testdata/cursor/killed.jsonl"), "--view", "--endpoint", r.GRPCEndpoint())
	if _, err := v.stderr.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if got, want := len(r.Spans()), v.list(t).Sessions[0].Spans; got != want {
		t.Errorf("%d spans went elsewhere, %d are shown", got, want)
	}
}

// A viewer that is stopped in the middle of a run holds the run until the flush timeout, and
// not until gRPC or a request gives up, which takes 3 to 13 seconds.
func TestFaultStoppedViewer(t *testing.T) {
	t.Parallel()
	in := fixture(t, "parallel-tools.jsonl")
	begin := bytes.IndexByte(in, '\n') + 1
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		t.Run(protocol, func(t *testing.T) {
			v := viewFiles(t)
			endpoint := v.grpc
			if protocol != "grpc" {
				endpoint = v.http
			}
			cmd := spantee(t, nil, "--endpoint", endpoint, "--protocol", protocol, "--flush-timeout=300ms")
			cmd.Env = v.cmd.Env
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := stdin.Write(in[:begin]); err != nil {
				t.Fatal(err)
			}
			until(t, "live session", func() bool { return len(v.list(t).Sessions) > 0 })
			if err := v.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			if _, err := syscall.Wait4(v.cmd.Process.Pid, nil, syscall.WUNTRACED, nil); err != nil { // until all of it has stopped
				t.Fatal(err)
			}
			if _, err := stdin.Write(in[begin:]); err != nil {
				t.Fatal(err)
			}
			ended := time.Now()
			stdin.Close()
			if err := cmd.Wait(); err != nil {
				t.Errorf("spantee: %v", err)
			}
			held := time.Since(ended)
			if t.Logf("held for %v", held.Round(time.Millisecond)); held > 2500*time.Millisecond {
				t.Errorf("the run was held for %v", held)
			}
			if !bytes.Equal(cmd.stdout.Bytes(), in) {
				t.Error("other bytes came out")
			}
			var spooled, all int
			checkStderr(t, cmd.stderr.String(), "spooled for retry")
			if _, err := fmt.Sscanf(cmd.stderr.String(), "spantee: %d of %d spans not delivered:", &spooled, &all); err != nil {
				t.Errorf("stderr %q: %v", cmd.stderr.String(), err)
			}
			faults.add("viewer is stopped, "+protocol, all, all-spooled, spooled, 0)
		})
	}
}

// Ctrl-C is how view ends.
func TestViewEnds(t *testing.T) {
	v := viewFiles(t)
	if err := v.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := v.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// What a viewer has accepted when SIGTERM ends it is there afterwards, and nothing is said of
// the rest, which the senders keep. So it is if its database is emptied meanwhile, but for what
// it then says.
func TestViewEndsWhileSending(t *testing.T) {
	t.Parallel()
	for name, empty := range map[string]bool{"ends": false, "emptied, and ends": true} {
		t.Run(name, func(t *testing.T) {
			state := t.TempDir()
			v := startViewIn(t, state, append([]string{"view", "--listen", "127.0.0.1:0"}, freePorts...)...)
			var senders sync.WaitGroup
			var mu sync.Mutex
			accepted := map[string]bool{}
			await := func(n int) {
				t.Helper()
				until(t, "requests", func() bool { mu.Lock(); defer mu.Unlock(); return len(accepted) > n })
			}
			for sender := range 8 {
				senders.Go(func() {
					endpoint := []string{v.http, v.page}[sender%2] + "/v1/traces"
					if sender < 3 {
						endpoint = ""
					}
					for i := 0; ; i++ {
						m := newMade(fmt.Sprint(sender, " ", i))
						m.span(nil, "invoke_agent x", 0, 1)
						if endpoint == "" {
							if upload(v.grpc, m.request()) != nil {
								return
							}
						} else {
							response, err := http.Post(endpoint, "application/x-protobuf", bytes.NewReader(encodeRequest(m.request())))
							if err != nil || response.StatusCode != http.StatusOK {
								return
							}
							response.Body.Close()
						}
						mu.Lock()
						accepted[fmt.Sprintf("%x", m.trace)] = true
						mu.Unlock()
					}
				})
			}
			await(100)
			if empty {
				mu.Lock()
				clear(accepted)
				mu.Unlock()
				if err := os.Truncate(filepath.Join(state, "spantee", "viewer", "sessions.db"), 0); err != nil {
					t.Fatal(err)
				}
				await(200)
			}
			if err := v.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			said, _ := io.ReadAll(v.stderr)
			if err := v.cmd.Wait(); err != nil || strings.Contains(string(said), "sql") || len(said) > 0 && !empty {
				t.Errorf("%v, and it said %s", err, said)
			}
			senders.Wait()
			store, err := viewer.Open(filepath.Join(state, "spantee", "viewer", "sessions.db"), viewer.Retention{}, func(err error) { t.Error(err) })
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			lost := 0
			for id := range accepted {
				if found, err := store.Find(t.Context(), id); err != nil || len(found) == 0 {
					lost++
				}
			}
			if lost > 0 && !strings.Contains(string(said), "emptied") {
				t.Errorf("%d of %d accepted sessions are gone, and it said %q", lost, len(accepted), said)
			}
		})
	}
}

// exec has the page too: it shows the run while it lasts, and stays after it.
func TestExecView(t *testing.T) {
	release := filepath.Join(t.TempDir(), "release")
	if err := syscall.Mkfifo(release, 0o600); err != nil {
		t.Fatal(err)
	}
	script := `head -1 "$1"; read x < "$2"; tail -n +2 "$1"`
	v := launch(t, nil, spantee(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT="}, "exec", "--view", "--", "sh", "-c", script, "sh", "../../testdata/cursor/fix-failing-test.jsonl", release))
	stream, err := http.Get(v.page + "/api/changes")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	changes := bufio.NewScanner(stream.Body)
	until := func(what string, ok func(viewer.Session) bool) {
		t.Helper()
		for l := v.list(t); len(l.Sessions) == 0 || !ok(l.Sessions[0]); l = v.list(t) {
			if !changes.Scan() {
				t.Fatalf("never: %s: %+v", what, l.Sessions)
			}
		}
	}
	until("running", func(s viewer.Session) bool { return s.Now != nil && !s.Ended })
	if err := os.WriteFile(release, []byte("\n"), 0); err != nil {
		t.Fatal(err)
	}
	until("ended", func(s viewer.Session) bool { return s.Now == nil && s.Ended && s.Spans == 11 })
	if line, err := v.stderr.ReadString('\n'); line != "spantee: serving the page until Ctrl-C\n" { // before, Ctrl-C is the agent's
		t.Fatalf("%q %v", line, err)
	}
	if err := v.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := v.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// A sessions folder that is not this user's own is neither shown nor written, and view
// says so once.
func TestViewRefusesSessionsOfOthers(t *testing.T) {
	state, strange := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(state, "spantee"), 0o700); err != nil {
		t.Fatal(err)
	}
	sessions := filepath.Join(state, "spantee", "viewer")
	if err := os.Symlink(strange, sessions); err != nil {
		t.Fatal(err)
	}
	ls := spantee(t, []string{"XDG_STATE_HOME=" + state}, "ls")
	if err := ls.Run(); err == nil || ls.stderr.String() != "spantee: "+sessions+" is a symbolic link\n" {
		t.Errorf("%v, %q", err, ls.stderr.String())
	}
	cmd := spantee(t, []string{"XDG_STATE_HOME=" + state}, append([]string{"view", "--listen", "127.0.0.1:0"}, freePorts...)...)
	v := launch(t, nil, cmd)
	if err := upload(v.grpc, bigSession(2).request()); err != nil {
		t.Fatal(err)
	}
	if err := v.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if rest, _ := io.ReadAll(v.stderr); len(rest) > 0 {
		t.Errorf("it says %q", rest)
	}
	if left, err := os.ReadDir(strange); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
	if err := v.cmd.Wait(); err != nil {
		t.Error(err)
	}
}
