package viewer

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"

	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/mapping/semconv"
)

// An Overview is the data of the waterfall.
type Overview struct {
	Session Session `json:"session"`
	Answer[Bar]
}

// An Answer is what one answer says of the spans of a session that ended since the last answer,
// and then of all that are open.
type Answer[T any] struct {
	Seq   int64 `json:"seq"`  // pass it as since next time
	More  bool  `json:"more"` // more can be fetched right away
	Spans []T   `json:"spans"`
	Open  []T   `json:"open"`
}

const (
	// maxFirst bounds the first answer for the waterfall, in bytes, so that a picture appears at once.
	maxFirst = maxAnswer / 10

	// itemSize is about how many bytes an item of an answer takes besides its text.
	itemSize = 200

	// maxStepBytes bounds the content of one span.
	maxStepBytes = 256 << 10

	maxInstants = 4_000 // of one kind in one bar: more than a screen has pixels
)

// readAnswer returns what one answer holds of a session. A size is in bytes of text; items
// without any are left out.
func readAnswer[T any](from querier, row, since int64, maxSize int, item func(stored) (v T, size int)) (Answer[T], error) {
	a := Answer[T]{Seq: since, Spans: []T{}, Open: []T{}}
	size := 0
	for sp, err := range spansAndOpen(from, row, since) {
		if err != nil {
			return a, err
		}
		if size > maxSize {
			a.More = sp.n > 0 || len(a.Open) == 0 && a.Seq > since // an agent has not so much open that it does not fit
			break
		}
		v, bytes := item(sp)
		size += itemSize + bytes
		if sp.n > 0 {
			a.Seq = sp.n
		}
		switch {
		case bytes == 0:
		case sp.n == 0:
			a.Open = append(a.Open, v)
		default:
			a.Spans = append(a.Spans, v)
		}
	}
	return a, nil
}

// A Bar is a span in the waterfall. Times are in microseconds: those of the
// span since 1970, those of its events since its start.
type Bar struct {
	ID            string `json:"id"`
	Parent        string `json:"parent,omitempty"`
	Name          string `json:"name"`
	Op            string `json:"op,omitempty"`
	Title         string `json:"title"`
	Detail        string `json:"detail,omitempty"`
	Path          bool   `json:"path,omitempty"` // Detail is a path
	Tool          string `json:"tool,omitempty"`
	Script        bool   `json:"script,omitempty"` // it made other calls, which count in its place
	Turn          int64  `json:"turn,omitempty"`
	Start         int64  `json:"start"`
	End           int64  `json:"end"`
	Failure       string `json:"failure,omitempty"`
	Executable    string `json:"executable,omitempty"`
	StartInferred bool   `json:"startInferred,omitempty"`
	EndInferred   bool   `json:"endInferred,omitempty"`
	Open          bool   `json:"open,omitempty"`
	Coarse        bool   `json:"coarse,omitempty"` // spantee's: it rests on clocks with milliseconds
	Marks         []Mark `json:"marks,omitempty"`
	ModelCall
}

// A ModelCall is what a bar says of a call of a model.
type ModelCall struct {
	FirstChunk int64   `json:"firstChunk,omitempty"`
	Input      int64   `json:"input,omitempty"`
	Output     int64   `json:"output,omitempty"`
	Cached     int64   `json:"cached,omitempty"`
	Cost       float64 `json:"cost,omitempty"`
	Chunks     int64   `json:"chunks,omitempty"` // how many deltas there are
	Text       []int64 `json:"text,omitempty"`
	Thinking   []int64 `json:"thinking,omitempty"`
}

// A Mark is an event other than a delta, such as a retry.
type Mark struct {
	At   int64  `json:"at"`
	Name string `json:"name"`
}

// newBar returns the bar of a span, and its size in bytes of text.
func newBar(sp stored) (Bar, int) {
	s := sp.read()
	attribute := func(key string) string { return cutText(s.Text(key), maxDetail) }
	used := s.Usage()
	b := Bar{
		ID:     hexID(s.ID),
		Parent: hexID(s.Parent),
		Name:   cutText(s.Name, maxDetail),
		Op:     string(s.Kind()),
		Title:  cutText(s.Subject(), maxDetail),
		Tool:   attribute(semconv.ToolName),
		Turn:   s.Int(semconv.TurnNumber),
		Script: s.IsScript(),
		Start:  microseconds(s.Start), End: microseconds(s.End),
		Failure:    cutText(s.Failure(), maxDetail),
		Executable: attribute(semconv.ProcessExecutable),
		Open:       sp.n == 0,
		Coarse:     strings.Contains(sp.origin.wire, ownScope),
		ModelCall:  ModelCall{FirstChunk: s.FirstChunk().Microseconds(), Input: used.InputTokens, Output: used.OutputTokens, Cached: used.CacheReadTokens, Cost: used.Cost},
	}
	b.Detail, b.Path = detail(s)
	b.StartInferred, b.EndInferred = s.Inferred()
	s.Events(func(e runs.Event) {
		at := microseconds(e.Time) - b.Start
		switch kind, _, _ := bytes.Cut(e.Name, []byte(".")); string(kind) {
		case "text":
			b.Text = append(b.Text, at)
			b.Chunks += e.Deltas
		case "thinking":
			b.Thinking = append(b.Thinking, at)
			b.Chunks += e.Deltas
		default:
			b.Marks = append(b.Marks, Mark{at, runs.Cut(e.Name)})
		}
	})
	b.Text, b.Thinking, b.Marks = thin(b.Text), thin(b.Thinking), thin(b.Marks)
	const instant = 10 // bytes of one in an answer
	size := instant*(len(b.Text)+len(b.Thinking)+len(b.Marks)) + len(b.ID) + len(b.Name) + len(b.Title) + len(b.Detail) + len(b.Tool) + len(b.Failure) + len(b.Executable)
	for _, m := range b.Marks {
		size += len(m.Name)
	}
	return b, size
}

