package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// What a viewer received is there after its end, for ls, show and the next one.
func TestKeptSessions(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	command := func(args ...string) (stdout, stderr string, err error) {
		t.Helper()
		cmd := spantee(t, []string{"XDG_STATE_HOME=" + state}, args...)
		err = cmd.Run()
		return cmd.stdout.String(), cmd.stderr.String(), err
	}
	if _, stderr, err := command("ls"); err != nil || !strings.Contains(stderr, "no sessions are kept yet") {
		t.Errorf("%v %s", err, stderr)
	}
	if _, stderr, err := command("show"); err == nil || stderr != "spantee: no sessions are kept\n" {
		t.Errorf("%v %s", err, stderr)
	}

	v := startViewIn(t, state, append([]string{"view", "--listen", "127.0.0.1:0"}, freePorts...)...)
	for _, prompt := range []string{"Fix the coupon", "Escape\x1b[31m the terminal"} {
		m := newMade(prompt)
		root := m.span(nil, "invoke_agent cursor-agent", 0, 1500, str("gen_ai.input.messages",
			`[{"role":"user","parts":[{"type":"text","content":"`+strings.ReplaceAll(prompt, "\x1b", `\u001b`)+`"}]}]`))
		m.span(root, "execute_tool shell", 0, 10, str("gen_ai.tool.call.result", "all tests pass"))
		if err := upload(v.grpc, m.request()); err != nil {
			t.Fatal(err)
		}
	}
	m := newMade("no times")
	root := m.span(nil, "invoke_agent codex", 0, 0.004)
	for i := range 3 {
		m.span(root, "execute_tool shell", float64(i)/1000, float64(i)/1000)
	}
	if err := upload(v.grpc, m.request()); err != nil {
		t.Fatal(err)
	}
	v.kill(t)

	timeless, _, err := command("ls", "codex")
	if err != nil || strings.Contains(timeless, "ms") || !strings.Contains(timeless, " – ") {
		t.Errorf("%v %q", err, timeless)
	}
	if _, _, err := command("rm", strings.Fields(strings.Split(timeless, "\n")[1])[0]); err != nil {
		t.Error(err)
	}
	stdout, _, err := command("ls")
	if err != nil || !strings.Contains(stdout, "Fix the coupon") || !strings.Contains(stdout, "1.50s") || strings.Contains(stdout, "\x1b") || strings.Count(stdout, "\n") != 3 {
		t.Errorf("%v %q", err, stdout)
	}
	if stdout, _, err = command("ls", "TESTS", "coupon"); err != nil || strings.Count(stdout, "\n") != 2 {
		t.Errorf("%v %q", err, stdout)
	}
	if _, stderr, err := command("ls", "no-such-word"); err != nil || stderr != "spantee: no match among 2 sessions\n" {
		t.Errorf("%v %q", err, stderr)
	}
	id := strings.Fields(strings.Split(stdout, "\n")[1])[0]
	stdout, _, err = command("show", id)
	if err != nil || !strings.Contains(stdout, "\ncursor-agent ") || !strings.Contains(stdout, "─ shell ") || !strings.Contains(stdout, id) {
		t.Errorf("%v %q", err, stdout)
	}
	if _, stderr, err := command("show", "zz"); err == nil || !strings.Contains(stderr, `no session whose id begins with "zz"`) {
		t.Errorf("%v %s", err, stderr)
	}
	if _, stderr, err := command("rm", "zz"); err == nil || stderr != "spantee: no session whose id begins with \"zz\"\n" {
		t.Errorf("%v %q", err, stderr)
	}
	if _, stderr, err := command("rm", id); err != nil || stderr != "" {
		t.Errorf("%v %q", err, stderr)
	}
	if stdout, _, err = command("ls"); err != nil || strings.Count(stdout, "\n") != 2 || strings.Contains(stdout, id) {
		t.Errorf("%v %q", err, stdout)
	}
	if stdout, _, _ = command("doctor"); !strings.Contains(stdout, "✓ sessions    intact, in "+filepath.Join(state, "spantee", "viewer", "sessions.db")+"\n") {
		t.Errorf("%s", stdout)
	}
	again := startViewIn(t, state, append([]string{"view", "--listen", "127.0.0.1:0"}, freePorts...)...)
	if status, _ := get(t, again.page+"/api/viewer"); status != 200 {
		t.Errorf("%d", status)
	}
}

// A limit has a unit: 30 would be 30 bytes, and remove everything.
func TestKeepHasAUnit(t *testing.T) {
	for text, want := range map[string]string{
		"30d": "30d", "2GiB": "2.0GiB", "30d,2GiB": "30d,2.0GiB", "2G": "1.9GiB", "500MB": "477MiB", "0": "", "100B": "100B",
		"30": "error", "1e9": "error", "2.5": "error", "": "error", "30d,": "error", "30d,5": "error", "d": "error", "B": "error", "30x": "error",
	} {
		var r retention
		got := "error"
		if err := r.Set(text); err == nil {
			got = r.String()
		}
		if got != want {
			t.Errorf("--keep %s: %q, want %q", text, got, want)
		}
	}
}
