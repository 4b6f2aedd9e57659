//go:build unix

package viewer

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
)

// victim names a variable with the database that a process adds to until it is killed.
const victim = "SPANTEE_TEST_VICTIM"

// A process that is killed while it receives loses no session that it acknowledged, and
// the database stays intact.
func TestKilledWhileReceiving(t *testing.T) {
	if path := os.Getenv(victim); path != "" {
		s := openStore(t, path)
		first, err := strconv.Atoi(os.Getenv(victim + "_FIRST"))
		s.ok(err)
		for n := first; ; n++ {
			s.Add(nth(n, 3))
			fmt.Println("acknowledged", n)
		}
	}
	kills := 10
	if os.Getenv("SPANTEE_THOROUGH") != "" {
		kills = 100
	}
	path := newPath(t)
	acknowledged := 0
	for range kills {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledWhileReceiving$")
		cmd.Env = append(os.Environ(), victim+"="+path, victim+"_FIRST="+strconv.Itoa(acknowledged))
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for left := rand.IntN(40); left >= 0 && lines.Scan(); left-- {
			var n int
			if _, err := fmt.Sscanf(lines.Text(), "acknowledged %d", &n); err != nil {
				t.Fatal(lines.Text())
			}
			acknowledged = n + 1
		}
		must(t, cmd.Process.Kill())
		for lines.Scan() { // what it still acknowledged
			if _, err := fmt.Sscanf(lines.Text(), "acknowledged %d", &acknowledged); err == nil {
				acknowledged++
			}
		}
		_ = cmd.Wait() // it was killed
	}
	must(t, Integrity(path))
	s := openStore(t, path)
	defer s.Close()
	for n := range acknowledged {
		if got, ok := s.Session(idOf(span(n+1, 1, 0, "", 0, 0))); !ok || got.Spans != 4 || !got.Ended {
			t.Fatalf("session %d of %d: %+v", n, acknowledged, got)
		}
	}
	if n := s.List(Query{}).Total; acknowledged == 0 || n < acknowledged || n > acknowledged+1 {
		t.Errorf("%d sessions, %d acknowledged", n, acknowledged)
	}
	t.Logf("killed %d times, %d sessions", kills, acknowledged)
}
