package mapping_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/mappingtest"
)

// printedLive feeds each line 35 ms after its timestamp. A line without one comes with the
// line before it.
func printedLive(t *testing.T, in []byte) []*tracepb.Span {
	t.Helper()
	at := recorded
	m, err := mapping.New(mapping.Options{Agent: "cursor", Redactor: redactor(), Now: func() time.Time { return at }})
	if err != nil {
		t.Fatal(err)
	}
	if first := firstStamp(in); first != 0 {
		at = time.UnixMilli(first).Add(-2 * time.Second)
	}
	var spans []*tracepb.Span
	for line := range bytes.Lines(in) {
		if stamp := firstStamp(line); stamp != 0 && time.UnixMilli(stamp).Sub(at).Abs() < time.Hour {
			at = time.UnixMilli(stamp).Add(35 * time.Millisecond)
		}
		spans = append(spans, decoded(t, m.Map(line))...)
	}
	spans = append(spans, decoded(t, m.Close(false))...)
	checkSpans(t, spans, 2048)
	return spans
}

func firstStamp(in []byte) int64 {
	_, after, _ := bytes.Cut(in, []byte(`"timestamp_ms":`))
	digits := after[:len(after)-len(bytes.TrimLeft(after, "0123456789"))]
	ms, _ := strconv.ParseInt(string(digits), 10, 64)
	return ms
}

// ownLengths are how long calls took by the agent's own clock, by session and call id.
func ownLengths(in []byte) map[string][]time.Duration {
	own := map[string][]time.Duration{}
	for line := range bytes.Lines(in) {
		var o struct {
			Subtype string
			Session string                     `json:"session_id"`
			CallID  json.RawMessage            `json:"call_id"`
			Call    map[string]json.RawMessage `json:"tool_call"`
		}
		if json.Unmarshal(line, &o) != nil || o.Call == nil || o.Subtype != "completed" {
			continue
		}
		id := strings.Trim(string(o.CallID), `"`)
		if len(o.CallID) == 0 || o.CallID[0] != '"' || id == "" {
			id = strings.Trim(string(o.Call["toolCallId"]), `"`)
		}
		key := o.Session + " " + strings.ReplaceAll(id, `\n`, "\n")
		own[key] = append(own[key], ownLength(o.Call))
	}
	return own
}

// ownLength returns the length that a call states, -1 if it states none.
func ownLength(call map[string]json.RawMessage) time.Duration {
	number := func(raw json.RawMessage) (int64, bool) {
		n, err := strconv.ParseInt(strings.Trim(string(raw), `"`), 10, 64)
		return n, err == nil
	}
	start, ok1 := number(call["startedAtMs"])
	end, ok2 := number(call["completedAtMs"])
	if ok1 && ok2 && end > start {
		return time.Duration(end-start) * time.Millisecond
	}
	for key, raw := range call {
		var tool struct {
			Result map[string]json.RawMessage
		}
		if !strings.HasSuffix(key, "ToolCall") || json.Unmarshal(raw, &tool) != nil {
			continue
		}
		for _, raw := range tool.Result {
			var variant map[string]json.RawMessage
			_ = json.Unmarshal(raw, &variant) // a sibling of the outcome is no object
			for _, key := range []string{"durationMs", "executionTime"} {
				if n, ok := number(variant[key]); ok && n > 0 {
					return time.Duration(n) * time.Millisecond
				}
			}
		}
	}
	if ok1 && ok2 && end == start {
		return 0
	}
	return -1
}

