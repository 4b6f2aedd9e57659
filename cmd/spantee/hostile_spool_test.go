//go:build unix

package main

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/spool"
)

// hostileState is a state folder with a spool in which somebody left more than
// spans. The victim is a file that a log names.
func hostileState(t *testing.T) (state, victim string) {
	t.Helper()
	state, victim = t.TempDir(), filepath.Join(t.TempDir(), "profile")
	if err := os.WriteFile(victim, []byte("export EDITOR=vi\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := spool.Spool{Dir: filepath.Join(state, "spantee/spool"), Max: 1 << 20}
	to := spool.Destination{Protocol: spool.File, Endpoint: victim}
	span, err := proto.Marshal(&tracepb.Span{TraceId: []byte("0123456789abcdef"), SpanId: []byte("01234567"), Name: "forged"})
	if err != nil {
		t.Fatal(err)
	}
	l := s.NewLog(to, nil)
	if err := l.Append(nil, &spool.Snapshot{Open: []*spool.Span{{Wire: spool.AppendSpan(nil, span), Of: new(spool.Origin)}}}); err != nil {
		t.Fatal(err)
	}
	logs, err := filepath.Glob(filepath.Join(s.Dir, "*.log"))
	if err != nil || len(logs) != 1 {
		t.Fatal(logs, err)
	}
	b, err := os.ReadFile(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	l.Close("", nil)
	if err := os.WriteFile(logs[0], b, 0o600); err != nil { // as a kill leaves it
		t.Fatal(err)
	}
	for name, forge := range map[string]func(path string) error{
		"1-pipe.log":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"2-device.log": func(path string) error { return os.Symlink("/dev/zero", path) },
		"3-other.log":  func(path string) error { return os.WriteFile(path, []byte("x"), 0o600) },
		"4-victim.log": func(path string) error { return os.Symlink(victim, path) },
	} {
		path := filepath.Join(s.Dir, name)
		if err := forge(path); err != nil {
			t.Fatal(err)
		}
		if name == "3-other.log" {
			if err := os.Chmod(path, 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	return state, victim
}

// within runs a command, and fails if it hangs.
func within(t *testing.T, cmd *run) error {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	hangs := time.AfterFunc(time.Minute, func() {
		t.Errorf("%v hangs", cmd.Args)
		cmd.Process.Kill()
	})
	defer hangs.Stop()
	return cmd.Wait()
}

func TestAHostileSpool(t *testing.T) {
	c := newCollector(t)
	c.start("well")
	state, victim := hostileState(t)
	env := append(c.environment("grpc"), "XDG_STATE_HOME="+state)

	list := spantee(t, env, "spool")
	if err := within(t, list); err != nil {
		t.Errorf("spool: %v, %s", err, list.stderr.String())
	}
	for _, why := range []string{"is a named pipe", "is a symbolic link", "can be written by other users"} {
		if !strings.Contains(list.stdout.String(), why) {
			t.Errorf("spool does not say %q:\n%s", why, list.stdout.String())
		}
	}
	if doctor := spantee(t, env, "doctor"); within(t, doctor) != nil {
		t.Errorf("doctor: %s%s", doctor.stdout.String(), doctor.stderr.String())
	}

	// The filter sends its own spans, and sets aside what nobody may read.
	lines := bytes.Join(stream("s", 3), nil)
	ended, _ := spansIn(t, stream("s", 3), false)
	filter := spantee(t, env)
	filter.Stdin = bytes.NewReader(lines)
	if err := within(t, filter); err != nil || !bytes.Equal(filter.stdout.Bytes(), lines) {
		t.Errorf("%v, and other bytes came out", err)
	}
	if n := numberBefore(filter.stderr.String(), "files in the spool set aside unread"); n != 4 {
		t.Errorf("the filter says %q", filter.stderr.String())
	}

	got, _ := c.taken()
	maps.DeleteFunc(got, func(_ string, s *tracepb.Span) bool { return s.Name == "spantee doctor" })
	wantSpans(t, got, ended)
	faults.add("forged files in the spool", len(ended), len(got), 0, 0)

	flush := spantee(t, env, "flush")
	if err := within(t, flush); err == nil || !strings.Contains(flush.stdout.String(), "--to FILE") {
		t.Errorf("flush: %v, %s", err, flush.stdout.String())
	}
	if b, err := os.ReadFile(victim); string(b) != "export EDITOR=vi\n" {
		t.Errorf("the victim holds %q, %v", b, err)
	}

	// Where the user names a file, it goes there.
	named := filepath.Join(t.TempDir(), "spans.jsonl")
	again := spantee(t, env, "flush", "--to", named)
	if err := within(t, again); err != nil {
		t.Errorf("flush --to: %v, %s%s", err, again.stdout.String(), again.stderr.String())
	}
	if b, err := os.ReadFile(named); err != nil || !bytes.Contains(b, []byte("forged")) {
		t.Errorf("the named file holds %q, %v", b, err)
	}
	if b, err := os.ReadFile(victim); string(b) != "export EDITOR=vi\n" {
		t.Errorf("the victim holds %q, %v", b, err)
	}
}

// A neighbour who made the folder first, or a link to his own, gets nothing.
func TestAForeignStateFolder(t *testing.T) {
	t.Parallel()
	for name, forge := range map[string]func(t *testing.T, dir string){
		"a link": func(t *testing.T, dir string) {
			elsewhere := t.TempDir()
			if err := os.Symlink(elsewhere, dir); err != nil {
				t.Fatal(err)
			}
		},
		"writable by all": func(t *testing.T, dir string) {
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(dir, 0o777); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for _, which := range []string{"spantee", "spantee/spool"} {
			t.Run(name+", "+which, func(t *testing.T) {
				t.Parallel()
				state := t.TempDir()
				dir := filepath.Join(state, which)
				if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
					t.Fatal(err)
				}
				forge(t, dir)
				c := newCollector(t) // nobody listens
				env := append(c.environment("grpc"), "XDG_STATE_HOME="+state)
				lines := stream("s", 3)
				filter := spantee(t, env)
				filter.Stdin = bytes.NewReader(bytes.Join(lines, nil))
				if err := within(t, filter); err != nil || !bytes.Equal(filter.stdout.Bytes(), bytes.Join(lines, nil)) {
					t.Errorf("%v, and other bytes came out", err)
				}
				if n := strings.Count(filter.stderr.String(), "crash protection was unavailable"); n != 1 {
					t.Errorf("stderr: %s", filter.stderr.String())
				}
				ended, _ := spansIn(t, lines, false)
				faults.add("state folder of others, "+name+", "+which, len(ended), 0, 0, numberBefore(filter.stderr.String(), "lost"))
				if n := numberBefore(filter.stderr.String(), "lost"); n != len(ended) || !strings.Contains(filter.stderr.String(), dir) {
					t.Errorf("stderr: %s", filter.stderr.String())
				}
				for _, command := range []string{"spool", "flush"} {
					cmd := spantee(t, env, command)
					if err := within(t, cmd); err == nil || !strings.Contains(cmd.stderr.String(), dir) {
						t.Errorf("%s: %v, %s%s", command, err, cmd.stdout.String(), cmd.stderr.String())
					}
				}
				entries, err := os.ReadDir(dir)
				if len(entries) > 0 || err != nil {
					t.Errorf("there is %v, %v", entries, err)
				}
			})
		}
	}
}

// A disk that hangs costs its spans, and nobody's time.
func TestADiskThatHangs(t *testing.T) {
	long(t)
	t.Parallel()
	for _, call := range []string{"create", "write", "rename", "append", "remove"} {
		for _, up := range []bool{true, false} {
			name := "disk hangs, in " + call
			if !up {
				name += ", no collector"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c := newCollector(t)
				if up {
					c.start("well")
				}
				env := append(c.environment("grpc"), "XDG_STATE_HOME="+t.TempDir(), slowDisk+"="+call+" 1h")
				lines := stream("s", 5)
				cmd := spantee(t, env, "--summary")
				cmd.Stdin = bytes.NewReader(bytes.Join(lines, nil))
				if err := within(t, cmd); err != nil || !bytes.Equal(cmd.stdout.Bytes(), bytes.Join(lines, nil)) {
					t.Errorf("%v, and other bytes came out", err)
				}
				ended, _ := spansIn(t, lines, false)
				got, _ := c.taken()
				kept := numberBefore(cmd.stderr.String(), "spooled for retry")
				lost := numberBefore(cmd.stderr.String(), "lost")
				if lost > 0 && !strings.Contains(cmd.stderr.String(), "the disk did not answer in time") {
					t.Errorf("it does not say why spans were lost: %s", cmd.stderr.String())
				}
				if len(got)+kept+lost < len(ended) {
					t.Errorf("%d delivered, %d kept and %d lost of %d: %s", len(got), kept, lost, len(ended), cmd.stderr.String())
				}
				faults.add(name, len(ended), len(got), kept, lost)
			})
		}
	}
}

// A log that cannot be read is set aside, which is said once.
func TestACorruptLogIsReported(t *testing.T) {
	for _, args := range [][]string{{"flush"}, nil} {
		c := newCollector(t)
		c.start("well")
		state := t.TempDir()
		env := append(c.environment("grpc"), "XDG_STATE_HOME="+state)
		folder := filepath.Join(state, "spantee/spool")
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "1-2345.log"), []byte("no log at all"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, said := range []bool{true, false} {
			cmd := spantee(t, env, args...)
			cmd.Stdin = bytes.NewReader(bytes.Join(stream("s", 1), nil))
			if err := within(t, cmd); err != nil || strings.Contains(cmd.stderr.String(), "set aside unread") != said {
				t.Errorf("%q: %v, %q", args, err, cmd.stderr.String())
			}
		}
	}
}

// What a forged log says is printed without control characters.
func TestSpoolIsPrintedSafely(t *testing.T) {
	const clear = "\x1b[2J\a"
	entries := []spool.Entry{
		{Destination: spool.Destination{Protocol: spool.File, Endpoint: clear}, State: spool.Open, Host: clear},
		{Destination: spool.Destination{Protocol: "grpc" + clear, Endpoint: "http://a/" + clear}, State: spool.Waiting, Reason: clear},
		{Destination: spool.Destination{Protocol: "grpc", Endpoint: clear}, State: spool.Rejected, Reason: "a\nb"},
	}
	var table, lines bytes.Buffer
	if err := errors.Join(printSpool(&table, spool.Spool{}, entries), printJSON(&lines, entries)); err != nil {
		t.Fatal(err)
	}
	for _, printed := range []string{table.String(), lines.String()} {
		if strings.ContainsAny(printed, clear[:1]+"\a") || strings.Count(printed, "\n") > len(entries)+3 {
			t.Errorf("%q", printed)
		}
	}
}
