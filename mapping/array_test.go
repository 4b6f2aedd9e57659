package mapping_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/spantee/spantee/mapping"
)

// arrays returns the lines of a stream as one JSON array, in the ways in which programs
// print it.
func arrays(t testing.TB, in []byte) map[string][]byte {
	t.Helper()
	array := slices.Concat([]byte("["), bytes.Join(bytes.Split(bytes.TrimSpace(in), []byte("\n")), []byte(",")), []byte("]\n"))
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, array, "", "  "); err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{
		"null within":       slices.Concat([]byte("["), bytes.ReplaceAll(bytes.TrimSpace(in), []byte("\n"), []byte(", null,\n")), []byte("]\n")),
		"one line":          array,
		"pretty-printed":    pretty.Bytes(),
		"Windows":           bytes.ReplaceAll(pretty.Bytes(), []byte("\n"), []byte("\r\n")),
		"an object a line":  slices.Concat([]byte("[\n"), bytes.ReplaceAll(bytes.TrimSpace(in), []byte("\n"), []byte(",\n")), []byte("\n]")),
		"twice":             slices.Concat(array, array),
		"byte order mark":   slices.Concat([]byte("\uFEFF"), array),
		"indented":          slices.Concat([]byte(" \t "), pretty.Bytes()),
		"behind other text": slices.Concat([]byte("[1,2]\n[\n[warning] {\n"), array),
	}
}

// TestArrays reads streams that are one JSON array, in any chunks: as the lines that the
// array holds.
func TestArrays(t *testing.T) {
	t.Parallel()
	all := fixtures(t)
	tried := oneIn(1)
	for _, name := range []string{"claude/plain", "claude/subagent", "claude/background-tasks", "qwen/plain", "qwen/error-result", "cursor/parallel-tools", "goose/plain"} {
		t.Run(name, func(t *testing.T) {
			in := all["../testdata/"+name]
			spans, m := feed{}.spans(t, in)
			want, lines := sortedGolden(spans), m.Stats().Lines
			for how, array := range arrays(t, in) {
				want := want
				if how == "twice" {
					spans, _ := feed{}.spans(t, slices.Concat(in, in))
					want = sortedGolden(spans)
				}
				for _, chunk := range []int{0, 1, 7, 1000} {
					if !tried() {
						continue
					}
					spans, m := feed{chunk: chunk}.spans(t, array)
					if diff := gocmp.Diff(want, sortedGolden(spans)); diff != "" {
						t.Errorf("%s, in chunks of %d (-lines +array):\n%s", how, chunk, diff)
					}
					if s := m.Stats(); how == "an object a line" && (s.Lines != lines || s.BadLines > 0) {
						t.Errorf("%s: %d lines, %d bad, want %d", how, s.Lines, s.BadLines, lines)
					}
				}
			}
		})
	}
}

// TestCutArray has arrays that end early. What follows is read as lines again.
func TestCutArray(t *testing.T) {
	in := fixtures(t)["../testdata/claude/plain"]
	array := arrays(t, in)["pretty-printed"]
	want, _ := feed{}.spans(t, in)
	for _, cut := range []string{`"type": "assistant"`, `"content": [`, `"id": "`, `"cwd": "/home`} {
		at := bytes.Index(array, []byte(cut)) + len(cut)
		for _, chunk := range []int{0, 1, 7} {
			_, m := feed{chunk: chunk}.spans(t, array[:at])
			if s := m.Stats(); s.BadLines > 1 {
				t.Errorf("cut behind %s: %+v", cut, s)
			}
			spans, m := feed{chunk: chunk, opts: mapping.Options{}}.spans(t, slices.Concat(array[:at], []byte("\n"), in))
			if len(spans) < len(want) || m.Stats().Lines < bytes.Count(in, []byte("\n")) {
				t.Errorf("cut behind %s: %d spans, want %d: %+v", cut, len(spans), len(want), m.Stats())
			}
		}
	}
}

// TestArrayInConstantMemory reads an array of 100 MB in pieces. What is held of it is
// one object.
func TestArrayInConstantMemory(t *testing.T) {
	m, err := mapping.New(mapping.Options{})
	if err != nil {
		t.Fatal(err)
	}
	object := []byte(`{"type":"assistant","session_id":"s","message":{"content":[{"type":"text","text":"` + strings.Repeat("x", 1<<20) + `"}]}},` + "\n")
	m.Map([]byte("["))
	for range 3 {
		m.Map(object)
	}
	allocated := testing.AllocsPerRun(100, func() { m.Map(object) })
	m.Map([]byte("]\n"))
	m.Close(false)
	if s := m.Stats(); s.Lines < 100 || allocated > 20 {
		t.Errorf("%d lines, %v allocations per object", s.Lines, allocated)
	}
}
