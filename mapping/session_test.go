package mapping_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.opentelemetry.io/otel/trace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/mapping"
)

// now is what the clock says when the first line of a live stream comes.
var now = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// A stream is written line by line, each with the session id s unless it has
// another.
func stream(lines ...string) []byte {
	var b bytes.Buffer
	for _, l := range lines {
		if !strings.Contains(l, `"session_id"`) {
			l = strings.TrimSuffix(l, "}") + `,"session_id":"s"}`
		}
		b.WriteString(l + "\n")
	}
	return b.Bytes()
}

const initLine = `{"type":"system","subtype":"init","apiKeySource":"login","model":"GPT-5","permissionMode":"default"}`

func stamped(at time.Time, line string) string {
	return fmt.Sprintf(`%s,"timestamp_ms":%d}`, strings.TrimSuffix(line, "}"), at.UnixMilli())
}

func thinking(at time.Time) string {
	return stamped(at, `{"type":"thinking","subtype":"delta","text":"hm"}`)
}

func tool(at time.Time, subtype, id, modelCall string) string {
	return stamped(at, fmt.Sprintf(`{"type":"tool_call","subtype":"%s","call_id":"%s","model_call_id":"%s","tool_call":{"readToolCall":{"args":{}}}}`, subtype, id, modelCall))
}

func result(took time.Duration) string {
	return fmt.Sprintf(`{"type":"result","subtype":"success","is_error":false,"duration_ms":%d}`, took.Milliseconds())
}

