package mapping_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/content"
	"github.com/spantee/spantee/mapping/redact/redacttest"
)

var mark = regexp.MustCompile(`\[redacted:[\w-]*\]?`) // which may be cut

// deltaLines are how an agent prints a piece of text or of thinking.
type deltaLines struct {
	agent string
	init  string
	piece func(thinking bool, quoted string) string
	end   []string // of the text and of the thinking
}

var splitters = []deltaLines{
	{
		agent: "cursor", init: initLine,
		piece: func(thinking bool, quoted string) string {
			if thinking {
				return stamped(now, `{"type":"thinking","subtype":"delta","text":`+quoted+`}`)
			}
			return stamped(now, `{"type":"assistant","message":{"content":[{"type":"text","text":`+quoted+`}]}}`)
		},
		end: []string{stamped(now, `{"type":"thinking","subtype":"completed"}`), `{"type":"assistant","message":{},"model_call_id":"r"}`},
	},
	claudeSplitter("claude"), claudeSplitter("qwen"), claudeSplitter("amp"),
}

func claudeSplitter(agent string) deltaLines {
	return deltaLines{
		agent: agent, init: `{"type":"system","subtype":"init","model":"m","uuid":"u"}`,
		piece: func(thinking bool, quoted string) string {
			kind := "text"
			if thinking {
				kind = "thinking"
			}
			return fmt.Sprintf(`{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"%s_delta","%[1]s":%s}},"uuid":"u"}`, kind, quoted)
		},
		end: []string{
			`{"type":"assistant","message":{"id":"m","content":[{"type":"thinking","thinking":""},{"type":"text","text":""}]},"uuid":"u"}`,
			`{"type":"stream_event","event":{"type":"message_stop"},"uuid":"u"}`,
		},
	}
}

// TestSplitSecrets splits secrets over two deltas in every way, in a text and
// in a thought, also where a span is full in between. No eight letters of one
// may be left.
func TestSplitSecrets(t *testing.T) {
	t.Parallel()
	for _, s := range splitters {
		t.Run(s.agent, func(t *testing.T) {
			tried := oneIn(15)
			for i, secret := range redacttest.All() {
				if tried() {
					s.split(t, i, secret.Name, secret.Text, secret.Parts)
				}
			}
		})
	}
}

func (d *deltaLines) split(t *testing.T, i int, name, text string, parts []string) {
	from := strings.Index(text, parts[0])
	lines := []string{d.init}
	pieces := 0
	for at := from + 1; at < min(from+len(parts[0]), from+80); at++ {
		for _, piece := range []string{text[:at], text[at:]} {
			quoted, _ := json.Marshal(piece)
			lines = append(lines, d.piece(i%2 == 0, string(quoted)))
			pieces++
		}
		lines = append(lines, d.end...)
	}
	spans, _ := feed{
		live: i%4 < 2, start: now,
		opts: mapping.Options{Content: content.Full, Agent: d.agent, MaxSpanEvents: 1 + i%3},
	}.spans(t, stream(lines...))
	found := 0
	for _, s := range spans {
		for _, e := range s.Events {
			if strings.HasSuffix(e.Name, ".delta") {
				found++
			}
		}
		b, err := proto.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		b = mark.ReplaceAll(b, nil)
		for _, part := range parts {
			for k := 0; k+8 <= len(part); k++ {
				if bytes.Contains(b, []byte(part[k:k+8])) {
					t.Fatalf("%s: %q is in %s", name, part[k:k+8], s.Name)
				}
			}
		}
	}
	if found < pieces/2 {
		t.Fatalf("%s: %d pieces, %d of them deltas", name, pieces, found)
	}
}

// TestHalvesApart puts a tool call between the halves of a secret: the half
// behind it is not shown, as if nothing stood between.
func TestHalvesApart(t *testing.T) {
	d := splitters[0]
	call := `,"call_id":"a","tool_call":{"xToolCall":{"args":{},"result":{"success":{}}}}}`
	tried := 0
	for i, secret := range redacttest.All() {
		part := secret.Parts[0]
		from := strings.Index(secret.Bare, part)
		at := from + len(part)/2
		if at > 240 || len(part) < 16 || len(secret.Parts) > 1 {
			continue // as far back as is looked
		}
		quote := func(s string) string {
			quoted, _ := json.Marshal(s)
			return string(quoted)
		}
		spans, _ := feed{opts: mapping.Options{Content: content.Full, Agent: d.agent}}.spans(t, stream(d.init,
			d.piece(i%2 == 0, quote("first line\n"+secret.Bare[:at])),
			stamped(now, `{"type":"tool_call","subtype":"started"`+call), stamped(now, `{"type":"tool_call","subtype":"completed"`+call),
			d.piece(i%2 == 0, quote(secret.Bare[at:]+"\nlast line\n"))))
		tried++
		shown := secret.Bare[at : from+len(part)]
		for _, s := range spans {
			if b, err := proto.Marshal(s); err != nil || bytes.Contains(mark.ReplaceAll(b, nil), []byte(shown)) {
				t.Errorf("%s: %q is in %s, %v", secret.Name, shown, s.Name, err)
				break
			}
		}
	}
	if tried < 300 {
		t.Errorf("%d secrets tried", tried)
	}
}
