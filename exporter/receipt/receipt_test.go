package receipt_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/santhosh-tekuri/jsonschema/v6"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/receipt"
	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/mapping"
)

var update = flag.Bool("update", false, "rewrite the golden receipts")

func receiptSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	schema, err := jsonschema.NewCompiler().Compile("../../testdata/schema/receipt-1.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// record maps a recording, and returns its receipt and its spans.
func record(t *testing.T, in []byte) (*receipt.Receipt, []*tracepb.Span) {
	t.Helper()
	var recorder receipt.Recorder
	var spans []*tracepb.Span
	m, err := mapping.New(mapping.Options{Source: mapping.Recording, Written: time.Date(2026, 10, 2, 12, 0, 0, 0, time.UTC), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	for out, err := range m.Read(bytes.NewReader(in)) {
		if out.Span == nil {
			continue
		}
		span, read := new(tracepb.Span), new(runs.Span)
		if err := errors.Join(err, proto.Unmarshal(out.Span, span), read.Read(out.Span)); err != nil {
			t.Fatal(err)
		}
		spans = append(spans, span)
		recorder.Add(read)
	}
	return recorder.Receipt(), spans
}

// fixtures calls do with every recording in testdata.
func fixtures(t *testing.T, do func(t *testing.T, name string, in []byte)) {
	files, err := filepath.Glob("../../testdata/*/*.jsonl")
	if err != nil || len(files) < 100 {
		t.Fatalf("%v, %d files", err, len(files))
	}
	for _, file := range files {
		in, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(filepath.Dir(file)) + "-" + strings.TrimSuffix(filepath.Base(file), ".jsonl")
		t.Run(name, func(t *testing.T) { do(t, name, in) })
	}
}

// Each receipt says what the trace says, and follows the schema. Some are golden.
func TestReceiptAgreesWithTrace(t *testing.T) {
	schema := receiptSchema(t)
	fixtures(t, func(t *testing.T, name string, in []byte) {
		r, spans := record(t, in)
		b, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(document); err != nil {
			t.Error(err)
		}
		byTrace := map[string][]*tracepb.Span{}
		for _, s := range spans {
			id := hex.EncodeToString(s.TraceId)
			byTrace[id] = append(byTrace[id], s)
		}
		if len(r.Runs) != len(byTrace) || r.RunsTotal != len(byTrace) || r.Spans != len(spans) {
			t.Errorf("%d runs and %d spans, want %d and %d", r.RunsTotal, r.Spans, len(byTrace), len(spans))
		}
		var sum receipt.Totals
		stated, called := map[string]int64{}, map[string]int64{} // by session
		for _, run := range r.Runs {
			if diff := cmp.Diff(traced(byTrace[run.TraceID]), run, cmpopts.IgnoreFields(run, "Slowest", "Longest", "Time", "FailedTools")); diff != "" {
				t.Errorf("(-trace +receipt):\n%s", diff)
			}
			if got := run.Time; got != (receipt.Spent{}) && math.Abs(got.Waiting+got.Output+got.Tool+got.Hook+got.Approval+got.Own-run.Seconds) > 1e-5 {
				t.Errorf("%+v is not %v seconds", got, run.Seconds)
			}
			var longest float64
			for _, share := range run.Longest {
				longest += share.Seconds
			}
			if run.Time != (receipt.Spent{}) && (longest > run.Seconds+1e-5 || len(run.Longest) < 8 && longest < run.Seconds-1e-5) {
				t.Errorf("the longest %+v are not parts of %v seconds", run.Longest, run.Seconds)
			}
			if len(run.FailedTools) != run.ToolsFailed {
				t.Errorf("%d failed tools, want %d", len(run.FailedTools), run.ToolsFailed)
			}
			sum.Time.Waiting += run.Time.Waiting
			sum.Cost += run.Cost
			root := rootOf(byTrace[run.TraceID]).Attributes
			stated[run.SessionID] += usageOf(root, "spantee.usage.").InputTokens + usageOf(root, "gen_ai.usage.").InputTokens
			called[run.SessionID] += chatUsage(byTrace[run.TraceID]).InputTokens
			sum.ToolsFailed += run.ToolsFailed
			sum.Idle += run.Idle
		}
		for id := range stated {
			sum.InputTokens += max(stated[id], called[id])
		}
		if math.Abs(sum.Cost-r.Cost) > 1e-9 || sum.InputTokens != r.InputTokens || sum.ToolsFailed != r.ToolsFailed || math.Abs(sum.Idle-r.Idle) > 1e-5 || math.Abs(sum.Time.Waiting-r.Time.Waiting) > 1e-5 {
			t.Errorf("the totals %+v are not the sum of the runs", r.Totals)
		}
		golden := "testdata/" + name + ".json"
		want, err := os.ReadFile(golden)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			t.Error(err)
		case *update:
			if err := os.WriteFile(golden, append(b, '\n'), 0o644); err != nil {
				t.Error(err)
			}
		case cmp.Diff(string(want), string(b)+"\n") != "":
			t.Errorf("%s (-want +got):\n%s", golden, cmp.Diff(string(want), string(b)+"\n"))
		}
	})
}

// A receipt says which tools failed, the first 50 by when they began, and what they were about
// if that was recorded.
func TestFailedTools(t *testing.T) {
	call := func(i int, details bool) *runs.Span {
		s := &tracepb.Span{
			TraceId: make([]byte, 16), SpanId: []byte{1, 2, 3, 4, 5, 6, 7, byte(i)}, ParentSpanId: []byte("12345678"), Name: "execute_tool shell false",
			StartTimeUnixNano: 1e18 + uint64(i)*1e9, EndTimeUnixNano: 1e18 + uint64(200-i)*1e9, Status: &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR},
		}
		set := func(key, value string) {
			s.Attributes = append(s.Attributes, &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: value}}})
		}
		set("gen_ai.tool.name", "shell")
		set("process.executable.name", "false")
		set("error.type", "exit_code")
		s.Attributes = append(s.Attributes, &commonpb.KeyValue{Key: "process.exit.code", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: 1}}})
		if details {
			set("process.command_line", "false --now")
		}
		return runs.Of(s)
	}
	for _, details := range []bool{false, true} {
		recorder := new(receipt.Recorder)
		for i := 80; i > 0; i-- { // the last ends first
			recorder.Add(call(i, details))
		}
		recorder.Add(runs.Of(&tracepb.Span{
			TraceId: make([]byte, 16), SpanId: []byte("12345678"), Name: "invoke_agent a", StartTimeUnixNano: 1e18, EndTimeUnixNano: 1e18 + 300e9,
			Attributes: []*commonpb.KeyValue{{Key: "spantee.bad_lines", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{}}}},
		}))
		list := recorder.Receipt().Runs[0].FailedTools
		if len(list) != 50 || list[0].ExitCode == nil {
			t.Fatalf("%+v", list)
		}
		code := int64(1)
		want := receipt.FailedTool{Tool: "shell", Program: "false", Failure: "exit 1", Kind: "exit_code", ExitCode: &code, AtMillis: 1000}
		if details {
			want.Detail = "false --now"
		}
		if diff := cmp.Diff(want, list[0]); diff != "" || list[49].AtMillis != 50_000 {
			t.Errorf("(-want +got):\n%s, the last is %+v", diff, list[49])
		}
	}
}

