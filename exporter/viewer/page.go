package viewer

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// An Overview is what the waterfall is drawn from: all spans of a trace, or
// those that are new, with nothing that only the details show.
type Overview struct {
	Session Session `json:"session"`
	Seq     uint64  `json:"seq"` // what to ask for next time
	Spans   []Bar   `json:"spans"`
}

// A Bar is a span in the waterfall. Times are in microseconds: those of the
// span since 1970, those of its events since its start.
type Bar struct {
	ID         string  `json:"id"`
	Parent     string  `json:"parent,omitempty"`
	Name       string  `json:"name"`
	Op         string  `json:"op,omitempty"`
	Tool       string  `json:"tool,omitempty"`
	Start      int64   `json:"start"`
	End        int64   `json:"end"`
	Failure    string  `json:"failure,omitempty"`
	Executable string  `json:"executable,omitempty"`
	FirstChunk int64   `json:"firstChunk,omitempty"`
	Continues  string  `json:"continues,omitempty"`
	Estimated  bool    `json:"estimated,omitempty"`
	Text       []int64 `json:"text,omitempty"`
	Thinking   []int64 `json:"thinking,omitempty"`
	Events     []int64 `json:"events,omitempty"`
}

func newBar(s Span) Bar {
	attrs := s.GetAttributes()
	b := Bar{
		ID:         hex.EncodeToString(s.GetSpanId()),
		Parent:     hex.EncodeToString(s.GetParentSpanId()),
		Name:       s.GetName(),
		Op:         operation(s.Span),
		Tool:       text(attrs, keyTool),
		Start:      microseconds(s.GetStartTimeUnixNano()),
		End:        microseconds(end(s.Span)),
		Failure:    failure(s.Span),
		Executable: text(attrs, keyExecutable),
		FirstChunk: int64(value(attrs, keyFirstChunk).GetDoubleValue() * 1e6),
		Continues:  text(attrs, keyContinues),
		Estimated:  value(attrs, keyEstimated).GetBoolValue(),
	}
	for _, e := range s.GetEvents() {
		at := microseconds(e.GetTimeUnixNano()) - b.Start
		switch kind, _, _ := strings.Cut(e.GetName(), "."); kind {
		case "text":
			b.Text = append(b.Text, at)
		case "thinking":
			b.Thinking = append(b.Thinking, at)
		default:
			b.Events = append(b.Events, at)
		}
	}
	return b
}

// failure says in words why a span failed.
func failure(s *tracepb.Span) string {
	if !failed(s) {
		return ""
	}
	if code := value(s.GetAttributes(), keyExitCode).GetIntValue(); code != 0 {
		return "exit " + strconv.FormatInt(code, 10)
	}
	kind, message := text(s.GetAttributes(), keyErrorType), s.GetStatus().GetMessage()
	if kind != "" && message != "" && kind != message {
		return kind + ": " + message
	}
	return cmp.Or(kind, message, "error")
}

// A Detail is all there is of one span.
type Detail struct {
	ID         string      `json:"id"`
	Trace      string      `json:"trace"`
	Parent     string      `json:"parent"`
	Name       string      `json:"name"`
	Kind       string      `json:"kind"`
	Status     string      `json:"status"`
	Message    string      `json:"message"`
	TraceState string      `json:"traceState"`
	Start      int64       `json:"start"`
	End        int64       `json:"end"`
	Attributes []Attribute `json:"attributes"`
	Events     []Event     `json:"events"`
	Links      []Link      `json:"links"`
	Resource   []Attribute `json:"resource"`
	Scope      string      `json:"scope"`
	Dropped    uint32      `json:"dropped"` // attributes, events and links the sender gave up
}

// An Attribute has its value as text: JavaScript has no 64-bit integers, and
// JSON no NaN.
type Attribute struct {
	Key   string `json:"key"`
	Type  string `json:"type"`
	Value string `json:"value"`
}

// An Event is one, so many microseconds after its span's start.
type Event struct {
	Name       string      `json:"name"`
	At         int64       `json:"at"`
	Attributes []Attribute `json:"attributes"`
}

// A Link points at a span, of this trace or another.
type Link struct {
	Trace      string      `json:"trace"`
	Span       string      `json:"span"`
	Attributes []Attribute `json:"attributes"`
}

