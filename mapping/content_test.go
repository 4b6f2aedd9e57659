package mapping_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/content"
	"github.com/spantee/spantee/mapping/redact/redacttest"
)

func full(t testing.TB, lines ...string) []*tracepb.Span {
	t.Helper()
	spans, _ := feed{opts: mapping.Options{Agent: "cursor", Content: content.Full}}.spans(t, stream(lines...))
	return spans
}

// attribute returns a string attribute of the first span of a name.
func attribute(spans []*tracepb.Span, name, key string) string {
	for _, s := range spans {
		if s.Name != name && !strings.HasPrefix(s.Name, name+" ") {
			continue
		}
		for _, kv := range s.Attributes {
			if kv.Key == key {
				return kv.Value.GetStringValue()
			}
		}
	}
	return ""
}

func number(spans []*tracepb.Span, name, key string) int64 {
	for _, s := range spans {
		for _, kv := range s.Attributes {
			if s.Name == name && kv.Key == key {
				return kv.Value.GetIntValue()
			}
		}
	}
	return 0
}

// TestMessageSchema checks the messages of all fixtures, whole and cut short.
func TestMessageSchema(t *testing.T) {
	t.Parallel()
	compiler := jsonschema.NewCompiler()
	schemas := map[string]*jsonschema.Schema{
		"gen_ai.input.messages":  compiler.MustCompile("../testdata/schema/messages.json"),
		"gen_ai.output.messages": compiler.MustCompile("../testdata/schema/messages.json#/$defs/output"),
	}
	checked := 0
	streams := fixtures(t)
	streams["script"] = newScript(t, func(field string) string { return strings.Repeat(field+"\n\"\\", 9) })
	for name, in := range streams {
		for _, limit := range []int{100, 256, 2048, 64 << 10} {
			spans, _ := feed{opts: mapping.Options{Content: content.Full, MaxAttributeBytes: limit}}.spans(t, in)
			for _, s := range spans {
				for _, kv := range s.Attributes {
					schema := schemas[kv.Key]
					if schema == nil {
						continue
					}
					checked++
					text := kv.Value.GetStringValue()
					v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
					if err == nil {
						err = schema.Validate(v)
					}
					if err != nil || len(text) > limit {
						t.Errorf("%s, cut to %d, has %s of %d bytes: %v\n%s", filepath.Base(name), limit, kv.Key, len(text), err, text)
					}
				}
			}
		}
	}
	if checked < 500 {
		t.Errorf("%d messages checked", checked)
	}
}

func TestToolContent(t *testing.T) {
	call := `"tool_call":{"shellToolCall":{"args":{"command":"TOKEN=a1b2c3d4e5 make","workingDirectory":"/home/dev"}%s},"description":"Build it"}`
	line := func(subtype, result string) string {
		return stamped(now, `{"type":"tool_call","subtype":"`+subtype+`","call_id":"a","model_call_id":"r-0-abcd",`+fmt.Sprintf(call, result)+`}`)
	}
	spans := full(t, initLine, line("started", ""), line("completed", `,"result":{"failure":{"exitCode":2,"stderr":"no rule for password=hunter2x\n","stdout":"","n":1.5}}`), result(time.Second))
	for key, want := range map[string]string{
		"process.command_line":       "TOKEN=[redacted:assignment] make",
		"process.working_directory":  "/home/dev",
		"gen_ai.tool.call.arguments": `{"command":"TOKEN=[redacted:assignment] make","workingDirectory":"/home/dev"}`,
		"gen_ai.tool.call.result":    `{"failure":{"exitCode":2,"stderr":"no rule for password=[redacted:assignment]\n","stdout":"","n":1.5}}`,
	} {
		if got := attribute(spans, "execute_tool shell make", key); got != want {
			t.Errorf("%s = %s, want %s", key, got, want)
		}
	}
	i := slices.IndexFunc(spans, func(s *tracepb.Span) bool { return strings.HasPrefix(s.Name, "execute_tool shell") })
	if got, want := spans[i].Status.Message, "exit code 2: no rule for password=[redacted:assignment]"; got != want {
		t.Errorf("status %q, want %q", got, want)
	}
	if got, want := attribute(spans, "chat GPT-5", "gen_ai.output.messages"),
		`[{"role":"assistant","parts":[{"type":"tool_call","id":"a","name":"shell","arguments":{"command":"TOKEN=[redacted:assignment] make","workingDirectory":"/home/dev"}}],"finish_reason":"tool_call"}]`; got != want {
		t.Errorf("output %s, want %s", got, want)
	}
}