// chatInput returns the input tokens of all model calls in a trace, also of those after the
// end of the run.
func chatUsage(spans []*tracepb.Span) (used receipt.Usage) {
	for _, s := range spans {
		if strings.HasPrefix(s.Name, "chat") {
			plus(&used, usageOf(s.Attributes, "gen_ai.usage."))
		}
	}
	return used
}

func rootOf(spans []*tracepb.Span) *tracepb.Span {
	return spans[slices.IndexFunc(spans, func(s *tracepb.Span) bool {
		return slices.ContainsFunc(s.Attributes, func(a *commonpb.KeyValue) bool { return a.Key == "spantee.bad_lines" })
	})]
}

// traced returns what a trace says of its run, read without package runs.
func traced(spans []*tracepb.Span) receipt.Run {
	root := rootOf(spans)
	at := func(ns uint64) time.Time { return time.Unix(0, int64(ns)).UTC() }
	length := func(s *tracepb.Span) float64 {
		return math.Round(float64(s.EndTimeUnixNano-s.StartTimeUnixNano)/1e3) / 1e6
	}
	run := receipt.Run{
		TraceID: hex.EncodeToString(root.TraceId), SessionID: text(root, "gen_ai.conversation.id"),
		Agent: text(root, "gen_ai.agent.name"), Version: text(root, "spantee.agent.version"),
		Model: text(root, "gen_ai.request.model"), ErrorType: text(root, "error.type"),
		Models: []receipt.Model{}, Subagents: []receipt.Subagent{},
	}
	run.Succeeded = root.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR
	run.Start, run.End, run.Seconds = at(root.StartTimeUnixNano), at(root.EndTimeUnixNano), length(root)
	run.Times.Model, run.Tool = number(root, "spantee.model_seconds"), number(root, "spantee.tool_seconds")
	run.Counts = receipt.Counts{
		Spans: len(spans), Failures: map[string]int{},
		Retries: int(number(root, "spantee.retries")), Reconnects: int(number(root, "spantee.reconnects")), Compactions: int(number(root, "spantee.compactions")), LimitsReached: []string{}, Doubts: []string{}, DoubtCounts: map[string]int{},
	}
	for _, a := range root.Attributes {
		for _, doubt := range a.Value.GetArrayValue().GetValues() {
			if name := doubt.GetStringValue(); a.Key == "spantee.doubts" {
				count := map[string]string{
					"bad_lines": "spantee.cut_lines",
					"denied":    "spantee.denied_calls", "open_calls": "spantee.open_calls",
					"background_running": "spantee.running_tasks", "unknown_lines": "spantee.unknown_lines",
				}[name]
				run.Doubts, run.DoubtCounts[name] = append(run.Doubts, name), max(1, int(number(root, count)))
			}
		}
	}
	var work, asked []*tracepb.Span
	below := map[string]*receipt.Subagent{}
	parent := func(s *tracepb.Span) *receipt.Subagent {
		if below[string(s.ParentSpanId)] == nil {
			below[string(s.ParentSpanId)] = new(receipt.Subagent)
		}
		return below[string(s.ParentSpanId)]
	}
	byModel := func(name string, u receipt.Usage) {
		for i := range run.Models {
			if run.Models[i].Model == name {
				plus(&run.Models[i].Usage, u)
				return
			}
		}
		if u.TokensKnown || u.CostKnown {
			run.Models = append(run.Models, receipt.Model{Model: name, Usage: u})
		}
	}
	var first uint64 // when the first chat began
	for _, s := range spans {
		for _, e := range s.Events {
			if e.Name == "retry" {
				run.Retry += number(&tracepb.Span{Attributes: e.Attributes}, "spantee.delay_ms") / 1000
			}
		}
		switch operation, _, _ := strings.Cut(s.Name, " "); operation {
		case "chat":
			work = append(work, s)
			if text(root, "gen_ai.request.model") == "" && (run.Model == "" || s.StartTimeUnixNano < first) {
				run.Model, first = text(s, "gen_ai.request.model"), s.StartTimeUnixNano
			}
			model := text(s, "gen_ai.response.model")
			if model == "" {
				model = text(s, "gen_ai.request.model")
			}
			u := usageOf(s.Attributes, "gen_ai.usage.")
			run.Turns++
			byModel(model, u)
			parent(s).Turns++
			plus(&parent(s).Usage, u)
		case "execute_tool":
			if work = append(work, s); number(s, "spantee.tool.calls") > 0 { // a script
				continue
			}
			run.Tools++
			parent(s).Tools++
			if s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
				run.ToolsFailed++
				parent(s).ToolsFailed++
				run.Failures[text(s, "error.type")]++
			}
		case "await_approval":
			work, asked = append(work, s), append(asked, s)
		case "invoke_agent":
			if s == root {
				continue
			}
			sub := below[string(s.SpanId)]
			if sub == nil {
				sub = new(receipt.Subagent)
			}
			sub.Agent, sub.ErrorType, sub.Seconds = strings.TrimPrefix(s.Name, "invoke_agent "), text(s, "error.type"), length(s)
			if !sub.TokensKnown {
				plus(&sub.Usage, usageOf(s.Attributes, "gen_ai.usage."))
			}
			sub.TokensKnown = sub.InputTokens > 0 && sub.OutputTokens > 0 // a model call has both
			run.Subagents = append(run.Subagents, *sub)
		}
	}
	for _, s := range work { // what outlived the root
		s.StartTimeUnixNano, s.EndTimeUnixNano = min(s.StartTimeUnixNano, root.EndTimeUnixNano), min(s.EndTimeUnixNano, root.EndTimeUnixNano)
	}
	run.Retry = math.Round(run.Retry*1e3) / 1e3
	run.Approval = covered(asked)
	run.Idle = math.Round((run.Seconds-covered(work))*1e6) / 1e6
	var stated []receipt.Model // by the result
	for _, e := range root.Events {
		if e.Name == "model.usage" {
			model := text(&tracepb.Span{Attributes: e.Attributes}, "gen_ai.response.model")
			stated = append(stated, receipt.Model{Model: model, Usage: usageOf(e.Attributes, "gen_ai.usage.")})
		}
	}
	if len(stated) > 0 {
		run.Models = stated
	}
	run.Usage = usageOf(root.Attributes, "spantee.usage.")
	if !run.TokensKnown {
		direct := usageOf(root.Attributes, "gen_ai.usage.")
		direct.Cost, direct.CostKnown = direct.Cost+run.Cost, direct.CostKnown || run.CostKnown
		run.Usage = direct
	}
	if !run.TokensKnown { // as of a sub-agent whose parent is idle
		run.Usage = chatUsage(spans)
	}
	if len(run.Models) == 0 {
		byModel(run.Model, run.Usage)
	}
	if run.CostKnown {
		run.CostSource = "stated"
	}
	return run
}

