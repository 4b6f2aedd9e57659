//go:build unix

package standstill

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

func TestStill(t *testing.T) {
	const step = 250 * time.Millisecond
	for name, tc := range map[string]struct {
		used, late time.Duration
		want       bool
	}{
		"nothing happens":                       {0, 0, true},
		"it looks":                              {4 * time.Millisecond, 0, true},
		"it computes, or waits for a processor": {6 * time.Millisecond, 0, false},
		"the look is on time":                   {0, 40 * time.Millisecond, true},
		"the look comes late":                   {0, 60 * time.Millisecond, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var spent time.Duration
				Used = func() time.Duration { return spent }
				defer func() { Used = used }()
				var w Watch
				for i := range 3 {
					time.Sleep(step + tc.late)
					if spent += tc.used; w.Still(step) != (tc.want || i == 0) {
						t.Errorf("look %d: another answer than %v", i, tc.want || i == 0)
					}
				}
			})
		})
	}
}

// Used grows by what a thread computes.
func TestUsed(t *testing.T) {
	before, n := Used(), 0
	for Used() <= before {
		if n++; n == 1e9 {
			t.Fatal("it does not grow")
		}
	}
}

func TestDelayed(t *testing.T) {
	threads := t.TempDir()
	for thread, stat := range map[int]string{7: "100 2000 3\n", 8: "5 40 1\n", 9: "", 10: "x y z\n"} {
		dir := filepath.Join(threads, strconv.Itoa(thread))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "schedstat"), []byte(stat), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := delayed(threads); got != 2040 {
		t.Errorf("%d ns, want 2040", got)
	}
	if got := delayed(filepath.Join(threads, "none")); got != 0 {
		t.Errorf("%d ns without threads", got)
	}
}
