package viewer

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/mapping/semconv"
)

// An Overview is the data of the waterfall: the spans of a trace that ended since
// the last Overview, and all that are open.
type Overview struct {
	Session Session `json:"session"`
	Seq     uint64  `json:"seq"`  // pass it as since next time
	More    bool    `json:"more"` // more can be fetched right away
	Spans   []Bar   `json:"spans"`
	Open    []Bar   `json:"open"`
}

// Limits of one answer.
const (
	maxBars      = 20_000
	maxFirstBars = 2_000 // so that there is a picture at once
	maxBarEvents = 400_000
	maxInstants  = 4_000 // of one kind in one bar: more than a screen has pixels
)

// A Bar is a span in the waterfall. Times are in microseconds: those of the
// span since 1970, those of its events since its start.
type Bar struct {
	ID         string  `json:"id"`
	Parent     string  `json:"parent,omitempty"`
	Name       string  `json:"name"`
	Op         string  `json:"op,omitempty"`
	Title      string  `json:"title"`
	Detail     string  `json:"detail,omitempty"`
	Path       bool    `json:"path,omitempty"` // Detail is a path
	Tool       string  `json:"tool,omitempty"`
	Call       string  `json:"call,omitempty"`
	Turn       int64   `json:"turn,omitempty"`
	Start      int64   `json:"start"`
	End        int64   `json:"end"`
	Failure    string  `json:"failure,omitempty"`
	Executable string  `json:"executable,omitempty"`
	FirstChunk int64   `json:"firstChunk,omitempty"`
	Finish     string  `json:"finish,omitempty"`
	Input      float64 `json:"input,omitempty"`
	Output     float64 `json:"output,omitempty"`
	Cached     float64 `json:"cached,omitempty"`
	Cost       float64 `json:"cost,omitempty"`
	Estimated  bool    `json:"estimated,omitempty"`
	Open       bool    `json:"open,omitempty"`
	Chunks     int64   `json:"chunks,omitempty"` // how many deltas there are
	Text       []int64 `json:"text,omitempty"`
	Thinking   []int64 `json:"thinking,omitempty"`
	Marks      []Mark  `json:"marks,omitempty"`
}

// A Mark is an event other than a delta, such as a retry.
type Mark struct {
	At   int64  `json:"at"`
	Name string `json:"name"`
}

func newBar(s Span) Bar {
	attrs := s.GetAttributes()
	used := newUsage(s.Span)
	b := Bar{
		ID:         hex.EncodeToString(s.GetSpanId()),
		Parent:     hex.EncodeToString(s.GetParentSpanId()),
		Name:       s.GetName(),
		Op:         operation(s.Span),
		Title:      title(s.Span),
		Tool:       text(attrs, semconv.ToolName),
		Call:       text(attrs, semconv.ToolCallID),
		Turn:       value(attrs, semconv.TurnNumber).GetIntValue(),
		Start:      microseconds(s.GetStartTimeUnixNano()),
		End:        microseconds(end(s.Span)),
		Failure:    failure(s.Span),
		Executable: text(attrs, semconv.ProcessExecutable),
		FirstChunk: int64(number(value(attrs, semconv.TimeToFirstChunk)) * 1e6),
		Input:      used.input, Output: used.output, Cached: used.cached, Cost: used.cost,
		Estimated: value(attrs, semconv.TimeEstimated).GetBoolValue(),
	}
	b.Detail, b.Path = detail(s.Span)
	if v := value(attrs, semconv.FinishReasons); v != nil {
		_, b.Finish = written(v)
	}
	for _, e := range s.GetEvents() {
		at := microseconds(e.GetTimeUnixNano()) - b.Start
		switch kind, _, _ := strings.Cut(e.GetName(), "."); kind {
		case "text":
			b.Text = append(b.Text, at)
			b.Chunks += deltas(e)
		case "thinking":
			b.Thinking = append(b.Thinking, at)
			b.Chunks += deltas(e)
		default:
			b.Marks = append(b.Marks, Mark{at, cutText(e.GetName(), maxDetail)})
		}
	}
	b.Text, b.Thinking, b.Marks = thin(b.Text), thin(b.Thinking), thin(b.Marks)
	return b
}

