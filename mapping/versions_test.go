package mapping_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/exporter/tree/treetest"
	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/jsonscan"
)

// A value is a JSON value whose members keep their order. One that is no object
// or array is its text.
type value struct {
	text    []byte
	bracket byte // '{', '[' or 0
	members []member
}

type member struct {
	key   string
	value value
}

func readValue(r *jsonscan.Reader) (v value) {
	switch v.bracket = r.Peek(); v.bracket {
	case '{':
		for key := range r.Members() {
			v.members = append(v.members, member{string(key), readValue(r)})
		}
	case '[':
		for range r.Elements() {
			v.members = append(v.members, member{value: readValue(r)})
		}
	default:
		v.bracket, v.text = 0, bytes.Clone(r.Raw())
	}
	return v
}

func (v *value) append(b []byte) []byte {
	if v.bracket == 0 {
		return append(b, v.text...)
	}
	b = append(b, v.bracket)
	for i := range v.members {
		if i > 0 {
			b = append(b, ',')
		}
		if v.bracket == '{' {
			b = append(append(append(b, '"'), v.members[i].key...), `":`...)
		}
		b = v.members[i].value.append(b)
	}
	return append(b, v.bracket+2)
}

// edit has every value of a stream's objects changed by f, the outer ones first.
// path is where it stands, "item.id".
func edit(in []byte, f func(path string, v *value)) []byte {
	var out []byte
	var walk func(path string, v *value)
	walk = func(path string, v *value) {
		f(path, v)
		for i := range v.members {
			walk(strings.TrimPrefix(path+"."+v.members[i].key, "."), &v.members[i].value)
		}
	}
	for line := range bytes.Lines(in) {
		prefix := line[:max(0, bytes.IndexByte(line, '{'))] // such as a byte order mark
		r := jsonscan.Reader{B: bytes.TrimSpace(line[len(prefix):])}
		objects := bytes.Clone(prefix)
		for !r.End() && r.Peek() == '{' {
			v := readValue(&r)
			walk("", &v)
			objects = v.append(objects)
		}
		if r.Bad || !r.End() {
			objects = bytes.TrimRight(line, "\r\n")
		}
		out = append(append(out, objects...), '\n')
	}
	return out
}

// shape tells what spans there are: under which, how named, how they went, and
// with how many tokens.
func shape(spans []*tracepb.Span, m *mapping.Mapper) string {
	names := map[string]string{}
	for _, s := range spans {
		names[string(s.TraceId)+string(s.SpanId)] = s.Name
	}
	lines := []string{fmt.Sprintf("%d runs, %d bad, %d unpaired, %d unproven", m.Stats().Runs, m.Stats().BadLines, m.Stats().EndsWithoutStart, m.Stats().Unidentified)}
	for _, s := range spans {
		lines = append(lines, fmt.Sprintf("%s > %s: %s %d %d", names[string(s.TraceId)+string(s.ParentSpanId)], s.Name, attr(s, "error.type").GetStringValue(),
			attr(s, "gen_ai.usage.input_tokens").GetIntValue(), attr(s, "gen_ai.usage.output_tokens").GetIntValue()))
	}
	slices.Sort(lines[1:])
	return strings.Join(lines, "\n")
}

// TestMembersInAnyOrder shuffles the members of all objects.
func TestMembersInAnyOrder(t *testing.T) {
	t.Parallel()
	tried := oneIn(1)
	for name, in := range fixtures(t) {
		if !tried() {
			continue
		}
		t.Run(short(name), func(t *testing.T) {
			spans, m := feed{}.spans(t, edit(in, func(string, *value) {}))
			want := fmt.Sprintf("%+v\n%s", m.Stats(), treetest.Golden(spans))
			for seed := range uint64(3) {
				random := rand.New(rand.NewPCG(seed, 0))
				spans, m := feed{}.spans(t, edit(in, func(_ string, v *value) {
					if v.bracket == '{' {
						random.Shuffle(len(v.members), func(i, k int) { v.members[i], v.members[k] = v.members[k], v.members[i] })
					}
				}))
				got := fmt.Sprintf("%+v\n%s", m.Stats(), treetest.Golden(spans))
				if diff := gocmp.Diff(want, got); diff != "" {
					t.Fatalf("seed %d (-want +got):\n%s", seed, diff)
				}
			}
		})
	}
}

