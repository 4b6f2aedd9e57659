package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/file"
	"github.com/spantee/spantee/exporter/otlp"
	"github.com/spantee/spantee/exporter/spool"
)

// A made session is OTLP spans, written without an agent.
type made struct {
	trace []byte
	start time.Time
	spans []*tracepb.Span
}

const madeStart = 1790000000000000000 // nanoseconds

func newMade(name string) *made {
	sum := sha256.Sum256([]byte(name))
	return &made{trace: sum[:16], start: time.Unix(0, madeStart)}
}

// span adds one, from and to so many milliseconds after the start.
func (m *made) span(parent *tracepb.Span, name string, from, to float64, attrs ...*commonpb.KeyValue) *tracepb.Span {
	sum := sha256.Sum256(fmt.Appendf(nil, "%x %d", m.trace, len(m.spans)))
	s := &tracepb.Span{
		TraceId: m.trace, SpanId: sum[:8], ParentSpanId: parent.GetSpanId(), Name: name,
		StartTimeUnixNano: uint64(m.start.UnixNano()) + uint64(from*1e6), EndTimeUnixNano: uint64(m.start.UnixNano()) + uint64(to*1e6),
		Attributes: attrs,
	}
	op, what, _ := strings.Cut(name, " ")
	switch op {
	case "invoke_agent", "chat", "execute_tool":
		s.Attributes = append(s.Attributes, str("gen_ai.operation.name", op))
	}
	switch op {
	case "invoke_agent":
		s.Attributes = append(s.Attributes, str("gen_ai.agent.name", what))
	case "chat":
		s.Attributes = append(s.Attributes, str("gen_ai.request.model", what))
	case "execute_tool":
		s.Attributes = append(s.Attributes, str("gen_ai.tool.name", what))
	}
	m.spans = append(m.spans, s)
	return s
}

func str(key, v string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: v}}}
}

func number(key string, v float64) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: v}}}
}

func (m *made) request() []*tracepb.ResourceSpans {
	return []*tracepb.ResourceSpans{{
		Resource:   &resourcepb.Resource{Attributes: []*commonpb.KeyValue{str("service.name", "cursor-agent")}},
		ScopeSpans: []*tracepb.ScopeSpans{{Scope: &commonpb.InstrumentationScope{Name: "made"}, Spans: m.spans}},
	}}
}

// file writes it as OTLP JSON lines.
func (m *made) file(t testing.TB) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "made.jsonl")
	client, err := file.New(name)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Stop(context.Background())
	if err := client.UploadTraces(context.Background(), encodeRequest(m.request())); err != nil {
		t.Fatal(err)
	}
	return name
}

// bigSession has so many spans, and ten times as many events: turns of the
// model, with three to seven tools between two of which some run at once.
func bigSession(spans int) *made {
	m := newMade(fmt.Sprint("big ", spans))
	random := rand.New(rand.NewPCG(1, 2))
	kinds := []string{"shell", "read", "read", "grep", "edit", "mcp_search"}
	root := m.span(nil, "invoke_agent cursor-agent", 0, 0)
	now := 0.0
	for len(m.spans) < spans {
		length := 800 + random.Float64()*2500
		wait := 300 + random.Float64()*300
		turn := m.span(root, "chat GPT-5", now, now+length, number("gen_ai.response.time_to_first_chunk", wait/1000))
		for i := range 64 {
			at := turn.StartTimeUnixNano + uint64((wait+(length-wait)*float64(i)/64)*1e6)
			name := "text.delta"
			if i < 15 {
				name = "thinking.delta"
			}
			turn.Events = append(turn.Events, &tracepb.Span_Event{TimeUnixNano: at, Name: name})
		}
		now += length
		for range min(3+random.IntN(5), spans-len(m.spans)) {
			took := 20 + random.ExpFloat64()*400
			tool := m.span(root, "execute_tool "+kinds[random.IntN(len(kinds))], now, now+took)
			if random.IntN(20) == 0 {
				tool.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR}
				tool.Attributes = append(tool.Attributes, str("error.type", "failure"))
			}
			now += took * random.Float64()
		}
	}
	root.EndTimeUnixNano = madeStart + uint64((now+1000)*1e6)
	return m
}