func newDetail(s *Span) Detail {
	d := Detail{
		ID:         hex.EncodeToString(s.GetSpanId()),
		Trace:      hex.EncodeToString(s.GetTraceId()),
		Parent:     hex.EncodeToString(s.GetParentSpanId()),
		Name:       s.GetName(),
		Kind:       strings.ToLower(strings.TrimPrefix(s.GetKind().String(), "SPAN_KIND_")),
		Status:     strings.ToLower(strings.TrimPrefix(s.GetStatus().GetCode().String(), "STATUS_CODE_")),
		Message:    s.GetStatus().GetMessage(),
		TraceState: s.GetTraceState(),
		Start:      microseconds(s.GetStartTimeUnixNano()),
		End:        microseconds(end(s.Span)),
		Attributes: attributes(s.GetAttributes()),
		Events:     []Event{},
		Links:      []Link{},
		Resource:   attributes(s.Resource.GetAttributes()),
		Scope:      strings.TrimSpace(s.Scope.GetName() + " " + s.Scope.GetVersion()),
		Dropped:    s.GetDroppedAttributesCount() + s.GetDroppedEventsCount() + s.GetDroppedLinksCount(),
	}
	for _, e := range s.GetEvents() {
		d.Events = append(d.Events, Event{e.GetName(), microseconds(e.GetTimeUnixNano()) - d.Start, attributes(e.GetAttributes())})
	}
	for _, l := range s.GetLinks() {
		d.Links = append(d.Links, Link{hex.EncodeToString(l.GetTraceId()), hex.EncodeToString(l.GetSpanId()), attributes(l.GetAttributes())})
	}
	return d
}

func attributes(attrs []*commonpb.KeyValue) []Attribute {
	list := make([]Attribute, 0, len(attrs))
	for _, kv := range attrs {
		kind, v := written(kv.GetValue())
		list = append(list, Attribute{kv.GetKey(), kind, v})
	}
	return list
}

// written is a value as text, and its type in the words of OpenTelemetry.
func written(v *commonpb.AnyValue) (kind, text string) {
	switch v := v.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		return "string", v.StringValue
	case *commonpb.AnyValue_BoolValue:
		return "bool", strconv.FormatBool(v.BoolValue)
	case *commonpb.AnyValue_IntValue:
		return "int", strconv.FormatInt(v.IntValue, 10)
	case *commonpb.AnyValue_DoubleValue:
		return "double", strconv.FormatFloat(v.DoubleValue, 'g', -1, 64)
	case *commonpb.AnyValue_BytesValue:
		return "bytes", hex.EncodeToString(v.BytesValue)
	case *commonpb.AnyValue_ArrayValue, *commonpb.AnyValue_KvlistValue:
		b, err := json.Marshal(plain(&commonpb.AnyValue{Value: v}, 0))
		if err != nil {
			return "json", err.Error()
		}
		return "json", string(b)
	}
	return "empty", ""
}

// maxDepth is how deep a value may be nested; beyond it nobody reads.
const maxDepth = 32

// plain is a value as encoding/json takes it.
func plain(v *commonpb.AnyValue, depth int) any {
	if depth > maxDepth {
		return "…"
	}
	switch v := v.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		return v.StringValue
	case *commonpb.AnyValue_BoolValue:
		return v.BoolValue
	case *commonpb.AnyValue_IntValue:
		return v.IntValue
	case *commonpb.AnyValue_DoubleValue:
		if math.IsNaN(v.DoubleValue) || math.IsInf(v.DoubleValue, 0) {
			return strconv.FormatFloat(v.DoubleValue, 'g', -1, 64)
		}
		return v.DoubleValue
	case *commonpb.AnyValue_BytesValue:
		return hex.EncodeToString(v.BytesValue)
	case *commonpb.AnyValue_ArrayValue:
		list := []any{}
		for _, e := range v.ArrayValue.GetValues() {
			list = append(list, plain(e, depth+1))
		}
		return list
	case *commonpb.AnyValue_KvlistValue:
		object := map[string]any{}
		for _, kv := range v.KvlistValue.GetValues() {
			object[kv.GetKey()] = plain(kv.GetValue(), depth+1)
		}
		return object
	}
	return nil
}