func text(s *tracepb.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

func number(s *tracepb.Span, key string) float64 {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.GetDoubleValue() + float64(a.Value.GetIntValue())
		}
	}
	return 0
}

func plus(u *receipt.Usage, v receipt.Usage) {
	u.InputTokens += v.InputTokens
	u.OutputTokens += v.OutputTokens
	u.CacheReadTokens += v.CacheReadTokens
	u.CacheWriteTokens += v.CacheWriteTokens
	u.ReasoningTokens += v.ReasoningTokens
	u.Cost = math.Round((u.Cost+v.Cost)*1e12) / 1e12
	u.TokensKnown, u.CostKnown = u.TokensKnown || v.TokensKnown, u.CostKnown || v.CostKnown
}

// covered returns in how many seconds at least one of the spans was open. Spans that
// are 1 us apart hand over to one another.
func covered(spans []*tracepb.Span) float64 {
	const us = 1000
	var total, reached uint64
	for {
		var next *tracepb.Span
		for _, s := range spans {
			if s.EndTimeUnixNano > reached && (next == nil || s.StartTimeUnixNano < next.StartTimeUnixNano) {
				next = s
			}
		}
		if next == nil {
			return math.Round(float64(total)/1e3) / 1e6
		}
		from := max(next.StartTimeUnixNano, reached)
		if reached > 0 && next.StartTimeUnixNano > reached && next.StartTimeUnixNano <= reached+us {
			from = reached
		}
		total, reached = total+next.EndTimeUnixNano-from, next.EndTimeUnixNano
	}
}