// live feeds one line every tick.
func live(t *testing.T, tick time.Duration, lines ...string) []*tracepb.Span {
	t.Helper()
	var spans []*tracepb.Span
	at := now
	m, err := mapping.New(mapping.Options{
		Agent: "cursor",
		Now:   func() time.Time { return at },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		spans = append(spans, decoded(t, m.Map(stream(l)))...)
		at = at.Add(tick)
	}
	spans = append(spans, decoded(t, m.Close(false))...)
	checkSpans(t, spans, 2048)
	return byEnd(spans)
}

// byEnd sorts spans by when they ended.
func byEnd(spans []*tracepb.Span) []*tracepb.Span {
	slices.SortStableFunc(spans, func(a, b *tracepb.Span) int { return int(int64(a.EndTimeUnixNano - b.EndTimeUnixNano)) })
	return spans
}

// times tells a span's times since base in seconds.
func times(s *tracepb.Span, base time.Time) string {
	since := func(nanos uint64) float64 {
		return math.Round(time.Unix(0, int64(nanos)).Sub(base).Seconds()*1000)/1000 + 0
	}
	return fmt.Sprintf("%s %.3f-%.3f", s.Name, since(s.StartTimeUnixNano), since(s.EndTimeUnixNano+1000))
}

func wantTimes(t *testing.T, spans []*tracepb.Span, base time.Time, want ...string) {
	t.Helper()
	var got []string
	for _, s := range spans {
		got = append(got, times(s, base))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func attr(s *tracepb.Span, key string) *commonpb.AnyValue {
	for _, kv := range s.Attributes {
		if kv.Key == key {
			return kv.Value
		}
	}
	return nil
}

func root(t *testing.T, spans []*tracepb.Span) *tracepb.Span {
	t.Helper()
	i := slices.IndexFunc(spans, func(s *tracepb.Span) bool { return s.Name == "invoke_agent cursor-agent" })
	if i < 0 {
		t.Fatal("no root")
	}
	return spans[i]
}

// A live line without a stamp counts by its arrival, as the agent's clock
// would have stamped it: here that runs a quarter of a second behind ours.
func TestLiveArrivals(t *testing.T) {
	agent := now.Add(-250 * time.Millisecond)
	spans := live(t, time.Second,
		initLine+"\n"+`{"type":"user","message":{"content":[{"type":"text","text":"go"}]}}`, // came at 0
		thinking(agent.Add(1e9)), // 1
		tool(agent.Add(2e9), "started", "a", ""),
		tool(agent.Add(3e9), "completed", "a", ""),
		thinking(agent.Add(4e9)),
		`{"type":"assistant","message":{"content":[{"type":"text","text":"done"}]}}`, // 5, and like the next one without a stamp
		result(6*time.Second),
	)
	wantTimes(t, spans, agent,
		"chat GPT-5 0.000-2.000",
		"execute_tool read 2.000-3.000",
		"chat GPT-5 3.000-5.000",
		"invoke_agent cursor-agent 0.000-6.000")
	if got := attr(spans[0], "gen_ai.response.time_to_first_chunk").GetDoubleValue(); got != 1 {
		t.Errorf("time to first chunk %v s, want 1", got)
	}
}

// An old capture fed through cat comes all at once, months later.
func TestLiveOldCapture(t *testing.T) {
	old := now.AddDate(0, -3, 0)
	spans := live(t, 0, initLine, thinking(old), thinking(old.Add(2e9)), tool(old.Add(3e9), "started", "a", ""),
		tool(old.Add(4e9), "completed", "a", ""), result(9*time.Second))
	wantTimes(t, spans, old,
		"chat GPT-5 -5.000-3.000",
		"execute_tool read 3.000-4.000",
		"invoke_agent cursor-agent -5.000-4.000")
}

// The traces of captures fed through a pipe are those of recordings: as long, and with
// the same times marked as estimates.
func TestFedCaptures(t *testing.T) {
	differ := []string{
		"cursor/older-page-shapes", // no stamps: all that is known is how long the run took
		"cursor/translated-enums",  // hardly any: its first chat has left when the result comes
		"cursor/absurd-duration",
	}
	for name, in := range fixtures(t) {
		if !strings.HasPrefix(short(name), "cursor/") || slices.Contains(differ, short(name)) {
			continue
		}
		t.Run(short(name), func(t *testing.T) {
			replayed, _ := feed{}.spans(t, in)
			for _, chunk := range []int{0, 100} {
				fed, _ := feed{live: true, chunk: chunk, start: recorded.AddDate(0, 1, 0), tick: 10 * time.Microsecond}.spans(t, in)
				if diff := cmp.Diff(offsets(replayed), offsets(fed), cmpopts.EquateApprox(0, 0.003)); diff != "" {
					t.Errorf("in chunks of %d (-replayed +fed):\n%s", chunk, diff)
				}
			}
		})
	}
}

// An offset is when a span was, in seconds since its root began, and whether it says
// that this is an estimate.
type offset struct {
	Name       string
	Start, End float64
	Estimated  bool
}

func offsets(spans []*tracepb.Span) (all []offset) {
	began := map[string]uint64{}
	for _, s := range spans {
		if len(s.ParentSpanId) == 0 {
			began[string(s.TraceId)] = s.StartTimeUnixNano
		}
	}
	for _, s := range spans {
		since := func(t uint64) float64 { return float64(int64(t-began[string(s.TraceId)])) / 1e9 }
		all = append(all, offset{s.Name, since(s.StartTimeUnixNano), since(s.EndTimeUnixNano), attr(s, "spantee.time.estimated").GetBoolValue()})
	}
	slices.SortStableFunc(all, func(a, b offset) int { // the first chat of a capture leaves last
		if a.Name != b.Name {
			return strings.Compare(a.Name, b.Name)
		}
		return int(math.Round(100 * (a.End - b.End)))
	})
	return all
}

// Without stamps, only the result tells how long a capture took. A result that says
// more than has passed is no capture's if time has passed.
func TestFedCaptureWithoutStamps(t *testing.T) {
	says := `{"type":"assistant","message":{"content":[{"type":"text","text":"done"}]}}`
	for _, tc := range []struct {
		tick, took time.Duration
		want       []offset
	}{
		{time.Millisecond, 9 * time.Second, []offset{{"chat GPT-5", 0, 8.999, true}, {"invoke_agent cursor-agent", 0, 9, true}}},
		{time.Second, 9 * time.Second, []offset{{"chat GPT-5", 0, 1, true}, {"invoke_agent cursor-agent", 0, 2, false}}}, // nobody knows when the model was asked
	} {
		got := offsets(live(t, tc.tick, initLine, says, result(tc.took)))
		if diff := cmp.Diff(tc.want, got, cmpopts.EquateApprox(0, 0.0015)); diff != "" {
			t.Errorf("a line every %v (-want +got):\n%s", tc.tick, diff)
		}
	}
}

// A lone result, as --output-format json prints, starts duration_ms before it
// came.
func TestLiveLoneResult(t *testing.T) {
	spans := live(t, time.Second, result(7*time.Second))
	wantTimes(t, spans, now, "invoke_agent cursor-agent -7.000-0.000")
}

// The end of the stream ends a live run: an agent that hung before it was
// killed did hang.
func TestLiveEnd(t *testing.T) {
	spans := live(t, 10*time.Second, initLine, tool(now.Add(10*time.Second), "started", "a", ""))
	wantTimes(t, spans, now,
		"chat GPT-5 0.000-10.000",
		"execute_tool read 10.000-20.000",
		"invoke_agent cursor-agent 0.000-20.000")
	for _, s := range spans[1:] {
		if got := attr(s, "error.type").GetStringValue(); got != "incomplete" || s.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR {
			t.Errorf("%s: error.type %q, status %v", s.Name, got, s.Status)
		}
	}
}

// A run that fails while the agent waits for the model after a tool has a chat that
// failed; one that fails at once did not wait for it.
func TestLiveFailureAfterATool(t *testing.T) {
	failed := `{"type":"result","subtype":"error","is_error":true,"duration_ms":9000}`
	after := func(d time.Duration) []string {
		return []string{initLine, tool(now.Add(d), "started", "a", "r-0-abcd"), tool(now.Add(2*d), "completed", "a", "r-0-abcd"), failed}
	}
	spans := live(t, time.Second, after(time.Second)...)
	wantTimes(t, spans, now, "chat GPT-5 0.000-1.000", "execute_tool read 1.000-2.000", "chat GPT-5 2.000-3.000", "invoke_agent cursor-agent 0.000-3.000")
	if got := attr(spans[2], "error.type").GetStringValue(); got != "error" {
		t.Errorf("error.type %q", got)
	}
	failed = strings.Replace(failed, "9000", "30", 1)
	spans = live(t, 10*time.Millisecond, after(10*time.Millisecond)...)
	wantTimes(t, spans, now, "chat GPT-5 0.000-0.010", "execute_tool read 0.010-0.020", "invoke_agent cursor-agent 0.000-0.030")
}

// A call's own clock corrects its start, but not to before what is known to have been
// ahead of it.
func TestCorrectedStarts(t *testing.T) {
	at := func(s float64) time.Time { return now.Add(time.Duration(s * 1e9)) }
	ran := func(end float64, id string, seconds float64) string {
		return strings.Replace(tool(at(end), "completed", id, "r-0-abcd"), `"tool_call":{`,
			fmt.Sprintf(`"tool_call":{"startedAtMs":%d,"completedAtMs":%d,`, at(end-seconds).UnixMilli(), at(end).UnixMilli()), 1)
	}
	says := func(s float64) string {
		return stamped(at(s), `{"type":"assistant","message":{"content":[{"type":"text","text":"Looking."}]},"model_call_id":"r-0-abcd"}`)
	}
	for name, tc := range map[string]struct {
		lines []string
		want  []string
	}{
		"a notification that woke the agent": {
			[]string{
				initLine, thinking(at(1)), `{"type":"assistant","message":{"content":[{"type":"text","text":"hm"}]}}`,
				stamped(at(5), `{"type":"system","subtype":"task_notification","task_id":"1","status":"success"}`),
				tool(at(6), "started", "a", "r-0-abcd"), ran(7, "a", 3), result(7 * time.Second),
			},
			[]string{"deltas 1.000-3.000", "execute_tool read 5.000-7.000"},
		},
		"the second span of a turn's events": {
			[]string{initLine, says(1), says(3), tool(at(4), "started", "a", "r-0-abcd"), ran(5, "a", 3), result(5 * time.Second)},
			[]string{"deltas 3.000-3.000", "execute_tool read 3.000-5.000"},
		},
		"the end of a turn that has left": {
			[]string{
				initLine, thinking(at(1)), tool(at(2), "started", "a", "r-0-abcd"), tool(at(3), "started", "b", "r-0-abcd"), thinking(at(4)),
				ran(5, "b", 3.5), ran(6, "a", 4), result(6 * time.Second),
			},
			[]string{"execute_tool read 2.000-5.000", "execute_tool read 2.000-6.000"},
		},
	} {
		spans, _ := feed{opts: mapping.Options{Agent: "cursor", MaxSpanEvents: 1}}.spans(t, stream(tc.lines...))
		spans = slices.DeleteFunc(spans, func(s *tracepb.Span) bool {
			return strings.HasPrefix(s.Name, "chat") || strings.HasPrefix(s.Name, "invoke_agent")
		})
		t.Run(name, func(t *testing.T) { wantTimes(t, byEnd(spans), now, tc.want...) })
	}
}

// A stamp far back in time tells nothing about its line, which counts by its arrival in
// a live stream. In a recording, what it would have told is an estimate.
func TestStampAnHourBack(t *testing.T) {
	back := now.Add(-time.Hour)
	lines := []string{
		initLine, thinking(now.Add(1e9)), tool(now.Add(2e9), "started", "a", "r-0-abcd"), tool(now.Add(3e9), "completed", "a", "r-0-abcd"),
		tool(back.Add(4e9), "started", "b", "r-1-abcd"), tool(back.Add(5e9), "completed", "b", "r-1-abcd"), result(6 * time.Second),
	}
	wantTimes(t, live(t, time.Second, lines...), now, "chat GPT-5 0.000-2.000", "execute_tool read 2.000-3.000",
		"chat GPT-5 3.000-4.000", "execute_tool read 4.000-5.000", "invoke_agent cursor-agent 0.000-6.000")
	spans, _ := feed{}.spans(t, stream(lines...))
	for _, s := range spans {
		estimated := attr(s, "spantee.time.estimated").GetBoolValue()
		if took := s.EndTimeUnixNano - s.StartTimeUnixNano; took < 1e6 && !estimated {
			t.Errorf("%s is no estimate", times(s, now))
		}
	}
}

// A recording that is cut off when a tool has ended does not show that the model was
// asked again. A live stream that ends then does.
func TestCutAfterATool(t *testing.T) {
	lines := []string{initLine, thinking(now.Add(1e9)), tool(now.Add(2e9), "started", "a", ""), tool(now.Add(3e9), "completed", "a", "")}
	spans, _ := feed{}.spans(t, stream(lines...))
	wantTimes(t, spans, now, "execute_tool read 2.000-3.000", "chat GPT-5 1.000-2.000", "invoke_agent cursor-agent 1.000-3.000")
	wantTimes(t, live(t, time.Second, lines...), now, "chat GPT-5 0.000-2.000", "execute_tool read 2.000-3.000",
		"chat GPT-5 3.000-4.000", "invoke_agent cursor-agent 0.000-4.000")
}

func TestTimeNeverRunsBack(t *testing.T) {
	spans := live(t, time.Second, initLine,
		tool(now.Add(5e9), "started", "a", ""), tool(now.Add(3e9), "completed", "a", ""), result(time.Second))
	// A microsecond, because Jaeger warns of less than a nanosecond, and cuts to microseconds.
	if s := spans[1]; s.StartTimeUnixNano+1000 != s.EndTimeUnixNano {
		t.Errorf("%s, want an instant", times(s, now))
	}
}

// A model call id names one call of the model: tools started one after the other
// can still be of one turn.
func TestTurns(t *testing.T) {
	run := func(modelCalls ...string) []byte {
		lines := []string{initLine}
		at := now
		for i, mc := range modelCalls {
			for _, subtype := range []string{"started", "completed"} {
				at = at.Add(time.Second)
				lines = append(lines, tool(at, subtype, fmt.Sprint("call", i), mc))
			}
		}
		return stream(append(lines, result(time.Second))...)
	}
	for name, tc := range map[string]struct {
		in    []byte
		turns int64
	}{
		"one call of 2026":  {run("req-0-abcd", "req-0-abcd"), 1},
		"two calls of 2026": {run("req-0-abcd", "req-1-wxyz"), 2},
		"one call of 2025":  {run("12e2d49c-58db-4b10-980f-f5799965b46c", "12e2d49c-58db-4b10-980f-f5799965b46c"), 1},
		"none":              {run("", ""), 2},
	} {
		t.Run(name, func(t *testing.T) {
			spans, _ := feed{}.spans(t, tc.in)
			if got := attr(root(t, spans), "spantee.turns").GetIntValue(); got != tc.turns {
				t.Errorf("%d turns, want %d", got, tc.turns)
			}
		})
	}
}

// A long turn goes on in further spans, and a big trace merges neighbours: no
// backend takes it else. What is counted stays exact.
func TestLongTurn(t *testing.T) {
	t.Parallel()
	deltas := 200_000 // at 10 ms, more than half an hour
	if testing.Short() {
		deltas = 50_000
	}
	lines := []string{initLine}
	for i := range deltas {
		lines = append(lines, thinking(now.Add(time.Duration(i)*10*time.Millisecond)))
	}
	in := stream(append(lines, result(time.Second))...)
	for _, mode := range []mapping.Deltas{mapping.DeltasEach, mapping.DeltasMessage, mapping.DeltasOff} {
		t.Run(string(mode), func(t *testing.T) {
			spans, _ := feed{chunk: 1 << 16, opts: mapping.Options{Deltas: mode}}.spans(t, in)
			var stood, bytesStood, counted, size int
			for _, s := range spans {
				size += proto.Size(s)
				if !strings.HasPrefix(s.Name, "chat") && s.Name != "deltas" {
					continue
				}
				if len(s.Events) > 512 {
					t.Fatalf("a span of %d events", len(s.Events))
				}
				counted += int(attr(s, "spantee.thinking.deltas").GetIntValue())
				for _, e := range s.Events {
					n := 1
					for _, kv := range e.Attributes {
						switch kv.Key {
						case "spantee.delta.count":
							n = int(kv.Value.GetIntValue())
						case "spantee.delta.bytes":
							bytesStood += int(kv.Value.GetIntValue())
						}
					}
					stood += n
				}
			}
			want := deltas
			if mode == mapping.DeltasOff {
				want = 0
			}
			if stood != want || bytesStood != 2*want {
				t.Errorf("events stand for %d deltas of %d bytes, want %d of %d", stood, bytesStood, want, 2*want)
			}
			if counted != deltas || attr(root(t, spans), "spantee.deltas").GetIntValue() != int64(deltas) {
				t.Errorf("%d deltas counted, want %d", counted, deltas)
			}
			if size > 5_000_000 {
				t.Errorf("a trace of %d bytes, more than Tempo takes", size)
			}
		})
	}
}

// A new init without a result of the run before: that was killed.
func TestKilledAndResumed(t *testing.T) {
	spans, m := feed{}.spans(t, stream(
		initLine, tool(now, "started", "Grep_0", ""),
		initLine, tool(now.Add(60e9), "started", "Grep_0", ""), tool(now.Add(61e9), "completed", "Grep_0", ""), result(time.Second)))
	if m.Stats().Runs != 2 {
		t.Fatalf("%d runs, want 2", m.Stats().Runs)
	}
	var failed []string
	traces := map[string]bool{}
	for _, s := range spans {
		traces[string(s.TraceId)] = true
		if v := attr(s, "error.type"); v != nil {
			failed = append(failed, s.Name+" "+v.GetStringValue())
		}
		if got := attr(s, "gen_ai.conversation.id").GetStringValue(); got != "s" {
			t.Errorf("%s: conversation %q", s.Name, got)
		}
	}
	if want := []string{"execute_tool read incomplete", "invoke_agent cursor-agent incomplete"}; !slices.Equal(failed, want) {
		t.Errorf("failed: %q, want %q", failed, want)
	}
	if len(traces) != 2 {
		t.Errorf("%d traces, want 2", len(traces))
	}
}

// Versions of 2025 had another session id in the init line.
func TestInitOfAnotherSession(t *testing.T) {
	spans, m := feed{}.spans(t, stream(
		strings.TrimSuffix(initLine, "}")+`,"session_id":"chat"}`,
		tool(now, "started", "a", ""), tool(now.Add(1e9), "completed", "a", ""), result(time.Second)))
	if m.Stats().Runs != 1 || attr(root(t, spans), "gen_ai.conversation.id").GetStringValue() != "s" {
		t.Errorf("%d runs, root %v", m.Stats().Runs, root(t, spans))
	}
}

// Of the lines of a retry, any may be missing.
func TestRetryWithoutItsStart(t *testing.T) {
	retry := func(subtype string, attempt int) string {
		return stamped(now, fmt.Sprintf(`{"type":"retry","subtype":%q,"attempt":%d,"session_id":"s"}`, subtype, attempt))
	}
	spans, _ := feed{}.spans(t, stream(initLine, retry("starting", 1), retry("resuming", 1), retry("resuming", 1), retry("resuming", 2), result(time.Second)))
	if got := attr(root(t, spans), "spantee.retries").GetIntValue(); got != 3 {
		t.Errorf("%d retries, want 3", got)
	}
}

// In builds of 2025, a model call may say more after its tool call. If the run breaks off
// then, it breaks off in that call.
func TestBreakAfterResumedCall(t *testing.T) {
	const call = "0a1b2c3d-1111-4aaa-8bbb-000000000001"
	spans, _ := feed{}.spans(t, stream(initLine, tool(now, "started", "a", call), tool(now.Add(1e9), "completed", "a", call),
		stamped(now.Add(2e9), `{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"More"}]},"model_call_id":"`+call+`"}`)))
	chats := 0
	for _, s := range spans {
		if strings.HasPrefix(s.Name, "chat") {
			chats++
		}
	}
	if chats != 1 {
		t.Errorf("%d chats, want 1", chats)
	}
}

func TestParent(t *testing.T) {
	parent := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1, 2, 3}, SpanID: trace.SpanID{4, 5, 6}, TraceFlags: trace.FlagsSampled, Remote: true,
	})
	in := fixtures(t)["../testdata/cursor/resumed"]
	spans, _ := feed{opts: mapping.Options{Parent: parent}}.spans(t, in)
	roots := 0
	for _, s := range spans {
		if id := parent.TraceID(); !bytes.Equal(s.TraceId, id[:]) {
			t.Errorf("%s: trace id %x, want the parent's", s.Name, s.TraceId)
		}
		if strings.HasPrefix(s.Name, "invoke_agent") {
			roots++
			if id := parent.SpanID(); !bytes.Equal(s.ParentSpanId, id[:]) {
				t.Errorf("%s: parent id %x", s.Name, s.ParentSpanId)
			}
		}
	}
	if roots != 2 {
		t.Errorf("%d roots, want 2", roots)
	}
}

