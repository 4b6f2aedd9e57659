package viewer

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Jaeger's query API, as far as Grafana's Jaeger data source uses it. It is
// described only by the source of Jaeger's own page, internal/uimodel/model.go.

type jaegerAnswer struct {
	Data   any           `json:"data"`
	Total  int           `json:"total"`
	Limit  int           `json:"limit"`
	Offset int           `json:"offset"`
	Errors []jaegerError `json:"errors"`
}

type jaegerError struct {
	Code    int    `json:"code"`
	Message string `json:"msg"`
}

type jaegerTrace struct {
	TraceID   string                   `json:"traceID"`
	Spans     []jaegerSpan             `json:"spans"`
	Processes map[string]jaegerProcess `json:"processes"`
	Warnings  []string                 `json:"warnings"`
}

type jaegerSpan struct {
	TraceID       string            `json:"traceID"`
	SpanID        string            `json:"spanID"`
	OperationName string            `json:"operationName"`
	References    []jaegerReference `json:"references"`
	StartTime     int64             `json:"startTime"` // microseconds
	Duration      int64             `json:"duration"`
	Tags          []jaegerTag       `json:"tags"`
	Logs          []jaegerLog       `json:"logs"`
	ProcessID     string            `json:"processID"`
	Warnings      []string          `json:"warnings"`
	Flags         int               `json:"flags"`
}

type jaegerReference struct {
	RefType string `json:"refType"`
	TraceID string `json:"traceID"`
	SpanID  string `json:"spanID"`
}

type jaegerTag struct {
	Key   string `json:"key"`
	Type  string `json:"type"`
	Value any    `json:"value"`
}

type jaegerLog struct {
	Timestamp int64       `json:"timestamp"`
	Fields    []jaegerTag `json:"fields"`
}

type jaegerProcess struct {
	ServiceName string      `json:"serviceName"`
	Tags        []jaegerTag `json:"tags"`
}

// newJaegerTrace returns as many spans as there is room for, in bytes, and takes them
// from it.
func newJaegerTrace(id traceID, spans []Span, room *int) jaegerTrace {
	t := jaegerTrace{TraceID: id.String(), Spans: []jaegerSpan{}, Processes: make(map[string]jaegerProcess)}
	processes := make(map[origin]string) // ids
	for _, s := range spans {
		p, ok := processes[s.origin]
		if !ok {
			*room -= len(s.origin.wire)
		}
		if *room -= proto.Size(s.Span) + spanOverhead; *room < 0 {
			t.Warnings = append(t.Warnings, "the trace is too large to be shown whole")
			break
		}
		if !ok {
			p = "p" + strconv.Itoa(len(processes)+1)
			processes[s.origin] = p
			t.Processes[p] = jaegerProcess{serviceName(s), jaegerTags(s.Resource.GetAttributes())}
		}
		t.Spans = append(t.Spans, newJaegerSpan(id, s, p))
	}
	return t
}