// usageOf reads usage from attributes whose names begin so.
func usageOf(attributes []*commonpb.KeyValue, prefix string) (u receipt.Usage) {
	for _, a := range attributes {
		n := a.Value.GetIntValue()
		name, found := strings.CutPrefix(a.Key, prefix)
		if !found {
			continue
		}
		switch name {
		case "input_tokens":
			u.InputTokens, u.TokensKnown = n, true
		case "output_tokens":
			u.OutputTokens, u.TokensKnown = n, true
		case "cache_read.input_tokens", "cache_read_tokens":
			u.CacheReadTokens = n
		case "cache_write.input_tokens", "cache_write_tokens":
			u.CacheWriteTokens = n
		case "reasoning.output_tokens", "reasoning_tokens":
			u.ReasoningTokens = n
		case "cost":
			u.Cost, u.CostKnown = a.Value.GetDoubleValue(), true
		}
	}
	return u
}

// The receipt of a session says what the stream's own last line says.
func TestReceiptAgreesWithStream(t *testing.T) {
	compared := 0
	fixtures(t, func(t *testing.T, name string, in []byte) {
		var results []json.RawMessage
		for line := range bytes.Lines(in) {
			var v struct{ Type string }
			if json.Unmarshal(line, &v) == nil && v.Type == "result" {
				results = append(results, line)
			}
		}
		var stated struct {
			Cost  *float64 `json:"total_cost_usd"`
			Usage *struct {
				Output      int64 `json:"output_tokens"`
				OutputCamel int64 `json:"outputTokens"`
			}
			ByModel map[string]struct{ OutputTokens int64 } `json:"modelUsage"` // with sub-agents
		}
		if len(results) != 1 || json.Unmarshal(results[0], &stated) != nil {
			return
		}
		r, _ := record(t, in)
		if len(r.Runs) != 1 || strings.HasPrefix(name, "foreign") {
			return
		}
		if stated.Cost != nil {
			compared++
			if r.Cost != *stated.Cost || !r.CostKnown {
				t.Errorf("cost %v, want %v", r.Cost, *stated.Cost)
			}
		}
		if u := stated.Usage; u != nil && u.Output+u.OutputCamel > 0 {
			compared++
			want := u.Output + u.OutputCamel
			if len(stated.ByModel) > 0 {
				want = 0
			}
			for _, m := range stated.ByModel {
				want += m.OutputTokens
			}
			if r.OutputTokens != want {
				t.Errorf("%d output tokens, want %d", r.OutputTokens, want)
			}
		}
	})
	if compared < 30 {
		t.Errorf("only %d totals were compared", compared)
	}
}

