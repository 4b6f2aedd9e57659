//go:build unix

package spool

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

func init() { children["full disk"] = onAFullDisk }

// A disk is full in the middle of a file: a process may write no more than a few bytes of one.
func TestAFullDisk(t *testing.T) {
	s := newSpool(t, 1<<20)
	leave(t, s, "a")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "SPOOL_TEST_CHILD=full disk", "SPOOL_TEST_DIR="+s.Dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for i, line := range lines {
		if !strings.Contains(line, syscall.EFBIG.Error()) {
			t.Errorf("error %d is %s", i, line)
		}
	}
	if len(lines) != 3 {
		t.Errorf("%q", lines)
	}
	want(t, states(t, s), "waiting 1")
	want(t, take(t, s), "a")
}

func onAFullDisk() {
	limit := syscall.Rlimit{Cur: 100, Max: 100}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		fmt.Println(err)
	}
	l := Spool{Dir: os.Getenv("SPOOL_TEST_DIR"), Max: 1 << 20}.NewLog(here, nil)
	for range 2 {
		fmt.Println(l.Append([]*Span{{Wire: make([]byte, 1000), Of: new(Origin)}}, nil))
	}
	if l.Close("the collector hangs", nil) {
		fmt.Println("kept")
	}
	fmt.Println(l.Err())
}
