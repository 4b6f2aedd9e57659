package mapping_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/receipt"
	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/content"
	"github.com/spantee/spantee/mapping/redact/redacttest"
)

// spoken are the members whose strings are always content, even if they are one
// word.
var spoken = map[string]bool{
	"text": true, "thinking": true, "content": true, "delta": true, "deltaContent": true, "detailedContent": true, "output": true,
	"aggregated_output": true, "message": true, "error": true, "errorMessage": true, "prompt": true, "finalText": true, "value": true,
	"description": true, "title": true, "path": true, "filePath": true, "file_path": true, "pattern": true, "query": true, "url": true,
	"reasoningText": true, "intention": true, "diff": true, "cwd": true, "partialOutput": true, "summaryContent": true,
}

// bare is a word, a date or an id: anything else may be content.
var bare = regexp.MustCompile(`^[\w.:+\[\]-]*$`)

// marked adds a mark to every string of a value that may be content.
func marked(v any, key, mark string) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = marked(v[k], k, mark)
		}
	case []any:
		for i := range v {
			v[i] = marked(v[i], key, mark)
		}
	case string:
		switch {
		case v == "":
		case key == "model" || key == "requestedModel" || key == "provider":
			return v + " and " + mark
		case spoken[key] || !bare.MatchString(v):
			return v + " " + mark
		}
	}
	return v
}

// markLines marks the content of a stream's lines.
func markLines(t *testing.T, in []byte, mark string) []byte {
	t.Helper()
	var out []byte
	d := json.NewDecoder(bytes.NewReader(in))
	d.UseNumber()
	for d.More() {
		var v any
		if d.Decode(&v) != nil {
			return out // the rest of an odd stream
		}
		b, err := json.Marshal(marked(v, "", mark))
		if err != nil {
			t.Fatal(err)
		}
		out = append(append(out, b...), '\n')
	}
	return out
}

// others are the fixtures of all agents but Cursor, whose events have a script.
func others(t *testing.T) map[string][]byte {
	streams := fixtures(t)
	for path := range streams {
		if filepath.Base(filepath.Dir(path)) == "cursor" {
			delete(streams, path)
		}
	}
	return streams
}

// TestNoContent marks whatever may be content in the streams of every agent, in
// another order of keys, and looks for the marks.
func TestNoContent(t *testing.T) {
	const mark = "canary-9f2c"
	found := map[string]int{}
	for path, in := range others(t) {
		t.Run(short(path), func(t *testing.T) {
			in := markLines(t, in, mark)
			for _, level := range []content.Level{content.None, content.Full} {
				spans, _ := feed{opts: mapping.Options{Content: level, MaxAttributeBytes: 16 << 10}}.spans(t, in)
				for _, s := range spans {
					b, err := proto.Marshal(s)
					if err != nil {
						t.Fatal(err)
					}
					n := bytes.Count(b, []byte(mark))
					if level == content.None && n > 0 {
						t.Errorf("content is in %s:\n%q", s.Name, b)
					}
					found[filepath.Dir(path)] += n
				}
				if b := receiptOf(t, spans); level == content.None && bytes.Contains(b, []byte(mark)) {
					t.Errorf("content is in the receipt:\n%s", b)
				}
			}
		})
	}
	for _, agent := range mapping.Agents[1:] {
		if found["../testdata/"+agent] < 10 {
			t.Errorf("%s: the content of its fixtures has %d marks, want at least 10: add fixtures with more texts", agent, found["../testdata/"+agent])
		}
	}
}

// receiptOf returns the receipt of spans, which has no content whatever the spans have.
func receiptOf(t *testing.T, spans []*tracepb.Span) []byte {
	t.Helper()
	var recorder receipt.Recorder
	for _, s := range spans {
		recorder.Add(runs.Of(s))
	}
	b, err := json.Marshal(recorder.Receipt())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestNoSecretsOfAnyAgent puts a secret behind every text of every agent.
func TestNoSecretsOfAnyAgent(t *testing.T) {
	secrets := redacttest.All()
	next := 0
	for path, in := range others(t) {
		for range 4 {
			next++
			secret := secrets[next%len(secrets)]
			if strings.ContainsAny(secret.Text, "\n") {
				continue
			}
			spans, _ := feed{opts: mapping.Options{Content: content.Full, MaxAttributeBytes: 16 << 10}}.spans(t, markLines(t, in, secret.Text))
			wire := encode(t, spans)
			for _, part := range secret.Parts {
				if bytes.Contains(wire, []byte(part)) {
					t.Errorf("%s: %s: %q is there", short(path), secret.Name, part)
				}
			}
		}
	}
}

// deltas are the pieces of a text, in each agent's lines.
var deltas = map[string]string{
	"pi":      `{"type":"message_update","assistantMessageEvent":{"type":"text_delta","contentIndex":0,"delta":%s}}`,
	"gemini":  `{"type":"message","timestamp":"2026-10-02T09:00:00.000Z","role":"assistant","content":%s,"delta":true}`,
	"agy":     `{"event":"step_update","step_update":{"conversation_id":"c","step_index":1,"state":"ACTIVE","step_type":"agent_response","text_delta":%s}}`,
	"copilot": `{"type":"assistant.message_delta","data":{"messageId":"m","deltaContent":%s},"id":"i","timestamp":"2026-10-02T09:00:00.000Z"}`,
	"goose":   `{"type":"message","message":{"id":"m","role":"assistant","created":1790931600,"content":[{"type":"text","text":%s}]}}`,
}

// TestSplitSecretsOfAnyAgent splits secrets over two pieces of a text.
func TestSplitSecretsOfAnyAgent(t *testing.T) {
	t.Parallel()
	for agent, line := range deltas {
		t.Run(agent, func(t *testing.T) {
			tried := oneIn(1)
			for i, secret := range redacttest.All() {
				if !tried() {
					continue
				}
				from := strings.Index(secret.Text, secret.Parts[0])
				at := from + len(secret.Parts[0])/2
				var in []byte
				for _, piece := range []string{"That is all. ", secret.Text[:at], secret.Text[at:]} {
					quoted, err := json.Marshal(piece)
					if err != nil {
						t.Fatal(err)
					}
					in = append(append(in, strings.Replace(line, "%s", string(quoted), 1)...), '\n')
				}
				spans, m := feed{opts: mapping.Options{Content: content.Full, Agent: agent, MaxSpanEvents: 1 + i%3}}.spans(t, in)
				wire := encode(t, spans)
				if m.Stats().Runs != 1 || !bytes.Contains(wire, []byte("That is all.")) {
					t.Fatalf("stats %+v", m.Stats())
				}
				for _, part := range secret.Parts {
					if bytes.Contains(wire, []byte(part)) {
						t.Errorf("%s: %q is there", secret.Name, part)
					}
				}
			}
		})
	}
}