// checkLengths checks that each call is as long as the agent's own clock says, or marked. It
// returns how many calls state a length, and how many of them are marked.
func checkLengths(t *testing.T, in []byte, spans []*tracepb.Span) (stated, marked int) {
	t.Helper()
	own := ownLengths(in)
	slices.SortStableFunc(spans, func(a, b *tracepb.Span) int { return cmp.Compare(a.EndTimeUnixNano, b.EndTimeUnixNano) })
	for _, s := range spans {
		key := attr(s, "gen_ai.conversation.id").GetStringValue() + " " + attr(s, "gen_ai.tool.call.id").GetStringValue()
		if !strings.HasPrefix(s.Name, "execute_tool") || attr(s, "error.type").GetStringValue() == "incomplete" || len(own[key]) == 0 {
			continue
		}
		want := own[key][0]
		own[key] = own[key][1:]
		if want < 0 {
			continue
		}
		stated++
		estimated := attr(s, "spantee.time.estimated").GetBoolValue()
		if estimated {
			marked++
		}
		got := time.Duration(s.EndTimeUnixNano - s.StartTimeUnixNano)
		if off := (got - want).Abs(); off > 61*time.Millisecond && !estimated {
			t.Errorf("%s takes %v, its own clock says %v", s.Name, got, want)
		}
	}
	return stated, marked
}

// TestOwnClock checks all calls of Cursor that state how long they took, recorded and live.
func TestOwnClock(t *testing.T) {
	stated := 0
	for name, in := range fixtures(t) {
		if !strings.HasPrefix(short(name), "cursor/") {
			continue
		}
		t.Run(short(name), func(t *testing.T) {
			spans, _ := feed{}.spans(t, in)
			n, _ := checkLengths(t, in, spans)
			stated += n
			checkLengths(t, in, printedLive(t, in))
		})
	}
	if stated < 100 {
		t.Errorf("%d calls state their own length", stated)
	}
}

// A burst is what a model call prints: thoughts, a flush, an approval and the starts of
// its calls, some of them held back until all of it is printed at once.
type burst struct {
	lines []string
	now   int64 // in ms, since now
	rnd   *rand.Rand
	calls int
}

func (b *burst) print(line string) {
	b.lines = append(b.lines, stamped(now.Add(time.Duration(b.now)*time.Millisecond), line))
}

func (b *burst) call(subtype, id, with, model string) {
	b.print(fmt.Sprintf(`{"type":"tool_call","subtype":%q,"call_id":%q,"model_call_id":%q,"tool_call":{"shellToolCall":{"args":{"command":"ls"}%s},"toolCallId":%[2]q}}`, subtype, id, model, with))
}

// modelCall prints a model call that begins now and holds back what it calls.
func (b *burst) modelCall(model string) {
	began := b.now
	held := b.rnd.Int64N(3000)
	b.now += 500 + held
	for range b.rnd.IntN(4) {
		b.print(`{"type":"thinking","subtype":"delta","text":"hm"}`)
		b.now += b.rnd.Int64N(3)
	}
	if b.rnd.IntN(2) == 0 {
		b.print(`{"type":"thinking","subtype":"completed"}`)
	}
	if b.rnd.IntN(3) == 0 {
		b.print(`{"type":"interaction_query","subtype":"request","query_type":"shellRequestQuery","query":{"id":0}}`)
		b.now += b.rnd.Int64N(3)
		b.print(`{"type":"interaction_query","subtype":"response","query_type":"shellRequestQuery","response":{"id":0,"shellRequestResponse":{"approved":{}}}}`)
		if b.rnd.IntN(2) == 0 {
			b.print(`{"type":"thinking","subtype":"delta","text":"ok"}`)
		}
	}
	type open struct {
		id    string
		start int64
	}
	var calls []open
	for range 1 + b.rnd.IntN(5) {
		b.calls++
		o := open{"call_" + strconv.Itoa(b.calls), began + 100 + b.rnd.Int64N(b.now-began-100)}
		b.call("started", o.id, "", model)
		calls = append(calls, o)
		b.now += b.rnd.Int64N(8)
	}
	b.rnd.Shuffle(len(calls), func(i, j int) { calls[i], calls[j] = calls[j], calls[i] })
	for _, o := range calls {
		b.now += b.rnd.Int64N(400)
		b.call("completed", o.id, fmt.Sprintf(`,"result":{"success":{"exitCode":0,"executionTime":%d}}`, max(b.now-o.start, 1)), model)
	}
}

