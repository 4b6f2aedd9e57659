package viewer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spantee/spantee/mapping/semconv"
)

// count reads what is kept.
func count(t *testing.T, k *Kept) (sessions int, names map[string]bool, problems int) {
	t.Helper()
	s := NewStore(100e6)
	for spans, err := range k.Read() {
		if err != nil {
			problems++
			continue
		}
		s.Add(spans)
	}
	names = make(map[string]bool)
	l := s.List(Query{Limit: maxListed})
	for _, session := range l.Sessions {
		names[session.Name] = true
	}
	return l.Total, names, problems
}

func TestSessionsSurvive(t *testing.T) {
	k := &Kept{Dir: filepath.Join(t.TempDir(), "state", "sessions"), Max: 1e6}
	if n, _, problems := count(t, k); n != 0 || problems != 0 {
		t.Errorf("%d sessions in a folder that is not there, %d problems", n, problems)
	}
	for i := range 3 {
		v := start(t, Config{Kept: k, Restore: true, Problem: func(error) {}})
		v.Take(from("a", span(i+1, 1, 0, "invoke_agent x", 1, 2)))
		eventually(t, v.Store, "restored", func() bool { return v.Store.List(Query{}).Total == i+1 })
	}
	info, err := os.Stat(k.Dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	files, err := k.files()
	if err != nil || len(files) != 3 || files[0].Mode().Perm() != 0o600 {
		t.Errorf("%v %v", files, err)
	}

	// A file that was cut short, or is no such file at all, costs only itself.
	whole, err := os.ReadFile(filepath.Join(k.Dir, files[0].Name()))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"cut.spans": string(whole[:len(whole)-3]), "bad.spans": "\x05\xff\xff\xff\xff\xff", "other.txt": "hello", "huge.spans": "\xff\xff\xff\xff\x7f"} {
		if err := os.WriteFile(filepath.Join(k.Dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n, _, problems := count(t, k); n != 3 || problems != 3 {
		t.Errorf("%d sessions, %d problems", n, problems)
	}
}

// The oldest go when there is too much.
// The test span of spantee doctor is no session.
func TestTestSpanIsNotKept(t *testing.T) {
	k := &Kept{Dir: t.TempDir(), Max: 1e6}
	v := start(t, Config{Kept: k})
	v.Take(from("a", span(1, 1, 0, TestSpan, 1, 2)))
	v.Take(from("a", span(2, 1, 0, "invoke_agent x", 1, 2)))
	if n := v.Store.List(Query{}).Total; n != 2 {
		t.Errorf("%d of 2 are shown", n)
	}
	if runs := v.Store.Runs().Runs; len(runs) != 1 || runs[0].Name != "invoke_agent x" {
		t.Errorf("runs: %+v", runs)
	}
	if n, names, _ := count(t, k); n != 1 || names[TestSpan] {
		t.Errorf("kept: %v", names)
	}
}

func TestKeptIsCapped(t *testing.T) {
	k := &Kept{Dir: t.TempDir(), Max: 160_000}
	keeper := k.keeper()
	defer keeper.close()
	for i := range 100 {
		name := "invoke_agent " + strings.Repeat("x", i)
		if err := keeper.write(from("a", span(i+1, 1, 0, name, 1, 2, str(semconv.InputMessages, strings.Repeat("y", 5000))))); err != nil {
			t.Fatal(err)
		}
	}
	files, err := k.files()
	if err != nil {
		t.Fatal(err)
	}
	size := int64(0)
	for _, info := range files {
		size += info.Size()
	}
	n, names, problems := count(t, k)
	if size > k.Max || n < 20 || problems != 0 || !names["invoke_agent "+strings.Repeat("x", 99)] || names["invoke_agent "] {
		t.Errorf("%d bytes in %d files, %d sessions, %d problems", size, len(files), n, problems)
	}
}
