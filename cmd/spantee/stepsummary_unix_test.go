//go:build unix

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// summarize runs spantee as a step of GitHub Actions whose summary is file.
func summarize(t *testing.T, file string, args ...string) (stderr string) {
	t.Helper()
	cmd := spantee(t, []string{"OTEL_TRACES_EXPORTER=none", "GITHUB_ACTIONS=true", "GITHUB_STEP_SUMMARY=" + file}, args...)
	in := fixture(t, "fix-failing-test.jsonl")
	cmd.Stdin = bytes.NewReader(in)
	if err := within(t, cmd); err != nil || !bytes.Equal(cmd.stdout.Bytes(), in) {
		t.Errorf("%v, %d bytes came out: %s", err, cmd.stdout.Len(), cmd.stderr.String())
	}
	return cmd.stderr.String()
}

// An unread pipe is not opened, and does not delay the exit.
func TestStepSummaryInAPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "summary")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{nil, {"exec", "--", "cat"}} {
		if said := summarize(t, pipe, args...); said != "spantee: cannot write the step summary: "+pipe+" is not a regular file\n" {
			t.Errorf("%q", said)
		}
	}
}

// Whatever is in the file already is left unchanged, and counts.
func TestStepSummaryAppends(t *testing.T) {
	file := filepath.Join(t.TempDir(), "summary.md")
	read := func() string {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	write := func(content string) {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const (
		maxStepSummary = 900 << 10
		before         = "no newline"
	)
	write(before)
	if said := summarize(t, file); said != "" || !strings.HasPrefix(read(), before+"\n### ⚠ cursor-agent ended, 1 of 6 tools failed\n") {
		t.Errorf("%q, %q", said, read())
	}

	almost := strings.Repeat("x", maxStepSummary-1400) + "\n"
	write(almost)
	said := summarize(t, file)
	if added := strings.TrimPrefix(read(), almost); said != "" || len(read()) > maxStepSummary || !strings.HasPrefix(added, "### ⚠ cursor-agent ended, 1 of 6 tools failed\n") || !strings.Contains(added, "```text\ncursor-agent") || !strings.HasSuffix(added, "\n(truncated)\n```\n\n</details>\n") {
		t.Errorf("%q, %q", said, added)
	}

	full := almost + strings.Repeat("x", 1399)
	write(full)
	if said := summarize(t, file); read() != full || said != "spantee: cannot write the step summary: "+file+" has no room for the trace (limit 900 KiB)\n" {
		t.Errorf("%q, %d bytes", said, len(read()))
	}
}
