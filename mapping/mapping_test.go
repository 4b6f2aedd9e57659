package mapping_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/tree/treetest"
	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/content"
	"github.com/spantee/spantee/mapping/redact"
)

var update = flag.Bool("update", false, "rewrite the golden traces")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorded is when the fixtures claim to have been written.
var recorded = time.Date(2026, 10, 2, 12, 0, 0, 0, time.UTC)

// A feed is how a stream comes in.
type feed struct {
	chunk int // bytes a Write, 0 for all at once
	live  bool
	start time.Time     // live: when the first chunk comes
	tick  time.Duration // live: and how long after it the next
	close bool          // interrupted
	early bool          // lines end before their newlines come
	opts  mapping.Options
}

// redactor is one for all tests: to load the rules takes longer than most.
var redactor = sync.OnceValue(func() *redact.Redactor {
	r, err := redact.New(nil)
	if err != nil {
		panic(err)
	}
	return r
})

// spans maps a stream and resolves the spans that come out. It ruins every
// buffer after Map, so that a slice kept of it shows up as garbage.
func (f feed) spans(t testing.TB, in []byte) ([]*tracepb.Span, *mapping.Mapper) {
	t.Helper()
	var spans []*tracepb.Span
	now := f.start
	opts := f.opts
	opts.Redactor = redactor()
	opts.Now = func() time.Time { return now }
	if !f.live {
		opts.Source = mapping.Recording
		if opts.Written.IsZero() {
			opts.Written = recorded
		}
	}
	m, err := mapping.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	if !f.live {
		m.Survey(bytes.NewReader(in))
	}
	if f.chunk == 0 {
		f.chunk = max(len(in), 1)
	}
	for chunk := range slices.Chunk(in, f.chunk) {
		p := bytes.Clone(chunk)
		outputs := m.Map(p)
		for i := range p {
			p[i] = '#'
		}
		spans = append(spans, decoded(t, outputs)...)
		if f.early {
			spans = append(spans, decoded(t, m.EndLine())...)
		}
		now = now.Add(f.tick)
	}
	spans = append(spans, decoded(t, m.Close(f.close))...)
	checkSpans(t, spans, cmp.Or(f.opts.MaxAttributeBytes, 2048))
	if m.Stats().Spans != len(spans) {
		t.Errorf("%d spans counted, %d emitted", m.Stats().Spans, len(spans))
	}
	return spans, m
}

// checkSpans checks what holds for every stream, however broken.
func checkSpans(t testing.TB, spans []*tracepb.Span, longest int) {
	t.Helper()
	byID := map[string]*tracepb.Span{}
	for _, s := range spans {
		key := string(s.TraceId) + string(s.SpanId)
		if byID[key] != nil {
			t.Errorf("%s: its id is that of another span, %s", s.Name, byID[key].Name)
		}
		byID[key] = s
	}
	for _, s := range spans {
		if s.EndTimeUnixNano <= s.StartTimeUnixNano {
			t.Errorf("%s ends no later than it starts", s.Name)
		}
		if len(s.TraceId) != 16 || len(s.SpanId) != 8 {
			t.Errorf("%s: trace id %x, span id %x", s.Name, s.TraceId, s.SpanId)
		}
		if n := proto.Size(s); n > 3<<20 {
			t.Errorf("%s has %d bytes, more than a request may have", s.Name, n)
		}
		checkStrings(t, s.Name, longest, s.Name, s.Status.GetMessage(), s.TraceState)
		checkAttributes(t, s.Name, longest, s.Attributes)
		for _, e := range s.Events {
			if e.TimeUnixNano < s.StartTimeUnixNano || e.TimeUnixNano > s.EndTimeUnixNano {
				t.Errorf("%s: its event %s at %d is outside of %d to %d", s.Name, e.Name, e.TimeUnixNano, s.StartTimeUnixNano, s.EndTimeUnixNano)
			}
			checkAttributes(t, e.Name, longest, e.Attributes)
		}
		if strings.HasPrefix(s.Name, "invoke_agent") {
			continue
		}
		root := byID[string(s.TraceId)+string(s.ParentSpanId)]
		if root == nil {
			t.Errorf("%s has no root", s.Name)
			continue
		}
		outside := s.StartTimeUnixNano < root.StartTimeUnixNano || s.EndTimeUnixNano > root.EndTimeUnixNano
		if outside && !strings.HasPrefix(s.Name, "background") {
			t.Errorf("%s is outside of its root", s.Name)
		}
	}
}

