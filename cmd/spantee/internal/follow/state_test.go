package follow

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A damaged file of the state is set aside and reported once. The others are read.
func TestDamagedState(t *testing.T) {
	const intact = `{"files":[{"path":"/logs/a.jsonl","offset":100,"sum":"00"}],"steps":[{"to":50},{"pause":true},{"to":100}],"since":"2026-11-01T00:00:00Z"}`
	for damaged, isLog := range map[string]bool{
		``:                                      true,
		`{"files":`:                             true,
		`null`:                                  true,
		`[]`:                                    true,
		`{}`:                                    true,
		`{"files":"a"}`:                         true,
		`{"files":[null]}`:                      true,
		`{"files":[{}]}`:                        true,
		`{"files":[{"path":"/a","offset":-1}]}`: true,
		`{"files":[{"path":"/a","offset":9}],"steps":[{"to":10}]}`:                        true,
		`{"files":[{"path":"/a","offset":9}],"steps":[{"file":1,"to":9}]}`:                true,
		`{"files":[{"path":"/a","offset":9}],"steps":[{"file":-1,"to":9}]}`:               true,
		`{"files":[{"path":"/a","offset":9}],"steps":[{"to":-1}]}`:                        true,
		`{"files":[{"path":"/a","offset":9}],"steps":[{"to":9},{"pause":true},{"to":5}]}`: true,
		`{"files":[{"path":"/a","offset":9}],"steps":[{"stall":-1}]}`:                     true,
		`{"files":[{"path":"/a","offset":9223372036854775807}],"since":"yesterday"}`:      true,
		strings.Replace(intact, `"to":100`, `"to":1e99`, 1):                               true,
		`"folders"`:        false,
		`{"/logs":`:        false,
		`{"/logs":"then"}`: false,
	} {
		dir := t.TempDir()
		open := func() (logs []*Log, since map[string]time.Time, reports []error) {
			t.Helper()
			s, logs, since, err := OpenState(dir, func(err error) { reports = append(reports, err) })
			if err != nil {
				t.Fatalf("%s: %v", damaged, err)
			}
			s.Close()
			return logs, since, reports
		}
		open()
		write := func(name, text string) {
			if err := os.WriteFile(filepath.Join(dir, "follow", name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("logs/intact", intact)
		name := "folders"
		if isLog {
			name = "logs/other"
			write("folders", `{"/logs":"2026-11-01T00:00:00Z"}`)
		}
		write(name, damaged)
		logs, since, reports := open()
		if len(logs) != 1 || len(logs[0].Steps) != 3 || since == nil || isLog != (len(since) == 1) {
			t.Errorf("%s: %d logs, %v", damaged, len(logs), since)
		}
		if len(reports) != 1 || !strings.Contains(reports[0].Error(), filepath.Join("follow", name)) {
			t.Errorf("%s: reports %v", damaged, reports)
		}
		if b, err := os.ReadFile(filepath.Join(dir, "follow/damaged", filepath.Base(name))); err != nil || string(b) != damaged {
			t.Errorf("%s: set aside as %q, %v", damaged, b, err)
		}
		if _, _, reports := open(); len(reports) > 0 {
			t.Errorf("%s: again %v", damaged, reports)
		}
	}
}
