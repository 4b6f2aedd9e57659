package receipt

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// What a killed process left is removed by the next one that writes a receipt into the folder.
// Others may be writing one right now. A name may be as long as a name can be.
func TestAbandonedPartialFiles(t *testing.T) {
	folder := t.TempDir()
	dir, err := os.OpenRoot(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	writing, partial, err := createPartial(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer writing.Close()
	for _, file := range []string{".spantee-0.partial", ".spantee-00ff-1.partial", ".spantee-x", "x.partial"} {
		if err := dir.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	name := filepath.Join(folder, strings.Repeat("r", 250)+".json")
	if err := new(Receipt).WriteFile(name); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]bool{
		filepath.Base(name): true, ".spantee-0.partial": false, ".spantee-00ff-1.partial": false, partial: true, ".spantee-x": true, "x.partial": true,
	} {
		if _, err := dir.Lstat(file); (err == nil) != want {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// However many processes write at once, none removes what another is writing.
func TestReplaceFileAtOnce(t *testing.T) {
	dir := t.TempDir()
	var writers sync.WaitGroup
	for i := range 16 {
		writers.Go(func() {
			for range 50 {
				if err := ReplaceFile(filepath.Join(dir, string(rune('a'+i%4))), []byte("whole")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	if files, err := os.ReadDir(dir); err != nil || len(files) != 4 {
		t.Errorf("%v, %v", files, err)
	}
}

// What JSON cannot express is left out, and named.
func TestNonFiniteNumbers(t *testing.T) {
	infinite, one := math.Inf(1), 1.0
	r := &Receipt{
		Totals: Totals{Times: Times{Start: time.Unix(1, 0), Seconds: math.NaN()}, Usage: Usage{Cost: math.Inf(-1), CostKnown: true}},
		Runs:   []Run{{Totals: Totals{Usage: Usage{Cost: 1, CostKnown: true}}}, {Subagents: []Subagent{{Seconds: infinite}}}}, Baseline: &Baseline{Cost: &infinite, CostP90: &one},
	}
	got := r.OmitNonFinite()
	if want := []string{"seconds", "cost", "baseline.cost", "runs.subagents.seconds"}; !slices.Equal(got, want) {
		t.Errorf("left out %q, want %q", got, want)
	}
	if r.Seconds != 0 || r.Cost != 0 || r.CostKnown || r.Baseline.Cost != nil || *r.Baseline.CostP90 != 1 || !r.Runs[0].CostKnown || r.Start.IsZero() || len(r.OmitNonFinite()) > 0 {
		t.Errorf("%+v", r)
	}
	if err := r.WriteFile(filepath.Join(t.TempDir(), "receipt.json")); err != nil {
		t.Error(err)
	}
}