// TestStructured checks that JSON stays JSON whatever is in it.
func TestStructured(t *testing.T) {
	for args, want := range map[string]string{
		`{"env":[{"name":"DB_PASSWORD","value":"hunter2"},{"name":"HOME","value":"/root"}]}`: `{"env":[{"name":"DB_PASSWORD","value":"[redacted:assignment]"},{"name":"HOME","value":"/root"}]}`,
		`{"words":[{"value":"hunter2"}],"command":"mysql --password hunter2 shop"}`:          `{"words":[{"value":"[redacted:assignment]"}],"command":"mysql --password [redacted:assignment] shop"}`,
		`{"argv":["mysql","--password","hunter2","shop"]}`:                                   `{"argv":["mysql","--password","[redacted:assignment]","shop"]}`,
		`{"headers":{"Authorization":"Bearer abcdef"},"n":[1,-2e3,true,null]}`:               `{"headers":{"Authorization":"Bearer [redacted:authorization]"},"n":[1,-2e3,true,null]}`,
		`{"password":12345678,"a":01,"b":nope}`:                                              `{"password":"[redacted:assignment]","a":"01","b":"nope"}`,
		`{"q":"a\"b\\cé\u0007","https://u:p4ss@h/":1}`:                                       `{"q":"a\"b\\cé\u0007","https://[redacted:url-credentials]@h/":1}`,
	} {
		spans := full(t, initLine, stamped(now, `{"type":"tool_call","subtype":"started","call_id":"a","tool_call":{"xToolCall":{"args":`+args+`}}}`))
		if got := attribute(spans, "execute_tool x", "gen_ai.tool.call.arguments"); got != want {
			t.Errorf("%s became %s, want %s", args, got, want)
		}
	}
}