// The totals are of all runs, also of those that are not listed, and of spans whose root
// never came.
func TestTotals(t *testing.T) {
	var recorder receipt.Recorder
	add := func(trace int, id byte, name string, attributes ...*commonpb.KeyValue) {
		span := &tracepb.Span{
			TraceId: fmt.Appendf(nil, "%016d", trace), SpanId: fmt.Appendf(nil, "%08d", id), Name: name,
			StartTimeUnixNano: 1e9, EndTimeUnixNano: 2e9, Attributes: attributes,
		}
		if id > 1 {
			span.ParentSpanId = fmt.Appendf(nil, "%08d", 1)
		}
		recorder.Add(runs.Of(span))
	}
	root := &commonpb.KeyValue{Key: "spantee.bad_lines", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{}}}
	for i := range 1100 {
		add(i, 2, "execute_tool shell")
		add(i, 1, "invoke_agent x", root)
	}
	if r := recorder.Receipt(); len(r.Runs) != 1000 || r.RunsTotal != 1100 || r.Tools != 1100 || r.Seconds != 1100 || !r.Succeeded {
		t.Errorf("%d runs listed, %+v", len(r.Runs), r.Totals)
	}
	add(5, 3, "execute_tool shell") // after its root
	if r := recorder.Receipt(); r.Runs[5].Tools != 2 || r.Tools != 1101 || r.RunsTotal != 1100 || !r.Succeeded {
		t.Errorf("%+v", r.Totals)
	}

	recorder = *new(receipt.Recorder)
	add(1, 2, "execute_tool shell")
	if r := recorder.Receipt(); r.Succeeded || len(r.Runs) != 1 || r.Runs[0].ErrorType != "interrupted" || r.Tools != 1 {
		t.Errorf("%+v", r)
	}
	if r := new(receipt.Recorder).Receipt(); r.Succeeded || r.RunsTotal != 0 {
		t.Errorf("%+v", r)
	}
}

