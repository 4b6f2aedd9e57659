package receipt

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What a killed process left is removed by the next one that writes the same receipt. Others
// may be writing it right now. A name may be as long as a name can be.
func TestAbandonedPartialFiles(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, strings.Repeat("r", 250)+".json")
	old, fresh, others := partialPrefix(name)+"1.partial", partialPrefix(name)+"2.partial", partialPrefix("other")+"3.partial"
	for file, age := range map[string]time.Duration{old: 2 * abandonedAfter, fresh: 0, others: 2 * abandonedAfter} {
		if err := os.WriteFile(filepath.Join(dir, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-age)
		if err := os.Chtimes(filepath.Join(dir, file), at, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := new(Receipt).WriteFile(name); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]bool{filepath.Base(name): true, old: false, fresh: true, others: true} {
		if _, err := os.Lstat(filepath.Join(dir, file)); (err == nil) != want {
			t.Errorf("%s: %v", file, err)
		}
	}
}
