package viewer

import (
	"encoding/json"
	"slices"
	"strings"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/mapping/semconv"
)

const keyService = "service.name"

// detailKeys tell what a tool call was about, the most telling first. The text
// tree reads the same ones in the same order.
var detailKeys = []string{semconv.ProcessCommandLine, semconv.ToolPattern, semconv.ToolGlob, semconv.FilePath, semconv.URLFull, semconv.ToolSearch, semconv.ToolDescription}

// The kinds of span.
const (
	opAgent      = "agent"
	opChat       = "chat"
	opTool       = "tool"
	opBackground = "background"
	opApproval   = "approval"
	opDeltas     = "deltas" // events of the chat span that is its parent
	opOther      = ""
)

// operation returns the kind of a span: by the GenAI conventions, or by the names
// that spantee uses where the conventions have none.
func operation(s *tracepb.Span) string {
	switch text(s.GetAttributes(), semconv.OperationName) {
	case "invoke_agent", "create_agent", "invoke_workflow":
		return opAgent
	case "chat", "text_completion", "generate_content":
		return opChat
	case "execute_tool":
		return opTool
	}
	switch name, _, _ := strings.Cut(s.GetName(), " "); name {
	case "background":
		return opBackground
	case "await_approval":
		return opApproval
	case "deltas":
		return opDeltas
	}
	return opOther
}

func failed(s *tracepb.Span) bool {
	return s.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR
}

// end returns the end of a span, which is never before its start, whatever the
// sender's clock did.
func end(s *tracepb.Span) uint64 { return max(s.GetStartTimeUnixNano(), s.GetEndTimeUnixNano()) }

func value(attrs []*commonpb.KeyValue, key string) *commonpb.AnyValue {
	for _, kv := range attrs {
		if kv.GetKey() == key {
			return kv.GetValue()
		}
	}
	return nil
}

func text(attrs []*commonpb.KeyValue, key string) string { return value(attrs, key).GetStringValue() }

// microseconds converts an instant: JSON and JavaScript hold microseconds since
// 1970 exactly.
func microseconds(nanos uint64) int64 { return int64(nanos / 1000) }

// number reads an int or a double.
func number(v *commonpb.AnyValue) float64 {
	if d, ok := v.GetValue().(*commonpb.AnyValue_DoubleValue); ok {
		return d.DoubleValue
	}
	return float64(v.GetIntValue())
}

// firstOf returns the first of the attributes that is there, as a number.
func firstOf(attrs []*commonpb.KeyValue, keys ...string) float64 {
	for _, key := range keys {
		if v := value(attrs, key); v != nil {
			return number(v)
		}
	}
	return 0
}

// detail returns what a tool call was about, on one line, and whether it is a path.
func detail(s *tracepb.Span) (line string, path bool) {
	if operation(s) != opTool {
		return "", false
	}
	for _, key := range detailKeys {
		if v := text(s.GetAttributes(), key); v != "" {
			return cutText(strings.Join(strings.Fields(v), " "), maxDetail), key == semconv.FilePath
		}
	}
	return "", false
}

// maxDetail is more than a row of the page can show.
const maxDetail = 300

// cutText shortens s to about limit bytes, with a mark where it was cut.
func cutText(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

// title returns a span's name without the operation, which the page shows as a
// color.
func title(s *tracepb.Span) string {
	for _, op := range []string{"invoke_agent ", "chat ", "execute_tool ", "background ", "await_approval "} {
		if rest, ok := strings.CutPrefix(s.GetName(), op); ok {
			return rest
		}
	}
	return s.GetName()
}

// preview returns the first words of a prompt: the last user message in
// gen_ai.input.messages.
func preview(messages string) string {
	var list []struct {
		Role  string `json:"role"`
		Parts []struct {
			Type    string `json:"type"`
			Content any    `json:"content"`
		} `json:"parts"`
	}
	if json.Unmarshal([]byte(messages), &list) != nil {
		return ""
	}
	for _, m := range slices.Backward(list) {
		for _, p := range m.Parts {
			if words, ok := p.Content.(string); ok && p.Type == "text" && m.Role == "user" {
				return cutText(strings.Join(strings.Fields(cutText(words, 4*maxDetail)), " "), maxDetail)
			}
		}
	}
	return ""
}
