package mapping_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"google.golang.org/protobuf/testing/protocmp"

	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/content"
	"github.com/spantee/spantee/mapping/mappingtest"
)

// FuzzMapper feeds any bytes, in any chunks: no panic, every span that starts
// ends, within its root, in valid strings no longer than asked for, and small
// enough for a request; what should be JSON is; counts add up, siblings do not
// touch, and no chat spans time in which the agent is known to be idle.
// checkSpans has the rest.
func FuzzMapper(f *testing.F) {
	tried := oneIn(1)
	for _, in := range fixtures(f) {
		if !tried() {
			continue
		}
		f.Add(in, uint16(0), uint8(0))
		f.Add(in, uint16(500), uint8(0x20))
		f.Add(in[:len(in)/2], uint16(7), uint8(3))
	}
	for _, array := range arrays(f, fixtures(f)["../testdata/claude/plain"]) {
		f.Add(array, uint16(900), uint8(0x20))
		f.Add(array[:len(array)/2], uint16(3), uint8(3))
	}
	strangers := shuffled(f, 1)
	for name, in := range fixtures(f) {
		if strings.HasSuffix(name, "/plain") {
			f.Add(slices.Concat(strangers[:len(strangers)/9], in, strangers[len(strangers)*8/9:]), uint16(700), uint8(0x20))
			f.Add(weave(strangers[:len(strangers)/9], in), uint16(0), uint8(1))
		}
	}
	f.Add(stream(initLine, thinking(now), tool(now, "started", "a", "r-0-abcd"), result(time.Second)), uint16(1), uint8(5))
	f.Add(stream(initLine, thinking(now), `{"type":"assistant","message":{}}`, stamped(now.Add(1e9), `{"type":"assistant","model_call_id":"r"}`)), uint16(0), uint8(0))
	f.Add(stream(`{"type":"tool_call","subtype":"completed","tool_call":{"aToolCall":{"args":{},"args":{},"result":{},"result":{}}}}`), uint16(0), uint8(0))
	f.Add(stream(initLine, thinking(time.UnixMilli(1))), uint16(1), uint8(0x1f)) // begins before 1970
	f.Add(stream(initLine, thinking(now), stamped(now.Add(9e9), `{"type":"system","subtype":"task_notification","task_id":"1","status":"success"}`), thinking(now.Add(11e9))), uint16(0), uint8(0))
	f.Add(bytes.Repeat([]byte("["), 10_000), uint16(0), uint8(0))
	f.Add(newScript(f, func(field string) string { return field + `"\\é` }), uint16(900), uint8(0x20))
	f.Add(claudeScript(func(field string) string { return field + `"\\é` }), uint16(901), uint8(0x30))
	f.Fuzz(func(t *testing.T, in []byte, chunk uint16, flags uint8) {
		spans, m := feed{
			chunk: int(chunk),
			live:  flags&1 != 0,
			start: now,
			tick:  time.Duration(flags>>2) * time.Millisecond,
			close: flags&2 != 0,
			opts: mapping.Options{
				MaxSpanEvents: 4, Agent: []string{"", mapping.Agents[int(chunk)%len(mapping.Agents)]}[flags>>4&1],
				Content: []content.Level{"", content.Full}[flags>>5&1], MaxAttributeBytes: 100 + int(chunk)%1000,
			},
		}.spans(t, in)
		if err := mappingtest.Conserved(spans); err != nil {
			t.Error(err)
		}
		if flags&1 == 0 {
			checkIdle(t, in, spans)
		}
		roots := 0
		for _, s := range spans {
			if len(s.ParentSpanId) == 0 {
				roots++
			}
		}
		if roots != m.Stats().Runs {
			t.Errorf("%d runs, %d roots", m.Stats().Runs, roots)
		}

		// What is open at a cut makes whole traces, and asking changes nothing.
		cut := int(chunk) % (len(in) + 1)
		chunks := [][]byte{in[:cut], in[cut:]}
		opts := mapping.Options{MaxSpanEvents: 4}
		if flags&1 != 0 {
			opts.Process = agentProcess()
		}
		asked := watch(t, chunks, opts, true, nil)
		asked.check(t)
		if left := watch(t, chunks, opts, false, nil); !bytes.Equal(encode(t, left.emitted), encode(t, asked.emitted)) {
			t.Errorf("other spans than if nobody asks for those that are open: %s", cmp.Diff(left.emitted, asked.emitted, protocmp.Transform()))
		}
	})
}

// checkIdle looks for a block of thinking whose end a notification follows directly: in
// between the agent is idle, unless a tool runs.
func checkIdle(t *testing.T, in []byte, spans []*tracepb.Span) {
	t.Helper()
	type line struct {
		Type, Subtype, Text string
		Session             string `json:"session_id"`
		Stamp               int64  `json:"timestamp_ms"`
	}
	var before line
	for text := range bytes.Lines(in) {
		var l line
		if json.Unmarshal(text, &l) != nil || l.Type == "tool_call" || l.Session != before.Session && before.Session != "" {
			return // it takes more to tell who is idle
		}
		if l.Type == "system" && l.Subtype == "task_notification" && before.Type == "thinking" && before.Subtype == "completed" && before.Stamp > 1e12 && l.Stamp > before.Stamp+1 && l.Stamp < before.Stamp+1e6 {
			for _, s := range spans {
				if strings.HasPrefix(s.Name, "chat") && s.StartTimeUnixNano <= uint64(before.Stamp*1e6) && s.EndTimeUnixNano >= uint64(l.Stamp*1e6) {
					t.Errorf("%s spans idle time", s.Name)
				}
			}
		}
		before = l
	}
}