// TestUnknownMembers adds members that nobody knows to all objects.
func TestUnknownMembers(t *testing.T) {
	unknown := []string{`7`, `null`, `"x"`, `true`, `[{"type":"x"}]`, `{"type":"x","id":"y","text":"z","name":"n"}`}
	for name, in := range fixtures(t) {
		t.Run(short(name), func(t *testing.T) {
			want := shape(feed{}.spans(t, in))
			n := 0
			got := shape(feed{}.spans(t, edit(in, func(_ string, v *value) {
				if v.bracket == '{' {
					n++
					added := member{"spantee_unknown", value{text: []byte(unknown[n%len(unknown)])}}
					v.members = slices.Insert(v.members, n%(len(v.members)+1), added)
				}
			})))
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("spans (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUnknownLines adds lines of types that nobody knows: every line is followed
// by one that differs in nothing else.
func TestUnknownLines(t *testing.T) {
	for name, in := range fixtures(t) {
		t.Run(short(name), func(t *testing.T) {
			spans, m := feed{}.spans(t, in)
			if m.Stats().Runs == 0 {
				t.Skip("nobody's stream")
			}
			want := unproven.ReplaceAllString(shape(spans, m), "")
			var more []byte
			for line := range bytes.Lines(in) {
				unknown := edit(line, func(path string, v *value) {
					if (path == "type" || path == "event") && len(v.text) > 2 {
						v.text = append(v.text[:len(v.text)-1], `_unknown"`...)
					}
				})
				more = append(append(more, line...), '\n')
				if !bytes.Equal(bytes.TrimSpace(unknown), bytes.TrimSpace(line)) {
					more = append(more, unknown...)
				}
			}
			if diff := gocmp.Diff(want, unproven.ReplaceAllString(shape(feed{}.spans(t, more)), "")); diff != "" {
				t.Errorf("spans (-want +got):\n%s", diff)
			}
		})
	}
}

// unproven is how many lines of a shape may be anybody's: such as an unknown line before
// the first one that proves an agent.
var unproven = regexp.MustCompile(`, \d+ unproven`)

// toolNames are the paths at which agents have the names of tools, and what
// they call their kinds.
var toolNames = regexp.MustCompile(`(^message\.content\.\.name|^tool_name|^step_update\.tool_name|tool_info\.name|\.toolName|^toolName|toolCall\.value\.name|^part\.tool|^item\.tool)$`)

// withoutTools takes the names of tools out of a shape.
func withoutTools(shape string) []string {
	lines := strings.Split(regexp.MustCompile(`(execute_tool|background) [^:>]*`).ReplaceAllString(shape, "$1 "), "\n")
	slices.Sort(lines)
	return lines
}

// TestUnknownTools gives all tools names that nobody knows.
func TestUnknownTools(t *testing.T) {
	for name, in := range fixtures(t) {
		t.Run(short(name), func(t *testing.T) {
			want := shape(feed{}.spans(t, in))
			got := shape(feed{}.spans(t, edit(in, func(path string, v *value) {
				if toolNames.MatchString(path) && len(v.text) > 2 && string(v.text) != `"invalid"` { // opencode's word for no tool
					v.text = append(v.text[:len(v.text)-1], `_new"`...)
				}
				for i, m := range v.members {
					if path == "tool_call" && strings.HasSuffix(m.key, "ToolCall") {
						v.members[i].key = "new_" + m.key
					}
				}
			})))
			if diff := gocmp.Diff(withoutTools(want), withoutTools(got)); diff != "" {
				t.Errorf("spans (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNumericIDs makes all ids numbers.
func TestNumericIDs(t *testing.T) {
	id := regexp.MustCompile(`(?i)(_id|[a-z]ID|Id|\bid|uuid)$`)
	for name, in := range fixtures(t) {
		t.Run(short(name), func(t *testing.T) {
			if short(name) == "cursor/literal-newlines" {
				t.Skip("its events are not lines")
			}
			want := shape(feed{}.spans(t, in))
			numbers := map[string]int{}
			number := func(id string) int {
				if numbers[id] == 0 {
					numbers[id] = 1000 + len(numbers)
				}
				return numbers[id]
			}
			got := shape(feed{}.spans(t, edit(in, func(path string, v *value) {
				text := strings.Trim(string(v.text), `"`)
				for mark, end := range map[string]string{"<task-id>": "<", "background with shellId: ": ">"} {
					if before, after, ok := strings.Cut(string(v.text), mark); ok {
						task, after, _ := strings.Cut(after, end)
						v.text = fmt.Appendf(nil, "%s%s%d%s%s", before, mark, number(task), end, after)
					}
				}
				if !id.MatchString(path) || text == "" || text == "null" || strings.HasPrefix(text, "T-") || path == "toolId" || strings.HasSuffix(path, "modelID") || strings.HasSuffix(path, "providerID") {
					return
				}
				v.text = strconv.AppendInt(nil, int64(number(text)), 10)
			})))
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("spans (-want +got):\n%s", diff)
			}
		})
	}
}

// TestObjectsOnOneLine writes three objects a line.
func TestObjectsOnOneLine(t *testing.T) {
	for name, in := range fixtures(t) {
		t.Run(short(name), func(t *testing.T) {
			spans, m := feed{}.spans(t, in)
			if m.Stats().Runs == 0 || m.Stats().BadLines+m.Stats().Unidentified > 0 || strings.HasSuffix(name, "proof-at-the-end") {
				t.Skip("its lines are told apart one by one")
			}
			n, joined := 0, []byte(nil)
			for line := range bytes.Lines(in) {
				joined = append(joined, bytes.TrimRight(line, "\r\n")...)
				if n++; n%3 == 0 {
					joined = append(joined, '\n')
				}
			}
			if diff := gocmp.Diff(shape(spans, m), shape(feed{}.spans(t, joined))); diff != "" {
				t.Errorf("spans (-want +got):\n%s", diff)
			}
		})
	}
}

// TestQuotedNumbers writes all numbers as strings, as some JSON libraries do.
func TestQuotedNumbers(t *testing.T) {
	for name, in := range fixtures(t) {
		t.Run(short(name), func(t *testing.T) {
			if strings.HasSuffix(name, "odd-lines") {
				t.Skip("a number in the place of a text would become one")
			}
			want := shape(feed{}.spans(t, in))
			got := shape(feed{}.spans(t, edit(in, func(_ string, v *value) {
				if len(v.text) > 0 && (v.text[0] == '-' || '0' <= v.text[0] && v.text[0] <= '9') {
					v.text = slices.Concat([]byte(`"`), v.text, []byte(`"`))
				}
			})))
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("spans (-want +got):\n%s", diff)
			}
		})
	}
}

// structural are the members without which nobody can tell what a line is, or
// which lines belong together.
var structural = regexp.MustCompile(`(?i)(^|\.)(type|event|init|subtype|step_update|step_type|step_index|id|\w+_id|\w+id|message|content|item|part|data|payload|role|status|state|isSidechain)$`)

// TestOtherMembers leaves members out one after the other, makes them null, or
// of another type: no call of a tool gets lost, and all spans end as they should.
func TestOtherMembers(t *testing.T) {
	t.Parallel()
	changes := []func(v *value) bool{
		func(*value) bool { return false },
		func(v *value) bool { *v = value{text: []byte("null")}; return true },
		func(v *value) bool {
			switch {
			case v.bracket == '{':
				*v = value{bracket: '[', members: []member{{value: *v}}}
			case v.bracket == '[':
				*v = value{bracket: '{', members: []member{{key: "x", value: *v}}}
			case bytes.HasPrefix(v.text, []byte(`"`)):
				v.text = []byte("7")
			default:
				v.text = slices.Concat([]byte(`"`), v.text, []byte(`"`))
			}
			return true
		},
	}
	tried := oneIn(15)
	streams := fixtures(t)
	for _, name := range slices.Sorted(maps.Keys(streams)) {
		in := streams[name]
		t.Run(short(name), func(t *testing.T) {
			spans, m := feed{}.spans(t, in)
			if m.Stats().Runs == 0 {
				t.Skip("nobody's stream")
			}
			tools := totalsOf(spans).Tools
			paths := map[string]bool{}
			edit(in, func(path string, _ *value) { paths[path] = true })
			delete(paths, "")
			for n, path := range slices.Sorted(maps.Keys(paths)) {
				if !tried() {
					continue
				}
				in := edit(in, func(at string, v *value) {
					for i := 0; v.bracket == '{' && i < len(v.members); i++ {
						if strings.TrimPrefix(at+"."+v.members[i].key, ".") == path && !changes[n%len(changes)](&v.members[i].value) {
							v.members = slices.Delete(v.members, i, i+1)
							i--
						}
					}
				})
				f := feed{live: n%2 == 0, start: recorded, chunk: 999, tick: time.Millisecond, opts: mapping.Options{Agent: filepath.Base(filepath.Dir(name))}}
				spans, m := f.spans(t, in)
				got := totalsOf(spans)
				if got.Runs != m.Stats().Runs {
					t.Errorf("change %d of %s: %d roots of %d runs", n%len(changes), path, got.Runs, m.Stats().Runs)
				}
				// Without call_id, only what is in tool_call says which lines belong together.
				pairs := structural.MatchString(path) || path == "tool_call" && short(name) == "cursor/no-call-id"
				if got.Tools != tools && !pairs {
					t.Errorf("change %d of %s: %d calls of tools, want %d", n%len(changes), path, got.Tools, tools)
				}
				if t.Failed() {
					t.Fatalf("change %d of %s", n%len(changes), path)
				}
			}
		})
	}
}
