//go:build unix

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
)

// manyCalls returns a session of so many tool calls that its log and itself fit into no buffer.
func manyCalls(calls int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"type":"system","subtype":"init","apiKeySource":"login","cwd":"/home/dev","model":"GPT-5","session_id":"s"}` + "\n")
	output := strings.Repeat("x", 300)
	for i := range calls {
		for _, outcome := range []string{"", fmt.Sprintf(`,"result":{"success":{"command":"ls","exitCode":0,"stdout":%q,"stderr":""}}`, output)} {
			subtype := "started"
			if outcome != "" {
				subtype = "completed"
			}
			fmt.Fprintf(&b, `{"type":"tool_call","subtype":%q,"call_id":"%d","tool_call":{"shellToolCall":{"args":{"command":"ls"}%s}},"session_id":"s"}`+"\n", subtype, i, outcome)
		}
	}
	b.WriteString(`{"type":"result","subtype":"success","duration_ms":5,"is_error":false,"result":"","session_id":"s"}` + "\n")
	return b.Bytes()
}

// With --log, the whole stream comes out while its end is still to come, whatever stderr is.
func TestLogDelaysNothing(t *testing.T) {
	long(t)
	t.Parallel()
	const calls = 40_000
	in := manyCalls(calls)
	for name, open := range map[string]func(t *testing.T) *os.File{
		"a full pipe": unreadPipe,
		"a pipe without a reader": func(t *testing.T) *os.File {
			r, w := newPipe(t)
			r.Close()
			return w
		},
		"closed": func(*testing.T) *os.File { return nil },
		"a terminal that is stopped": func(t *testing.T) *os.File {
			terminal, tty, err := pty.Open()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { terminal.Close(); tty.Close() })
			return tty
		},
	} {
		for _, command := range []string{"filter", "exec"} {
			t.Run(command+", "+name, func(t *testing.T) {
				args := []string{"--log", "--flush-timeout=200ms"}
				if command == "exec" {
					args = append(append([]string{"exec"}, args...), "--", "cat")
				}
				cmd := spantee(t, []string{"OTEL_TRACES_EXPORTER=none"}, args...)
				if cmd.Stderr = open(t); name == "closed" {
					cmd.Path, cmd.Args = lookPath(t, "sh"), append([]string{"sh", "-c", `exec "$0" "$@" 2>&-`, cmd.Path}, args...)
					cmd.Stderr = nil
				}
				passThrough(t, cmd, in)
			})
		}
	}
}

// passThrough runs a command, and reads all of the stream before it ends the stream.
func passThrough(t *testing.T, cmd *run, in []byte) {
	t.Helper()
	stdin, stdout := cmd.startPiped(t)
	go stdin.Write(in)
	got := make([]byte, len(in))
	if n, err := io.ReadFull(stdout, got); err != nil || !bytes.Equal(got, in) {
		t.Errorf("%v after %d bytes of %d, or other bytes came out", err, n, len(in))
	}
	stdin.Close()
	if more, _ := io.ReadAll(stdout); len(more) > 0 {
		t.Errorf("%d bytes too many", len(more))
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// Lines that a slow reader of stderr loses are counted.
func TestLogCountsLostLines(t *testing.T) {
	long(t)
	t.Parallel()
	const calls = 40_000
	r, w := newPipe(t)
	cmd := spantee(t, []string{"OTEL_TRACES_EXPORTER=none"}, "--log", "--flush-timeout=20s")
	cmd.Stderr = w
	stdin, stdout := cmd.startPiped(t)
	w.Close()
	go func() {
		stdin.Write(manyCalls(calls))
		stdin.Close()
	}()
	if _, err := io.Copy(io.Discard, stdout); err != nil { // the stream has ended
		t.Fatal(err)
	}
	log, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	lost := 0
	lossLine := regexp.MustCompile(`(?m)^… lines lost here, because stderr was full: (\d+)\n`)
	for _, m := range lossLine.FindAllSubmatch(log, -1) {
		n, _ := strconv.Atoi(string(m[1]))
		lost += n
	}
	// A slow machine has one more, which names the slowest steps.
	printed := bytes.Count(lossLine.ReplaceAll(log, nil), []byte("\n")) - bytes.Count(log, []byte("\nslowest: "))
	if want := calls + 3; printed+lost != want || lost == 0 { // the chat that broke off, and two of the run
		t.Errorf("%d lines printed and %d lost, want %d", printed, lost, want)
	}
}

// On a terminal, the status stays below the log.
func TestLogAboveTheStatus(t *testing.T) {
	long(t)
	t.Parallel()
	cmd := spantee(t, []string{"OTEL_SDK_DISABLED=true", "TERM=xterm", "NO_COLOR=1"}, "--log")
	screen, tty := newScreen(t, cmd)
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 20, Cols: 60}); err != nil {
		t.Fatal(err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	cmd.Stdout = null
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 2} // in the foreground
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tty.Close()
	lines := bytes.SplitAfter(manyCalls(2), []byte("\n"))
	const status = `\r\x1b\[2Kcursor-agent \d+s · running shell ls for \d+s · [^\r\n]*\r`
	_, _ = stdin.Write(bytes.Join(lines[:2], nil)) // the first call goes on
	screen.until(status)
	_, _ = stdin.Write(bytes.Join(lines[2:4], nil)) // the second
	screen.until(`\r\x1b\[2Kspantee: trace [0-9a-f]+ began\r\n\+00:\d\d\.\d    shell ls       [0-9.]+m?s\r\n` + status)
	_, _ = stdin.Write(bytes.Join(lines[4:], nil))
	stdin.Close()
	screen.until(`\r\x1b\[2K(\+00:\d\d\.\d  [^\r\n]*\r\n)+cursor-agent ended after [^\r\n]* · 2 tools\r\ndoubts: [^\r\n]*ends_on_tool[^\r\n]*\r\n`)
	_, _ = io.Copy(io.Discard, screen.r)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