// TestHeldInBursts generates bursts of a held-back model call: every call has its own
// length, recorded and live, and none needs a mark.
func TestHeldInBursts(t *testing.T) {
	t.Parallel()
	tried := oneIn(1)
	for seed := range uint64(200) {
		if !tried() {
			continue
		}
		b := burst{rnd: rand.New(rand.NewPCG(seed, 44)), now: 1000}
		b.lines = append(b.lines, initLine)
		b.print(`{"type":"thinking","subtype":"delta","text":"first"}`)
		b.now += 20
		for i := range 4 {
			b.modelCall("m-" + strconv.Itoa(i))
			b.now += 30
		}
		b.lines = append(b.lines, result(time.Duration(b.now)*time.Millisecond))
		in := stream(b.lines...)
		recordedSpans, _ := feed{opts: mapping.Options{Agent: "cursor"}}.spans(t, in)
		for how, spans := range map[string][]*tracepb.Span{"recorded": recordedSpans, "live": printedLive(t, in)} {
			stated, marked := checkLengths(t, in, spans)
			if stated != b.calls || marked > 0 {
				t.Errorf("seed %d, %s: %d of %d calls, %d marked", seed, how, stated, b.calls, marked)
			}
			if err := mappingtest.Conserved(spans); err != nil {
				t.Errorf("seed %d, %s: %v", seed, how, err)
			}
		}
		if t.Failed() {
			t.Logf("%s", in)
			return
		}
	}
}

// Without deltas, only the result says when the first token of the run came.
func TestFirstTokenOfRun(t *testing.T) {
	at := now
	m, err := mapping.New(mapping.Options{Now: func() time.Time { return at }})
	if err != nil {
		t.Fatal(err)
	}
	var spans []*tracepb.Span
	for _, line := range []string{
		claudeInit,
		`{"type":"assistant","message":{"id":"msg_1","model":"m","role":"assistant","content":[{"type":"text","text":"done"}]},"parent_tool_use_id":null,"uuid":"u"}`,
		`{"type":"result","subtype":"success","is_error":false,"duration_ms":2000,"first_content_frame_ms":700,"num_turns":1,"total_cost_usd":0.1,"uuid":"u"}`,
	} {
		spans = append(spans, decoded(t, m.Map([]byte(line+"\n")))...)
		at = at.Add(time.Second)
	}
	spans = append(spans, decoded(t, m.Close(false))...)
	for _, s := range spans {
		if want := len(s.ParentSpanId) == 0; want != (attr(s, "spantee.first_chunk_ms").GetIntValue() == 700) {
			t.Errorf("%s: first chunk after %d ms", s.Name, attr(s, "spantee.first_chunk_ms").GetIntValue())
		}
	}
}

// A time that an agent states of a call is believed only if it may be so.
func TestAbsurdStatedTime(t *testing.T) {
	start := regexp.MustCompile(`"(start|started_at_ms|completed_at_ms)":\d+`)
	tried := 0
	for name, in := range fixtures(t) {
		if !start.Match(in) {
			continue
		}
		tried++
		for _, absurd := range []string{"5", "1790931600", "999999999999999"} {
			spans, _ := feed{}.spans(t, start.ReplaceAll(in, []byte(`"$1":`+absurd)))
			for _, s := range spans {
				if took := time.Duration(s.EndTimeUnixNano - s.StartTimeUnixNano); took > time.Hour {
					t.Errorf("%s, a time of %s: %s takes %v", short(name), absurd, s.Name, took)
				}
			}
		}
	}
	if tried < 3 {
		t.Errorf("%d recordings have such times", tried)
	}
}

// A call that says that it began after its end was printed is marked.
func TestStatedStartAfterTheEnd(t *testing.T) {
	in := fixtures(t)["../testdata/opencode/plain"]
	start := regexp.MustCompile(`"time":\{"start":\d+`)
	spans, _ := feed{}.spans(t, start.ReplaceAll(in, []byte(`"time":{"start":1790931999999`)))
	calls := 0
	for _, s := range spans {
		if strings.HasPrefix(s.Name, "execute_tool") {
			if calls++; !attr(s, "spantee.time.estimated").GetBoolValue() {
				t.Errorf("%s is not marked", s.Name)
			}
		}
	}
	if calls == 0 {
		t.Error("no calls")
	}
}