func checkAttributes(t testing.TB, name string, longest int, attrs []*commonpb.KeyValue) {
	seen := map[string]bool{}
	for _, kv := range attrs {
		if seen[kv.Key] {
			t.Errorf("%s has %s twice", name, kv.Key)
		}
		seen[kv.Key] = true
		checkStrings(t, name, longest, kv.Key, kv.Value.GetStringValue())
		if jsonKeys[kv.Key] && !json.Valid([]byte(kv.Value.GetStringValue())) {
			t.Errorf("%s: %s is not JSON: %s", name, kv.Key, kv.Value.GetStringValue())
		}
	}
}

// jsonKeys are the attributes whose strings are JSON.
var jsonKeys = map[string]bool{
	"gen_ai.input.messages": true, "gen_ai.output.messages": true, "gen_ai.tool.call.arguments": true, "gen_ai.tool.call.result": true,
	"cursor.query.arguments": true, "cursor.query.response": true,
}

func checkStrings(t testing.TB, name string, longest int, values ...string) {
	for _, v := range values {
		if !utf8.ValidString(v) {
			t.Errorf("%s: %q is not UTF-8", name, v)
		}
		if len(v) > longest {
			t.Errorf("%s has a string of %d bytes", name, len(v))
		}
	}
}

// fixtures are the streams of testdata by their paths without the extension, in
// one folder per agent.
func fixtures(t testing.TB) map[string][]byte {
	t.Helper()
	var files []string
	for _, name := range mapping.Agents {
		found, err := filepath.Glob("../testdata/" + name + "/*.[jt]*")
		if err != nil || len(found) == 0 {
			t.Fatal("no fixtures of", name, err)
		}
		files = append(files, found...)
	}
	streams := map[string][]byte{}
	for _, file := range files {
		if ext := filepath.Ext(file); ext != ".jsonl" && ext != ".txt" {
			continue
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		streams[strings.TrimSuffix(file, filepath.Ext(file))] = b
	}
	return streams
}

// contentShown returns the levels of content that a fixture has golden traces
// of. Of every agent it is one: its file "plain".
func contentShown(fixture string) []content.Level {
	if strings.HasSuffix(fixture, "/plain") {
		return []content.Level{content.Details, content.Full}
	}
	return shown[fixture]
}

// shown are the fixtures of which there are golden traces with content, too.
var shown = map[string][]content.Level{ // by agent/name
	"cursor/fix-failing-test":  {content.Details, content.Full},
	"cursor/no-partial-output": {content.Full},
	"cursor/tool-failures":     {content.Details},
	"cursor/approvals":         {content.Full},
	"cursor/background-shell":  {content.Full},
	"cursor/shown-at-last":     {content.Details},
	"cursor/died-of":           {content.Details},
	"cursor/the-whole-wait":    {content.Details},
	"claude/partial-messages":  {content.Full},
	"claude/tool-failures":     {content.Full},
	"claude/retry-compaction":  {content.Full},
	"claude/background-tasks":  {content.Full},
	"qwen/api-error":           {content.Full},
}

// short is a fixture's agent and name.
func short(path string) string { return strings.TrimPrefix(path, "../testdata/") }

// TestGolden compares the trace of every fixture with the one it must become.
func TestGolden(t *testing.T) {
	for name, in := range fixtures(t) {
		t.Run(short(name), func(t *testing.T) {
			golden(t, name+".trace", in, content.None)
			for _, level := range contentShown(short(name)) {
				golden(t, fmt.Sprintf("%s.%s.trace", name, level), in, level)
			}
		})
	}
}

func golden(t *testing.T, file string, in []byte, content content.Level) {
	t.Helper()
	spans, m := feed{opts: mapping.Options{Content: content}}.spans(t, in)
	stats := m.Stats()
	got := fmt.Sprintf("%d lines: %d bad, %d unknown, %d unpaired\n\n%s",
		stats.Lines, stats.BadLines, stats.Unknown, stats.EndsWithoutStart, treetest.Golden(spans))
	compareGolden(t, file, got)
}

// TestChunks checks that chunks, line ends and a byte order mark do not change the
// spans, to the byte.
func TestChunks(t *testing.T) {
	t.Parallel()
	tried := oneIn(3)
	for name, in := range fixtures(t) {
		if !tried() {
			continue
		}
		t.Run(short(name), func(t *testing.T) {
			spans, m := feed{}.spans(t, in)
			want := encode(t, spans)
			full := mapping.Options{Content: content.Full}
			spans, _ = feed{opts: full}.spans(t, in)
			wantFull := encode(t, spans)
			for _, chunk := range []int{1, 2, 7, 4096} {
				spans, _ := feed{chunk: chunk}.spans(t, in)
				if !bytes.Equal(encode(t, spans), want) {
					t.Errorf("other spans in chunks of %d bytes", chunk)
				}
				spans, _ = feed{chunk: chunk, opts: full}.spans(t, in)
				if !bytes.Equal(encode(t, spans), wantFull) {
					t.Errorf("other content in chunks of %d bytes", chunk)
				}
				spans, early := feed{chunk: chunk, early: true}.spans(t, in)
				if !bytes.Equal(encode(t, spans), want) || early.Stats().BadLines != m.Stats().BadLines {
					t.Errorf("other spans or bad lines in chunks of %d bytes, if a line ends before its newline comes", chunk)
				}
			}
			crlf := bytes.ReplaceAll(bytes.ReplaceAll(in, []byte("\r\n"), []byte("\n")), []byte("\n"), []byte("\r\n"))
			if spans, _ := (feed{}).spans(t, crlf); !bytes.Equal(encode(t, spans), want) {
				t.Error("other spans with CRLF")
			}
			const bom = "\uFEFF"
			if spans, _ := (feed{}).spans(t, append([]byte(bom), bytes.TrimPrefix(in, []byte(bom))...)); !bytes.Equal(encode(t, spans), want) {
				t.Error("other spans with a byte order mark")
			}
			if spans, _ := (feed{}).spans(t, bytes.TrimRight(in, "\r\n")); !bytes.Equal(encode(t, spans), want) {
				t.Error("other spans without a final newline")
			}
		})
	}
}

// TestTakenLater leaves what the Mapper returns, or takes one Output at a time: the rest
// comes later, and nothing is lost.
func TestTakenLater(t *testing.T) {
	for name, in := range fixtures(t) {
		want, _ := feed{}.spans(t, in)
		for _, each := range []int{0, 1} {
			m, err := mapping.New(mapping.Options{Redactor: redactor(), Source: mapping.Recording, Written: recorded})
			if err != nil {
				t.Fatal(err)
			}
			m.Survey(bytes.NewReader(in))
			var got []*tracepb.Span
			for line := range bytes.Lines(in) {
				n := 0
				for out := range m.Map(line) {
					if out.Span != nil {
						got = append(got, decode(t, out.Span))
					}
					if n++; n > each {
						break
					}
				}
			}
			got = append(got, decoded(t, m.Close(false))...)
			if !bytes.Equal(encode(t, got), encode(t, want)) {
				t.Errorf("%s: %d spans, want %d", short(name), len(got), len(want))
			}
			if rest := decoded(t, m.Close(false)); len(rest) > 0 {
				t.Errorf("%s: %d spans after the end", short(name), len(rest))
			}
		}
	}
}

// decode reads a span as a receiver does.
func decode(t testing.TB, b []byte) *tracepb.Span {
	t.Helper()
	s := new(tracepb.Span)
	if err := proto.Unmarshal(b, s); err != nil {
		t.Fatal(err)
	}
	return s
}

func openSpans(t testing.TB, m *mapping.Mapper) (spans []*tracepb.Span) {
	return decoded(t, m.Open(time.Unix(0, 0)))
}

// decoded returns the spans of outputs.
func decoded(t testing.TB, outputs iter.Seq[mapping.Output]) (spans []*tracepb.Span) {
	for out := range outputs {
		if out.Span != nil {
			spans = append(spans, decode(t, out.Span))
		}
	}
	return spans
}

func encode(t testing.TB, spans []*tracepb.Span) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(&tracepb.ScopeSpans{Spans: spans})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestCut ends every fixture after each of its lines, and in the middle of it:
// what had started must have ended, within its root.
func TestCut(t *testing.T) {
	t.Parallel()
	tried := oneIn(7)
	streams := fixtures(t)
	for _, name := range slices.Sorted(maps.Keys(streams)) {
		in := streams[name]
		t.Run(short(name), func(t *testing.T) {
			lines := bytes.SplitAfter(in, []byte("\n"))
			long := len(lines) > 150 // half of the ways to cut it will do
			for i := range lines {
				for _, live := range []bool{false, true} {
					if long && live == (i%2 == 0) || !tried() {
						continue
					}
					f := feed{live: live, chunk: 4099, start: recorded, tick: time.Millisecond, close: i%2 == 0}
					f.opts.Content = []content.Level{content.None, content.Full}[i/2%2]
					f.spans(t, bytes.Join(lines[:i], nil))
					if !long {
						f.spans(t, append(bytes.Join(lines[:i], nil), lines[i][:len(lines[i])/2]...))
					}
				}
			}
		})
	}
}