// TestCutting checks that what is cut is counted and stays whole.
func TestCutting(t *testing.T) {
	prompt, _ := json.Marshal(map[string]any{"type": "user", "message": map[string]any{"content": strings.Repeat("größer ", 500)}})
	spans := full(t, initLine, string(prompt), result(time.Second))
	got := attribute(spans, "invoke_agent cursor-agent", "gen_ai.input.messages")
	if len(got) > 2048 || len(got) < 2040 || !json.Valid([]byte(got)) || !utf8.ValidString(got) {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	if !strings.HasSuffix(got, `[truncated]"}]}]`) {
		t.Errorf("no mark at the end of %s", got)
	}
	content := len(got) - len(`[{"role":"user","parts":[{"type":"text","content":"[truncated]"}]}]`)
	if lost := number(spans, "invoke_agent cursor-agent", "spantee.truncated_bytes"); lost != int64(9*500-content) {
		t.Errorf("%d bytes cut, want %d", lost, 9*500-content)
	}
}

// TestCutsAreMarked checks that each cut is marked where it is, and nothing else.
func TestCutsAreMarked(t *testing.T) {
	long := strings.Repeat("0123456789", 600)
	for args, want := range map[string]string{
		`{"command":"` + long + `","n":1}`:                                   `[truncated]","n":1}`,
		`{"a":"short","b":["` + long + `","short"]}`:                         `[truncated]","short"]}`,
		`{"b":[` + strings.Repeat(`"tiny",`, 3000) + `"last"]}`:              `"tiny","[truncated]"]}`,
		`{` + strings.Repeat(`"k":1,`, 3000) + `"last":2}`:                   `"k":1,"[truncated]":true}`,
		`{"deep":` + strings.Repeat(`[`, 40) + strings.Repeat(`]`, 40) + `}`: `["[truncated]"]`,
		`{"whole":"` + long[:1900] + `"}`:                                    `89"}`,
	} {
		spans := full(t, initLine, stamped(now, `{"type":"tool_call","subtype":"started","call_id":"a","tool_call":{"xToolCall":{"args":`+args+`}}}`))
		got := attribute(spans, "execute_tool x", "gen_ai.tool.call.arguments")
		marks := strings.Count(got, "[truncated]")
		if !strings.Contains(got, want) || !json.Valid([]byte(got)) || len(got) > 2048 || marks != strings.Count(want, "[truncated]") {
			t.Errorf("%d marks in %d bytes: %.60s ... %s", marks, len(got), got, got[max(0, len(got)-60):])
		}
	}

	// Text that comes in pieces is marked once, at the piece that is not whole.
	lines := []string{initLine}
	for range 30 {
		lines = append(lines, stamped(now, `{"type":"assistant","message":{"content":[{"type":"text","text":"`+long+long+`"}]}}`))
	}
	texts, marks := 0, 0
	for _, s := range full(t, lines...) {
		for _, e := range s.Events {
			for _, kv := range e.Attributes {
				if text := kv.Value.GetStringValue(); text != "" {
					texts++
					marks += strings.Count(text, "[truncated]")
				}
			}
		}
	}
	if texts < 20 || texts > 23 || marks != texts { // 22 of 12 kB are kept, and none fits an attribute
		t.Errorf("%d texts, %d marks", texts, marks)
	}
}

// TestLongSegment says more in a segment than is kept: the rest is cut, counted
// and not kept in memory, and the events are all there.
func TestLongSegment(t *testing.T) {
	const deltas, each = 3000, 1000
	lines := []string{initLine}
	for i := range deltas {
		lines = append(lines, stamped(now, `{"type":"assistant","message":{"content":[{"type":"text","text":"`+strings.Repeat("é", each/2-i%2)+strings.Repeat("x", i%2*2)+`"}]}}`))
	}
	spans := full(t, lines...)
	var events, lost, shown int64
	for _, s := range spans {
		for _, e := range s.Events {
			events++
			for _, kv := range e.Attributes {
				shown += int64(len(kv.Value.GetStringValue()))
			}
		}
		for _, kv := range s.Attributes {
			if kv.Key == "spantee.truncated_bytes" {
				lost += kv.Value.GetIntValue()
			}
		}
	}
	if events != deltas {
		t.Errorf("%d events, want %d", events, deltas)
	}
	if shown < 200<<10 || shown > 256<<10 {
		t.Errorf("%d bytes are shown", shown)
	}
	if lost < deltas*each-shown {
		t.Errorf("%d bytes cut and %d shown of %d", lost, shown, deltas*each)
	}
}

// TestManyShortDeltas has more events wait for the end of a segment than may:
// a secret that stands there is not halved.
func TestManyShortDeltas(t *testing.T) {
	const deltas = 40_000
	lines := []string{initLine}
	for i := range deltas {
		text := "a"
		if i%1000 < 20 { // AKIA and 16 more
			text = ("AK" + "IA" + "QWERTYUIASDFGHJK")[i%1000 : i%1000+1]
		} else if i%1000 == 20 || i%1000 == 999 {
			text = " "
		}
		lines = append(lines, stamped(now, `{"type":"thinking","subtype":"delta","text":"`+text+`"}`))
	}
	spans := full(t, lines...)
	var b strings.Builder
	for _, s := range spans {
		for _, e := range s.Events {
			for _, kv := range e.Attributes {
				b.WriteString(kv.Value.GetStringValue())
			}
		}
	}
	if text := b.String(); strings.ContainsAny(strings.ReplaceAll(text, "[redacted:aws-access-token]", ""), "QWERTYUIASDFGHJK") || !strings.Contains(text, "[redacted:aws") {
		t.Errorf("%.2000s", text)
	}
}

func TestContentOptions(t *testing.T) {
	_, err := mapping.New(mapping.Options{Content: "some"})
	if err == nil || err.Error() != `invalid content level "some" (want none, details or full)` {
		t.Error(err)
	}
	if _, err := mapping.New(mapping.Options{Content: content.Full}); err != nil { // with all rules
		t.Error(err)
	}
}

// TestDeltaModes checks that what was said is in the messages whatever becomes
// of the deltas.
func TestDeltaModes(t *testing.T) {
	lines := stream(initLine, thinking(now), thinking(now), stamped(now, `{"type":"thinking","subtype":"completed"}`), result(time.Second))
	for mode, want := range map[mapping.Deltas][]string{
		mapping.DeltasEach:    {"thinking.delta hm", "thinking.delta hm"},
		mapping.DeltasMessage: {"thinking.message hmhm"},
		mapping.DeltasOff:     nil,
	} {
		spans, _ := feed{opts: mapping.Options{Content: content.Full, Deltas: mode}}.spans(t, lines)
		var got []string
		for _, e := range spans[0].Events {
			for _, kv := range e.Attributes {
				if kv.Key == "spantee.delta.text" {
					got = append(got, e.Name+" "+kv.Value.GetStringValue())
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: events %q, want %q", mode, got, want)
		}
		if got := attribute(spans, "chat GPT-5", "gen_ai.output.messages"); !strings.Contains(got, `{"type":"reasoning","content":"hmhm"}`) {
			t.Errorf("%s: output %s", mode, got)
		}
	}
}

// TestOpenContent asks for the open spans after every line: it changes nothing
// of what comes later, and they hold no more than the others.
func TestOpenContent(t *testing.T) {
	t.Parallel()
	secrets := redacttest.All()
	next := 0
	streams := fixtures(t)
	streams["script"] = newScript(t, func(field string) string {
		if slices.Contains(canaries[0].always, field) {
			return "plain"
		}
		next++
		return secrets[next%len(secrets)].Text
	})
	tried := oneIn(5)
	for name, in := range streams {
		if !tried() && name != "script" {
			continue
		}
		agent, _, fixture := strings.Cut(short(name), "/")
		if !fixture {
			agent = "cursor"
		}
		var ended [2][]*tracepb.Span
		for ask := range 2 {
			m, err := mapping.New(mapping.Options{
				Content: content.Full, Redactor: redactor(), Agent: agent, MaxSpanEvents: 100,
				Now: func() time.Time { return now },
			})
			if err != nil {
				t.Fatal(err)
			}
			for line := range bytes.Lines(in) {
				ended[ask] = append(ended[ask], decoded(t, m.Map(line))...)
				if ask == 1 {
					open := encode(t, openSpans(t, m))
					for _, secret := range secrets {
						for _, part := range secret.Parts {
							if name == "script" && bytes.Contains(open, []byte(part)) {
								t.Fatalf("%s: %q is open", secret.Name, part)
							}
						}
					}
				}
			}
			ended[ask] = append(ended[ask], decoded(t, m.Close(false))...)
		}
		if !bytes.Equal(encode(t, ended[0]), encode(t, ended[1])) {
			t.Errorf("%s: other spans end if open ones are asked for", filepath.Base(name))
		}
	}
}

// A secret that is still being said is not to be recovered after a kill: what may
// be its beginning is held back.
func TestOpenHoldsBack(t *testing.T) {
	for i, secret := range redacttest.All() {
		if i%10 != 0 {
			continue
		}
		m, err := mapping.New(mapping.Options{
			Content: content.Full, Redactor: redactor(), Agent: "cursor", MaxAttributeBytes: 16 << 10,
			Now: func() time.Time { return now },
		})
		if err != nil {
			t.Fatal(err)
		}
		m.Map(stream(initLine))
		part := secret.Parts[0]
		end := strings.Index(secret.Bare, part) + len(part)
		for at := 0; at < end; {
			next := min(at+3, end)
			quoted, _ := json.Marshal(secret.Bare[at:next])
			at = next
			m.Map(stream(stamped(now, fmt.Sprintf(`{"type":"thinking","subtype":"delta","text":%s}`, quoted))))
			for _, span := range openSpans(t, m) {
				if said := strings.Join(texts(span), ""); len(part) > 8 && strings.Contains(said, part[:8]) {
					t.Errorf("%s: after %q the open span has %q", secret.Name, secret.Bare[:at], said)
				}
			}
		}
	}
}

// texts returns the texts of a span's events.
func texts(s *tracepb.Span) (texts []string) {
	for _, e := range s.Events {
		for _, kv := range e.Attributes {
			texts = append(texts, kv.Value.GetStringValue())
		}
	}
	return texts
}

// Two messages of an agent are two parts of what it says.
func TestTwoMessages(t *testing.T) {
	in := []byte(`{"type":"thread.started","thread_id":"0199a213-81c0-7800-8aa1-bbab2a035a53"}
{"type":"turn.started"}
{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"Going on."}}
{"type":"item.completed","item":{"id":"item_1","type":"agent_message","text":"Done."}}
{"type":"turn.completed","usage":{"input_tokens":24763,"cached_input_tokens":24448,"output_tokens":122}}
`)
	spans, _ := feed{opts: mapping.Options{Content: content.Full}}.spans(t, in)
	said := `[{"role":"assistant","parts":[{"type":"text","content":"Going on."},{"type":"text","content":"Done."}],"finish_reason":"stop"}]`
	if got := attr(spans[0], "gen_ai.output.messages").GetStringValue(); got != said {
		t.Errorf("%s says %s", spans[0].Name, got)
	}
}

// TestOpenTextIsNotTruncated checks that an open span has the lines of a text that are safe, and
// no mark for the last one, which comes later.
func TestOpenTextIsNotTruncated(t *testing.T) {
	say := func(text string) []byte {
		return []byte(stamped(now, `{"type":"assistant","message":{"content":[{"type":"text","text":"`+text+`"}]}}`) + "\n")
	}
	w := watch(t, [][]byte{[]byte(initLine + "\n"), say("I am go"), say("ing on.\\nThen"), say(" more.")}, mapping.Options{Agent: "cursor", Content: content.Full}, true, nil)
	for i, want := range []string{"", "", "", "I am going on.\n", "I am going on.\n"} {
		var deltas string
		for _, s := range w.open[i] {
			for _, e := range s.Events {
				for _, kv := range e.Attributes {
					deltas += kv.Value.GetStringValue()
				}
			}
		}
		answer := attribute(w.open[i], "chat GPT-5", "gen_ai.output.messages")
		if deltas != want || strings.Contains(answer, "truncated") || want != "" && !strings.Contains(answer, "I am going on.") {
			t.Errorf("after %d lines: %q, answer %s, want %q", i, deltas, answer, want)
		}
	}
}
