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

// A disk is full in the middle of a file: a process may write no more than a
// few bytes of one.
func TestAFullDisk(t *testing.T) {
	s := newSpool(t, 1<<20)
	put(t, s, here, "a")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "SPOOL_TEST_CHILD=full disk", "SPOOL_TEST_DIR="+s.Dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		if !strings.Contains(line, syscall.EFBIG.Error()) {
			t.Errorf("error %d is %s", i, line)
		}
	}
	want(t, filesOf(t, s.Dir+"/"+journalDir))
	want(t, states(t, s), "waiting 1")
	want(t, drained(t, s, here), "a")
	want(t, filesOf(t, s.Dir))
}

func onAFullDisk() {
	limit := syscall.Rlimit{Cur: 100, Max: 100}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		fmt.Println(err)
	}
	s := Spool{Dir: os.Getenv("SPOOL_TEST_DIR"), Max: 1 << 20}
	req := Request{Body: make([]byte, 1000), Spans: 1}
	err := s.Put(background, here, req, "connection refused")
	fmt.Println(err)
	err = s.Put(background, here, rejected(req), "400")
	fmt.Println(err)
	j := s.NewJournal(here)
	err = j.Checkpoint(background, []*Span{{Wire: make([]byte, 1000), Of: new(Origin)}}, nil)
	fmt.Println(err)
	if j.Close(background, "the collector hangs") {
		fmt.Println("kept")
	}
}
