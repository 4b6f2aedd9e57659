package mapping_test

import (
	"bytes"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/exporter/tree/treetest"
	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/sessionlog"
)

// foreign returns the lines that no supported agent printed, by file.
func foreign(t testing.TB) map[string][][]byte {
	t.Helper()
	files, err := filepath.Glob("../testdata/foreign/*.ndjson")
	if err != nil || len(files) == 0 {
		t.Fatal("no foreign lines", err)
	}
	lines := map[string][][]byte{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines[strings.TrimSuffix(filepath.Base(file), ".ndjson")] = slices.Collect(bytes.Lines(b))
	}
	return lines
}

// shuffled returns all foreign lines twice over, in any order.
func shuffled(t testing.TB, seed uint64) []byte {
	var all [][]byte
	for _, lines := range foreign(t) {
		for range 2 {
			all = append(all, lines...)
		}
	}
	slices.SortFunc(all, bytes.Compare)
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	return bytes.Join(all, nil)
}

// TestStrangers gives the Mapper lines that no agent printed: line by line, file by file,
// and all of them in long runs. None becomes a trace.
func TestStrangers(t *testing.T) {
	check := func(t *testing.T, in []byte) mapping.Stats {
		t.Helper()
		spans, m := feed{}.spans(t, in)
		if s := m.Stats(); len(spans) > 0 || s.Runs > 0 {
			t.Errorf("%d spans of %d runs (%s) from\n%.1000s", len(spans), s.Runs, s.Agent, in)
		}
		return m.Stats()
	}
	for name, lines := range foreign(t) {
		t.Run(name, func(t *testing.T) {
			for _, line := range lines {
				check(t, line)
			}
			stats := check(t, bytes.Join(lines, nil))
			if want := looksLike[name]; stats.Foreign != want {
				t.Errorf("taken for %q, want %q", stats.Foreign, want)
			}
			if n := stats.Unidentified + stats.BadLines; n != len(lines) {
				t.Errorf("%d lines counted, want %d", n, len(lines))
			}
			check(t, bytes.Repeat(bytes.Join(lines, nil), 300))
		})
	}
	for seed := range uint64(20) {
		check(t, shuffled(t, seed))
	}
}

// looksLike is what spantee reports the files to look like.
var looksLike = map[string]string{
	"agent-client-protocol": "JSON-RPC messages",
	"gemini-session-log":    "a session log of Gemini CLI",
	"opencode-session-log":  "a session log of opencode",
	"chat-export":           "a chat log",
	"cloudevents":           "CloudEvents",
	"container-log":         "a container's log",
	"cursor-transcript":     "a transcript of Cursor",
	"gptme":                 "a chat log",
	"kilo":                  "Kilo, Roo or Cline",
	"language-server":       "messages of a language server",
	"lone-results":          "Trae",
	"model-api":             "the events of a model's API",
	"slack-events":          "messages of Slack",
	"muse":                  "muse",
	"openhands":             "OpenHands",
	"vibe":                  "a chat log",
	"iflow-session-log":     "a session log of iFlow",
}

// unfinished are streams whose last run has neither an end nor been cut off: a line that
// nobody is known to print may be its next one.
var unfinished = map[string]bool{"droid/error": true, "pi/two-prompts": true}

// TestStrangersBesideAgents puts foreign lines before and after every agent's
// streams, all of them in any order, and one by one. The traces must not change.
func TestStrangersBesideAgents(t *testing.T) {
	t.Parallel()
	strangers := map[string][]byte{"all": shuffled(t, 1), "all, again": shuffled(t, 2)}
	single := map[string][]byte{}
	for name, lines := range foreign(t) {
		single[name] = bytes.Join(lines, nil)
		for _, line := range lines {
			single[string(line)] = line
		}
	}
	tried := oneIn(5)
	streams := fixtures(t)
	for _, name := range slices.Sorted(maps.Keys(streams)) {
		in := streams[name]
		spans, m := feed{}.spans(t, in)
		if m.Stats().Runs == 0 || !tried() && !strings.HasSuffix(name, "/plain") {
			continue
		}
		t.Run(short(name), func(t *testing.T) {
			alone := goldenWithoutUnknown(spans)
			in := append(bytes.Clone(in), '\n')
			open := slices.Contains(alone, `  error.type = "incomplete"`) || bareErrors[short(name)] || unfinished[short(name)]
			check := func(strange string, lines []byte) {
				t.Helper()
				for how, mixed := range map[string][]byte{"behind": slices.Concat(lines, in), "before": slices.Concat(in, lines)} {
					if how == "before" && open {
						continue
					}
					spans, _ := feed{}.spans(t, mixed)
					if diff := gocmp.Diff(alone, goldenWithoutUnknown(spans)); diff != "" {
						t.Errorf("%s %s (-alone +together):\n%s", how, strange, diff)
					}
				}
			}
			for strange, lines := range strangers {
				check(strange, lines)
			}
			if strings.HasSuffix(name, "/plain") {
				for _, strange := range slices.Sorted(maps.Keys(single)) {
					if tried() {
						check(strange, single[strange])
					}
				}
			}
		})
	}
}