// deltas says how many deltas an event stands for: neighbours may have been
// merged.
func deltas(e *tracepb.Span_Event) int64 {
	if v := value(e.GetAttributes(), semconv.DeltaCount); v != nil {
		return v.GetIntValue()
	}
	return 1
}

// thin reduces a list to maxInstants elements, evenly spaced.
func thin[T any](list []T) []T {
	if len(list) <= maxInstants {
		return list
	}
	few := make([]T, maxInstants)
	for i := range few {
		few[i] = list[i*len(list)/maxInstants]
	}
	return few
}

// Overview returns the bars of the spans that came after since, as many as one
// answer holds.
func (s *Store) Overview(id traceID, since uint64) (o Overview, ok bool) {
	s.refresh()
	s.mu.RLock()
	t := s.traces[id]
	if t == nil { // it may have another id by now
		t, since = s.traces[s.moved[id]], 0
	}
	if t == nil {
		s.mu.RUnlock()
		return o, false
	}
	o.Session, o.Seq = t.session(), t.seq
	taken := t.since(since)
	open, _ := t.openSpans()
	origins := t.origins
	s.mu.RUnlock()

	o.Spans, o.Open = make([]Bar, 0, min(len(taken), maxBars)), []Bar{}
	most, events := maxBars, 0
	if since == 0 {
		most = maxFirstBars
	}
	for i := range taken {
		if i == most || events > maxBarEvents {
			o.More, o.Seq = true, taken[i-1].seq
			break
		}
		b := newBar(decodeAll(taken[i:i+1], origins)[0])
		events += len(b.Text) + len(b.Thinking) + len(b.Marks)
		o.Spans = append(o.Spans, b)
	}
	for _, sp := range open {
		b := newBar(sp)
		b.Open = true
		o.Open = append(o.Open, b)
	}
	return o, true
}

// since returns the spans that came after seq, in the order they came.
func (t *trace) since(seq uint64) []stored {
	var taken []stored
	for _, sp := range t.spans {
		if sp.seq > seq {
			taken = append(taken, sp)
		}
	}
	slices.SortFunc(taken, func(a, b stored) int { return cmp.Compare(a.seq, b.seq) })
	return taken
}

// failure says in words why a span failed.
func failure(s *tracepb.Span) string {
	if !failed(s) {
		return ""
	}
	if exit := exitFailure(s); exit != "" {
		return exit
	}
	kind, message := text(s.GetAttributes(), semconv.ErrorType), s.GetStatus().GetMessage()
	if kind != "" && message != "" && !strings.HasPrefix(message, kind) {
		return kind + ": " + message
	}
	return cmp.Or(message, kind, "error")
}

// exitFailure returns the exit code of a span's process in words, "" if it is 0.
func exitFailure(s *tracepb.Span) string {
	code := value(s.GetAttributes(), semconv.ProcessExitCode).GetIntValue()
	if code == 0 {
		return ""
	}
	return "exit " + strconv.FormatInt(code, 10)
}

// A Detail is every detail of one span.
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
	Dropped    uint32      `json:"dropped"` // attributes, events and links that the sender dropped
	Omitted    int         `json:"omitted"` // events that are not in this answer
	Open       bool        `json:"open"`
}

// An Attribute has its value as text: JavaScript has no 64-bit integers, and
// JSON no NaN.
type Attribute struct {
	Key   string `json:"key"`
	Type  string `json:"type"`
	Value string `json:"value"`
}

// An Event is an event of a span. At is in microseconds since the span's start.
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

// maxDetailEvents is more than any of spantee's chat spans has.
const maxDetailEvents = 5_000

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
	for i, e := range s.GetEvents() {
		if i == maxDetailEvents {
			d.Omitted = len(s.GetEvents()) - i
			break
		}
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

// written returns a value as text, and its type in OpenTelemetry's terms.
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

// plain returns a value in the form that encoding/json takes.
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