// hexID returns an id in hex. It cuts ids that are too long, which other senders may send.
func hexID(id []byte) string { return hex.EncodeToString(id[:min(len(id), len(traceID{}))]) }

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
func (s *Store) Overview(ctx context.Context, id traceID, since int64) (Overview, bool, error) {
	if since == 0 {
		return s.overview(ctx, id, since, maxFirst)
	}
	return s.overview(ctx, id, since, maxAnswer)
}

func (s *Store) overview(ctx context.Context, id traceID, since int64, maxSize int) (o Overview, ok bool, err error) {
	from := s.read.during(ctx)
	found, rows, err := s.sessions(from, listed+`WHERE row = `+richest, id[:])
	if to, moved := s.movedTo(id); err == nil && len(found) == 0 && moved { // the trace may have another id by now
		found, rows, err = s.sessions(from, listed+`WHERE trace = ?`, to[:])
	}
	if err != nil || len(found) == 0 {
		return o, false, err
	}
	if found[0].ID != id.String() { // numbers of another session's spans
		since = 0
	}
	answer, err := readAnswer(from, rows[0], since, maxSize, newBar)
	return Overview{found[0], answer}, true, err
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
	Start      int64       `json:"start"`
	End        int64       `json:"end"`
	Attributes []Attribute `json:"attributes"`
	Events     []Event     `json:"events"`
	Links      []Link      `json:"links"`
	Resource   []Attribute `json:"resource"`
	Scope      string      `json:"scope"`
	Dropped    uint32      `json:"dropped"` // attributes, events and links that the sender dropped
	Omitted    int         `json:"omitted"` // events that are not in this answer
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
	room := maxAnswer
	attributes := func(attrs []*commonpb.KeyValue) []Attribute {
		list := make([]Attribute, 0, len(attrs))
		for _, kv := range attrs {
			kind, v := valueText(kv.GetValue())
			list = append(list, Attribute{cutText(kv.GetKey(), room), kind, cutText(v, room)})
			room = max(0, room-len(kv.GetKey())-len(v))
		}
		return list
	}
	d := Detail{
		ID:         hexID(s.GetSpanId()),
		Trace:      hexID(s.GetTraceId()),
		Parent:     hexID(s.GetParentSpanId()),
		Name:       cutText(s.GetName(), maxStepBytes),
		Kind:       strings.ToLower(strings.TrimPrefix(s.GetKind().String(), "SPAN_KIND_")),
		Status:     strings.ToLower(strings.TrimPrefix(s.GetStatus().GetCode().String(), "STATUS_CODE_")),
		Message:    cutText(s.GetStatus().GetMessage(), maxStepBytes),
		Start:      microseconds(s.GetStartTimeUnixNano()),
		End:        microseconds(end(s.Span)),
		Attributes: attributes(s.GetAttributes()),
		Events:     []Event{},
		Links:      []Link{},
		Resource:   attributes(s.Resource.GetAttributes()),
		Scope:      cutText(strings.TrimSpace(s.Scope.GetName()+" "+s.Scope.GetVersion()), maxDetail),
		Dropped:    s.GetDroppedAttributesCount() + s.GetDroppedEventsCount() + s.GetDroppedLinksCount(),
	}
	for i, e := range s.GetEvents() {
		if i == maxDetailEvents {
			d.Omitted = len(s.GetEvents()) - i
			break
		}
		d.Events = append(d.Events, Event{cutText(e.GetName(), maxDetail), microseconds(e.GetTimeUnixNano()) - d.Start, attributes(e.GetAttributes())})
	}
	for _, l := range s.GetLinks() {
		d.Links = append(d.Links, Link{hexID(l.GetTraceId()), hexID(l.GetSpanId()), attributes(l.GetAttributes())})
	}
	return d
}

// valueText returns a value as text, and its type in OpenTelemetry's terms.
func valueText(v *commonpb.AnyValue) (kind, text string) {
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

// maxDepth is how deep a value may be nested; deeper parts are left out.
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