// Another agent's stream is no trace, unless somebody knows better.
func TestForeign(t *testing.T) {
	for agent, line := range map[string]string{
		"Trae":       `{"type":"system","subtype":"init","session_id":"t-5f0c9a52"}`,
		"a chat log": `{"role":"assistant","content":"hello"}`,
		"muse":       `{"schema_version":1,"id":"i","record_type":"r","payload_type":"p","payload":{}}`,
	} {
		t.Run(agent, func(t *testing.T) {
			in := []byte(line + "\n" + result(time.Second) + "\n")
			if spans, m := (feed{}).spans(t, in); m.Stats().Foreign != agent || len(spans) > 0 {
				t.Errorf("taken for the stream of %q, %d spans", m.Stats().Foreign, len(spans))
			}
			if _, m := (feed{opts: mapping.Options{Agent: "cursor"}}).spans(t, in); m.Stats().Foreign != "" || m.Stats().Runs == 0 {
				t.Errorf("with the agent given: %+v", m.Stats())
			}
		})
	}
}

func TestOptions(t *testing.T) {
	for want, opts := range map[string]mapping.Options{
		`unknown agent "nobody" (supported: ` + strings.Join(mapping.Agents, ", ") + `)`: {Agent: "nobody"},
		`invalid deltas "some" (want each, message or off)`:                              {Deltas: "some"},
	} {
		if _, err := mapping.New(opts); err == nil || err.Error() != want {
			t.Errorf("New: %v, want %s", err, want)
		}
	}
}

// A line past the parse limit still ends its span: what matters of it stands
// at its beginning and its end.
func TestHugeLine(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs a line of 70 MB")
	}
	huge := strings.Replace(tool(now.Add(2e9), "completed", "a", "req-0-abcd"), `"args":{}`,
		`"args":{},"result":{"success":{"lines":[`+strings.Repeat(`"0123456789",`, 5_500_000)+`""]}}`, 1)
	spans, m := feed{chunk: 1 << 20}.spans(t, stream(initLine, tool(now, "started", "a", "req-0-abcd"), huge, result(3*time.Second)))
	if m.Stats().Oversize != 1 || m.Stats().BadLines != 0 {
		t.Errorf("stats %+v", m.Stats())
	}
	for _, s := range spans {
		if s.Name == "execute_tool read" && (times(s, now) != "execute_tool read 0.000-2.000" || s.Status != nil) {
			t.Errorf("%s, status %v", times(s, now), s.Status)
		}
	}
}