func newJaegerSpan(id traceID, s Span, process string) jaegerSpan {
	j := jaegerSpan{
		TraceID:       id.String(),
		SpanID:        hex.EncodeToString(s.GetSpanId()),
		OperationName: s.GetName(),
		References:    []jaegerReference{},
		StartTime:     microseconds(s.GetStartTimeUnixNano()),
		Duration:      microseconds(end(s.Span)) - microseconds(s.GetStartTimeUnixNano()),
		Tags:          jaegerTags(s.GetAttributes()),
		Logs:          []jaegerLog{},
		ProcessID:     process,
		Flags:         1,
	}
	if parent := s.GetParentSpanId(); len(parent) > 0 {
		j.References = append(j.References, jaegerReference{"CHILD_OF", id.String(), hex.EncodeToString(parent)})
	}
	for _, l := range s.GetLinks() {
		j.References = append(j.References, jaegerReference{"FOLLOWS_FROM", hex.EncodeToString(l.GetTraceId()), hex.EncodeToString(l.GetSpanId())})
	}
	if kind := s.GetKind(); kind != tracepb.Span_SPAN_KIND_UNSPECIFIED {
		j.Tags = append(j.Tags, jaegerTag{"span.kind", "string", strings.ToLower(strings.TrimPrefix(kind.String(), "SPAN_KIND_"))})
	}
	switch s.GetStatus().GetCode() {
	case tracepb.Status_STATUS_CODE_OK:
		j.Tags = append(j.Tags, jaegerTag{"otel.status_code", "string", "OK"})
	case tracepb.Status_STATUS_CODE_ERROR:
		j.Tags = append(j.Tags, jaegerTag{"otel.status_code", "string", "ERROR"}, jaegerTag{"error", "bool", true})
		if message := s.GetStatus().GetMessage(); message != "" {
			j.Tags = append(j.Tags, jaegerTag{"otel.status_description", "string", message})
		}
	}
	if name := s.Scope.GetName(); name != "" {
		j.Tags = append(j.Tags, jaegerTag{"otel.scope.name", "string", name})
	}
	for _, e := range s.GetEvents() {
		fields := append([]jaegerTag{{"event", "string", e.GetName()}}, jaegerTags(e.GetAttributes())...)
		j.Logs = append(j.Logs, jaegerLog{microseconds(e.GetTimeUnixNano()), fields})
	}
	return j
}

func jaegerTags(attrs []*commonpb.KeyValue) []jaegerTag {
	tags := make([]jaegerTag, 0, len(attrs))
	for _, kv := range attrs {
		tag := jaegerTag{Key: kv.GetKey(), Type: "string"}
		switch v := kv.GetValue().GetValue().(type) {
		case *commonpb.AnyValue_BoolValue:
			tag.Type, tag.Value = "bool", v.BoolValue
		case *commonpb.AnyValue_IntValue:
			tag.Type, tag.Value = "int64", v.IntValue
		case *commonpb.AnyValue_DoubleValue:
			tag.Type, tag.Value = "float64", plain(kv.GetValue(), 0)
		default:
			_, tag.Value = written(kv.GetValue())
		}
		tags = append(tags, tag)
	}
	return tags
}

// serviceName returns the name of a span's service, or the conventions' name for a
// service without one.
func serviceName(s Span) string {
	return cmp.Or(cutText(text(s.Resource.GetAttributes(), keyService), maxDetail), unknownService)
}

// unknownService is the conventions' name for a service without one.
const unknownService = "unknown_service"

// services returns the names of services that sent spans.
func (s *Store) services() ([]string, error) {
	return all[string](s.read, `SELECT DISTINCT name FROM service ORDER BY name LIMIT ?`, maxListed)
}

// search calls found with the traces that began between from and to, the latest
// first, until found returns false. If service is not empty, only traces with spans
// of that service count.
func (s *Store) search(service string, from, to int64, found func(traceID, []Span) bool) error {
	candidates, err := all[traceID](s.read, `SELECT trace FROM session WHERE spans > 0 AND started >= ?1 AND (?2 = 0 OR started <= ?2)
		AND (?3 = '' OR row IN (SELECT session FROM service WHERE name = ?3)) ORDER BY started DESC, trace`, from, to, service)
	for _, id := range candidates {
		if err != nil {
			return err
		}
		var spans []Span
		if spans, _, err = s.Spans(id, 0); err == nil && len(spans) > 0 && !found(id, spans) {
			return nil
		}
	}
	return err
}

func (v *server) jaegerServices(w http.ResponseWriter, _ *http.Request) {
	services, err := v.store.services()
	answerJaeger(w, services, len(services), err)
}