// hostile has markup in every string that a span can carry.
const hostile = `"><img src=x onerror="window.hacked=1"><script>window.hacked=1</script>`

func hostileSession() *made {
	m := newMade("hostile")
	attrs := func() []*commonpb.KeyValue {
		return []*commonpb.KeyValue{
			str(hostile, hostile),
			{Key: "list" + hostile, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_KvlistValue{KvlistValue: &commonpb.KeyValueList{Values: []*commonpb.KeyValue{str(hostile, hostile)}}}}},
		}
	}
	root := m.span(nil, "invoke_agent "+hostile, 0, 1000, attrs()...)
	root.Attributes = append(root.Attributes,
		str("gen_ai.request.model", hostile), str("gen_ai.conversation.id", hostile), str("error.type", hostile),
		str("gen_ai.input.messages", `[{"role":`+fmt.Sprintf("%q", hostile)+`,"parts":[{"type":"text","content":`+fmt.Sprintf("%q", hostile)+`}]}]`),
		str("gen_ai.output.messages", hostile),
		str("gen_ai.tool.call.arguments", `{`+fmt.Sprintf("%q:%q", hostile, hostile)+`}`),
		str("gen_ai.tool.call.result", `[`+fmt.Sprintf("%q", hostile)+`]`))
	root.TraceState = hostile
	root.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: hostile}
	root.Events = []*tracepb.Span_Event{{Name: hostile, TimeUnixNano: madeStart, Attributes: attrs()}}
	root.Links = []*tracepb.Span_Link{{TraceId: m.trace, SpanId: []byte("12345678"), TraceState: hostile, Attributes: attrs()}}
	m.span(root, "execute_tool "+hostile, 100, 900, str("process.executable.name", hostile))
	return m
}

func (m *made) hostileRequest() []*tracepb.ResourceSpans {
	request := m.request()
	request[0].Resource.Attributes = []*commonpb.KeyValue{str("service.name", hostile), str(hostile, hostile)}
	request[0].ScopeSpans[0].Scope = &commonpb.InstrumentationScope{Name: hostile, Version: hostile}
	return request
}

func encodeRequest(spans []*tracepb.ResourceSpans) []byte {
	return encoded(&tracepb.TracesData{ResourceSpans: spans})
}

func encoded(message proto.Message) []byte {
	b, err := proto.Marshal(message)
	if err != nil {
		panic(err)
	}
	return b
}

// runs lets a process run until the test ends, which has spans open that go to a viewer.
func (m *made) runs(t *testing.T, v viewerRun) {
	t.Helper()
	state := ""
	for _, kv := range v.cmd.Env {
		if dir, ok := strings.CutPrefix(kv, "XDG_STATE_HOME="); ok {
			state = dir
		}
	}
	var open spool.Snapshot
	for _, rs := range m.request() {
		for _, span := range rs.ScopeSpans[0].Spans {
			open.Open = append(open.Open, &spool.Span{Wire: spool.AppendSpan(nil, encoded(span)), Of: &spool.Origin{Resource: encoded(rs.Resource)}})
		}
	}
	l := spool.In(filepath.Join(state, "spantee")).NewLog(spool.Destination{Protocol: "grpc", Endpoint: v.grpc}, nil)
	t.Cleanup(func() { l.Close("", nil) })
	if err := l.Append(nil, &open); err != nil {
		t.Fatal(err)
	}
}

// upload sends spans to an OTLP/gRPC endpoint.
func upload(endpoint string, spans []*tracepb.ResourceSpans) error {
	client, err := otlp.New(otlp.Config{Endpoint: endpoint})
	if err != nil {
		return err
	}
	defer client.Stop(context.Background())
	return client.UploadTraces(context.Background(), encodeRequest(spans))
}