// never is the number of a line that no stream has.
const never = math.MaxInt

// same are the foreign lines that are an agent's own to the byte, and at which line of the
// agent's plain stream they begin to be told apart: from what the stream said before or says
// after them.
var same = map[string]map[string]int{
	"codex": {`{"type":"turn.started"}`: 1, `{"type":"error","message":"disk full"}`: 1},
	"droid": {
		`{"type":"message","id":"m1","role":"user","text":"Where is my order?"}`: 2,
		`{"type":"reasoning","text":"The parcel left on Monday.","id":"r1"}`:     2,
	},
	"goose": {`{"type":"complete","total_tokens":12}`: never},
	"pi":    {`{"type":"session","version":3,"id":"01a1f1e0-1111-7aaa-8bbb-000000000009","timestamp":"2026-10-02T09:00:00.000Z","cwd":"/home/dev/shop"}`: 4},
}

// TestImitations maps session logs whose first row alone tells that a fork of an agent wrote
// them. The log of the agent that follows is traced.
func TestImitations(t *testing.T) {
	for name, in := range fixtures(t) {
		if short(name) != "codex-log/plain" {
			continue
		}
		fork := bytes.ReplaceAll(in, []byte(`"model_provider":"openai"`), []byte(`"model_provider":"trae"`))
		spans, m := feed{}.spans(t, fork)
		if s := m.Stats(); bytes.Equal(fork, in) || len(spans) > 0 || s.Foreign != "a session log of TraeX" {
			t.Errorf("%d spans, taken for %q", len(spans), s.Foreign)
		}
		if _, found := sessionlog.Find("rollout-1.jsonl", fork); found {
			t.Error("found as a log of Codex")
		}
		want, _ := feed{}.spans(t, in)
		got, _ := feed{}.spans(t, slices.Concat(fork, in))
		if diff := gocmp.Diff(sortedGolden(want), sortedGolden(got)); diff != "" || len(want) == 0 {
			t.Errorf("behind the log of a fork (-alone +behind):\n%s", diff)
		}
		return
	}
	t.Fatal("no log of Codex")
}

// TestStrangersInside puts foreign lines between the lines of every agent's streams: all of
// them at once, and one by one into a plain run. Nothing but the count of unknown lines may
// change.
func TestStrangersInside(t *testing.T) {
	t.Parallel()
	corpus := slices.Concat(slices.Collect(maps.Values(foreign(t)))...)
	slices.SortFunc(corpus, bytes.Compare)
	tried, triedOne := oneIn(37), oneIn(67)
	streams := fixtures(t)
	for _, name := range slices.Sorted(maps.Keys(streams)) {
		own := same[strings.Split(short(name), "/")[0]]
		t.Run(short(name), func(t *testing.T) {
			spans, m := feed{}.spans(t, streams[name])
			if m.Stats().Runs == 0 || strings.HasSuffix(name, "text-output") || strings.HasSuffix(name, "literal-newlines") {
				t.Skip("some of its lines are nobody's, or parts of an event")
			}
			alone := goldenWithoutUnknown(spans)
			lines := slices.Collect(bytes.Lines(streams[name]))
			check := func(at int, strange []byte) {
				t.Helper()
				spans, _ := feed{}.spans(t, slices.Concat(bytes.Join(lines[:at], nil), strange, bytes.Join(lines[at:], nil)))
				if diff := gocmp.Diff(alone, goldenWithoutUnknown(spans)); diff != "" {
					t.Errorf("before line %d (-alone +together):\n%.500s\n%s", at+1, strange, diff)
				}
			}
			var others []byte
			for _, line := range corpus {
				if own[string(bytes.TrimSpace(line))] == 0 {
					others = append(others, line...)
				}
			}
			for at := 1; at < len(lines); at++ {
				if tried() {
					check(at, others)
				}
				for _, line := range corpus {
					if strings.HasSuffix(name, "/plain") && at >= own[string(bytes.TrimSpace(line))] {
						if triedOne() {
							check(at, line)
						}
					}
				}
			}
		})
	}
}

// goldenWithoutUnknown returns the lines of a trace except for the counts of unknown lines and
// the doubt that there are any: a line that nobody knows may be of a later build.
func goldenWithoutUnknown(spans []*tracepb.Span) []string {
	lines := sortedGolden(spans)
	for i, line := range lines {
		if doubts, ok := strings.CutPrefix(line, "  spantee.doubts = "); ok {
			doubts = strings.TrimSuffix(strings.TrimSuffix(doubts, `"unknown_lines"]`), ", ") // the last name
			lines[i] = "  doubts: " + strings.Trim(doubts, "[]")
		}
	}
	return slices.DeleteFunc(lines, func(line string) bool {
		return line == "  doubts: " || strings.Contains(line, "spantee.unknown_lines")
	})
}

// sortedGolden returns the lines of a trace. Where spans begin at the same time, their order
// says nothing.
func sortedGolden(spans []*tracepb.Span) []string {
	lines := strings.Split(treetest.Golden(spans), "\n")
	slices.Sort(lines)
	return lines
}