func (v *server) jaegerOperations(w http.ResponseWriter, r *http.Request) {
	operations := make(map[string]bool)
	err := v.store.search(r.PathValue("service"), 0, 0, func(_ traceID, spans []Span) bool {
		for _, s := range spans {
			if serviceName(s) == r.PathValue("service") {
				operations[cutText(s.GetName(), maxDetail)] = true
			}
		}
		return len(operations) < maxListed
	})
	list := slices.Sorted(maps.Keys(operations))
	list = list[:min(len(list), maxListed)]
	answerJaeger(w, list, len(list), err)
}

func (v *server) jaegerTrace(w http.ResponseWriter, r *http.Request) {
	id, ok := parseTraceID(r.PathValue("id"))
	spans, _, err := v.store.Spans(id, 0)
	if err == nil && (!ok || len(spans) == 0) {
		writeJSON(w, http.StatusNotFound, jaegerAnswer{Errors: []jaegerError{{http.StatusNotFound, "trace not found"}}})
		return
	}
	room := maxAnswer
	answerJaeger(w, []jaegerTrace{newJaegerTrace(id, spans, &room)}, 1, err)
}

func (v *server) jaegerSearch(w http.ResponseWriter, r *http.Request) {
	q, err := parseJaegerQuery(r)
	if err != nil {
		writeJSON(w, http.StatusBadRequest, jaegerAnswer{Errors: []jaegerError{{http.StatusBadRequest, err.Error()}}})
		return
	}
	found, room := []jaegerTrace{}, maxAnswer
	err = v.store.search(q.service, q.from, q.to, func(id traceID, spans []Span) bool {
		if slices.ContainsFunc(spans, q.matches) {
			found = append(found, newJaegerTrace(id, spans, &room))
		}
		return len(found) < q.limit && room > 0
	})
	answerJaeger(w, found, len(found), err)
}

func answerJaeger(w http.ResponseWriter, data any, total int, err error) {
	if err != nil {
		writeJSON(w, http.StatusInternalServerError, jaegerAnswer{Errors: []jaegerError{{http.StatusInternalServerError, err.Error()}}})
		return
	}
	writeJSON(w, http.StatusOK, jaegerAnswer{Data: data, Total: total})
}

// A jaegerQuery finds traces with a span that meets all conditions.
type jaegerQuery struct {
	service, operation string
	tags               map[string]string
	from, to           int64 // microseconds; to is zero for no end
	min, max           time.Duration
	limit              int
}

func parseJaegerQuery(r *http.Request) (q jaegerQuery, err error) {
	form := r.URL.Query()
	q.service, q.operation, q.limit = form.Get("service"), form.Get("operation"), 20
	fail := func(e error) {
		if err == nil {
			err = e
		}
	}
	number := func(name string) int {
		if form.Get(name) == "" {
			return 0
		}
		n, e := strconv.Atoi(form.Get(name))
		fail(e)
		return max(0, n)
	}
	duration := func(name string) time.Duration {
		if form.Get(name) == "" {
			return 0
		}
		d, e := time.ParseDuration(form.Get(name))
		fail(e)
		return d
	}
	q.from, q.to = int64(number("start")), int64(number("end"))
	q.min, q.max = duration("minDuration"), duration("maxDuration")
	q.limit = min(cmp.Or(number("limit"), q.limit), maxListed)
	if tags := form.Get("tags"); tags != "" {
		fail(json.Unmarshal([]byte(tags), &q.tags))
	}
	return q, err
}

func (q jaegerQuery) matches(s Span) bool {
	d := time.Duration(end(s.Span) - s.GetStartTimeUnixNano())
	switch {
	case q.service != "" && serviceName(s) != q.service,
		q.operation != "" && s.GetName() != q.operation,
		d < q.min, q.max > 0 && d > q.max:
		return false
	}
	for key, want := range q.tags {
		if key == "error" && want == strconv.FormatBool(s.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR) {
			continue
		}
		v := value(s.GetAttributes(), key)
		if v == nil {
			v = value(s.Resource.GetAttributes(), key)
		}
		if _, got := written(v); v == nil || got != want {
			return false
		}
	}
	return true
}
