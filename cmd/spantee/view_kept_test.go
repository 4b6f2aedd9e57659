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
	v.kill(t)

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