// The doubts of all runs are those of each, and their counts add up.
func TestDoubtsOfAllRuns(t *testing.T) {
	var recorder receipt.Recorder
	for i, doubts := range [][]string{{"denied", "open_calls"}, nil, {"denied", "last_command_failed"}} {
		names := &commonpb.ArrayValue{}
		for _, d := range doubts {
			names.Values = append(names.Values, &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: d}})
		}
		count := &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: int64(i + 2)}}
		recorder.Add(runs.Of(&tracepb.Span{
			TraceId: fmt.Appendf(nil, "%016d", i), SpanId: fmt.Appendf(nil, "%08d", 1), Name: "invoke_agent x",
			Attributes: []*commonpb.KeyValue{
				{Key: "spantee.bad_lines", Value: count},
				{Key: "spantee.denied_calls", Value: count},
				{Key: "spantee.doubts", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: names}}},
			},
		}))
	}
	r := recorder.Receipt()
	if diff := cmp.Diff([]string{"denied", "last_command_failed", "open_calls"}, r.Doubts); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]int{"denied": 6, "last_command_failed": 1, "open_calls": 1}, r.DoubtCounts); diff != "" {
		t.Error(diff)
	}
	if len(r.Runs[1].Doubts) > 0 || !slices.Equal(r.Runs[2].Doubts, []string{"denied", "last_command_failed"}) {
		t.Errorf("%+v", r.Runs)
	}
}

// The cost of a run is computed by the prices of its models if the agent states none.
func TestComputedCost(t *testing.T) {
	type attributes map[string]any
	chat := func(model string, input, output int64) attributes {
		return attributes{"gen_ai.response.model": model, "gen_ai.usage.input_tokens": input, "gen_ai.usage.output_tokens": output}
	}
	root := func(input, output int64) attributes {
		return attributes{"gen_ai.request.model": "large", "spantee.bad_lines": int64(0), "spantee.usage.input_tokens": input, "spantee.usage.output_tokens": output}
	}
	for name, tt := range map[string]struct {
		chats    []attributes
		root     attributes
		want     float64
		known    bool
		source   string
		unpriced string
	}{
		"two models":         {[]attributes{chat("large", 100, 10), chat("small", 100, 10)}, root(200, 20), 1.2 + 0.12, true, "computed", ""},
		"only totals":        {nil, root(100, 10), 1.2, true, "computed", ""},
		"calls not shown":    {[]attributes{chat("small", 100, 10)}, root(200, 20), 1.2 + 0.12, true, "computed", ""},
		"after its end":      {[]attributes{chat("small", 300, 10)}, root(100, 10), 0.32, true, "computed", ""},
		"a model unpriced":   {[]attributes{chat("large", 100, 10), chat("new", 100, 10)}, root(200, 20), 1.2, false, "computed", "new"},
		"all unpriced":       {[]attributes{chat("new", 100, 10)}, root(100, 10), 0, false, "", "new"},
		"no tokens":          {nil, attributes{"gen_ai.request.model": "new", "spantee.bad_lines": int64(0)}, 0, false, "", ""},
		"stated by the run":  {[]attributes{chat("new", 100, 10)}, attributes{"spantee.bad_lines": int64(0), "gen_ai.usage.cost": 7.5}, 7.5, true, "stated", ""},
		"stated by the call": {[]attributes{{"gen_ai.usage.input_tokens": int64(9), "gen_ai.usage.cost": 0.5}}, root(9, 0), 0.5, true, "stated", ""},
		"without a root":     {[]attributes{chat("small", 100, 10)}, nil, 0.12, true, "computed", ""},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := receipt.Recorder{Prices: runs.Prices{"large": {Input: 0.01, Output: 0.02}, "small": {Input: 0.001, Output: 0.002}}}
			add := func(id, parent byte, name string, list attributes) {
				span := &tracepb.Span{TraceId: fmt.Appendf(nil, "%016d", 1), SpanId: fmt.Appendf(nil, "%08d", id), Name: name}
				if parent > 0 {
					span.ParentSpanId = fmt.Appendf(nil, "%08d", parent)
				}
				for key, v := range list {
					value := new(commonpb.AnyValue)
					switch v := v.(type) {
					case string:
						value.Value = &commonpb.AnyValue_StringValue{StringValue: v}
					case int64:
						value.Value = &commonpb.AnyValue_IntValue{IntValue: v}
					case float64:
						value.Value = &commonpb.AnyValue_DoubleValue{DoubleValue: v}
					}
					span.Attributes = append(span.Attributes, &commonpb.KeyValue{Key: key, Value: value})
				}
				recorder.Add(runs.Of(span))
			}
			for i, c := range tt.chats {
				add(byte(i+2), 1, "chat x", c)
			}
			if tt.root != nil {
				add(1, 0, "invoke_agent x", tt.root)
			}
			r := recorder.Receipt()
			for _, total := range []receipt.Totals{r.Totals, r.Runs[0].Totals} {
				if math.Abs(total.Cost-tt.want) > 1e-9 || total.CostKnown != tt.known || total.CostSource != tt.source {
					t.Errorf("%v, known %v, %q", total.Cost, total.CostKnown, total.CostSource)
				}
			}
			if got := strings.Join(recorder.Unpriced(), " "); got != tt.unpriced {
				t.Errorf("%q have no price, want %q", got, tt.unpriced)
			}
		})
	}
}

