package viewer

import (
	"strings"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// The attributes that decide how a span is listed and drawn. The mapping
// writes them, other senders of the GenAI conventions most; none has to be there.
const (
	keyService      = "service.name"
	keyOperation    = "gen_ai.operation.name"
	keyAgent        = "gen_ai.agent.name"
	keyConversation = "gen_ai.conversation.id"
	keyModel        = "gen_ai.request.model"
	keyTool         = "gen_ai.tool.name"
	keyInput        = "gen_ai.usage.input_tokens"
	keyOutput       = "gen_ai.usage.output_tokens"
	keyFirstChunk   = "gen_ai.response.time_to_first_chunk" // seconds
	keyErrorType    = "error.type"
	keyExitCode     = "process.exit.code"
	keyExecutable   = "process.executable.name"
	keyContinues    = "spantee.continues"
	keyEstimated    = "spantee.time.estimated"
)

// What a span is the record of.
const (
	opAgent      = "agent"
	opChat       = "chat"
	opTool       = "tool"
	opBackground = "background"
	opApproval   = "approval"
	opOther      = ""
)

// operation tells what a span is the record of: by the GenAI conventions, or
// by the names that spantee gives where these have none.
func operation(s *tracepb.Span) string {
	switch text(s.GetAttributes(), keyOperation) {
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
	}
	return opOther
}

func failed(s *tracepb.Span) bool {
	return s.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR
}

// end is never before the start, whatever the sender's clock did.
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

// microseconds since 1970 are whole numbers that JSON and JavaScript keep.
func microseconds(nanos uint64) int64 { return int64(nanos / 1000) }