// What an agent states only for a session is in no total, and what its sub-agents use after
// the end of a run is in no run, or in the session's next one, and in the totals once.
func TestUsageOutsideOfRuns(t *testing.T) {
	var recorder receipt.Recorder
	add := func(trace, id byte, name string, attributes map[string]int64) {
		span := &tracepb.Span{
			TraceId: fmt.Appendf(nil, "%016d", trace), SpanId: fmt.Appendf(nil, "%08d", id), Name: name,
			StartTimeUnixNano: 1e9, EndTimeUnixNano: 2e9,
		}
		if id > 1 {
			span.ParentSpanId = fmt.Appendf(nil, "%08d", 1)
		}
		if trace > 2 {
			span.Attributes = []*commonpb.KeyValue{{Key: "gen_ai.conversation.id", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: "s"}}}}
		}
		for key, n := range attributes {
			span.Attributes = append(span.Attributes, &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: n}}})
		}
		recorder.Add(runs.Of(span))
	}
	chat := func(trace, id byte, input int64) {
		add(trace, id, "chat x", map[string]int64{"gen_ai.usage.input_tokens": input, "gen_ai.usage.output_tokens": 1})
	}
	root := func(trace byte, input, session int64) {
		add(trace, 1, "invoke_agent x", map[string]int64{
			"spantee.bad_lines": 0, "spantee.usage.input_tokens": input, "spantee.usage.output_tokens": 1,
			"spantee.session.usage.input_tokens": session, "spantee.session.usage.output_tokens": 3,
		})
	}
	chat(1, 2, 100)
	root(1, 100, 3000)
	chat(1, 3, 20) // of a sub-agent
	chat(2, 2, 5)
	root(2, 9, 1200) // one of its model calls is not in the stream
	chat(3, 2, 1000)
	root(3, 1000, 0)
	chat(3, 3, 200) // of a sub-agent, which the next run states
	chat(4, 2, 50)
	root(4, 250, 0)
	r := recorder.Receipt()
	got := []int64{r.Runs[0].InputTokens, r.Runs[1].InputTokens, r.InputTokens, r.OutputTokens, r.Session.InputTokens, r.Session.OutputTokens}
	if want := []int64{100, 9, 129 + 1250, 3 + 3, 4200, 12}; !slices.Equal(got, want) {
		t.Errorf("%d, want %d", got, want)
	}
}

// A receipt replaces the file, and leaves nothing beside it, also if it cannot be written.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "r.json")
	if err := os.WriteFile(name, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &receipt.Receipt{Spantee: "new"}
	if err := r.WriteFile(name); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(name); err != nil || !bytes.Contains(b, []byte(`"spantee_version": "new"`)) {
		t.Errorf("%v, %s", err, b)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := r.WriteFile(filepath.Join(dir, "folder")); err == nil {
		t.Error("a folder was replaced")
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 2 {
		t.Errorf("%v, %v", files, err)
	}
}
