package mapping

// Every span name and attribute key stands here, so that what a dashboard may
// rely on can be read in one place.

// Span names are one of these and, after a space, the agent, the model, the
// tool or the query. Nothing a user or a model wrote is ever part of a name.
const (
	opInvokeAgent = "invoke_agent"
	opChat        = "chat"
	opExecuteTool = "execute_tool"
	opBackground  = "background"
	opApproval    = "await_approval"
)

// Event names, on chat spans.
const (
	eventTextDelta       = "text.delta"
	eventThinkingDelta   = "thinking.delta"
	eventTextMessage     = "text.message"
	eventThinkingMessage = "thinking.message"
)

// The GenAI conventions as of November 2026, from
// github.com/open-telemetry/semantic-conventions-genai. Go's semconv package
// has not carried them since v1.42.0.
const (
	keyOperation      = "gen_ai.operation.name"
	keyProvider       = "gen_ai.provider.name"
	keyAgent          = "gen_ai.agent.name"
	keyConversation   = "gen_ai.conversation.id"
	keyRequestModel   = "gen_ai.request.model"
	keyResponseID     = "gen_ai.response.id"
	keyFirstChunk     = "gen_ai.response.time_to_first_chunk" // seconds
	keyToolName       = "gen_ai.tool.name"
	keyToolCallID     = "gen_ai.tool.call.id"
	keyToolType       = "gen_ai.tool.type"
	keyInputTokens    = "gen_ai.usage.input_tokens"
	keyOutputTokens   = "gen_ai.usage.output_tokens"
	keyCacheRead      = "gen_ai.usage.cache_read.input_tokens"
	keyCacheCreation  = "gen_ai.usage.cache_creation.input_tokens"
	keyToolArguments  = "gen_ai.tool.call.arguments" // this and what follows: with content only
	keyToolResult     = "gen_ai.tool.call.result"
	keyInputMessages  = "gen_ai.input.messages"
	keyOutputMessages = "gen_ai.output.messages"
	keyResourceURI    = "mcp.resource.uri"
)

// OpenTelemetry's general conventions.
const (
	keySession          = "session.id"
	keyErrorType        = "error.type"
	keyExitCode         = "process.exit.code"
	keyExecutable       = "process.executable.name"
	keyPID              = "process.pid"
	keyHTTPStatusCode   = "http.response.status_code"
	keyWorkingDirectory = "process.working_directory" // this and what follows: with content only
	keyCommandLine      = "process.command_line"
	keyFilePath         = "file.path"
	keyFileDirectory    = "file.directory"
	keyURL              = "url.full"
)

// What only Cursor knows.
const (
	keyAPIKeySource   = "cursor.api_key_source"
	keyPermissionMode = "cursor.permission_mode"
	keyRequestID      = "cursor.request_id"
	keyTaskID         = "cursor.task.id"
	keyTaskStatus     = "cursor.task.status"
	keyQueryType      = "cursor.query.type"
	keyQueryOutcome   = "cursor.query.outcome"
	keyExecutionTime  = "cursor.tool.execution_time_ms"
	keyToolDuration   = "cursor.tool.duration_ms"
	keyToolTimeout    = "cursor.tool.timeout_ms"
	keyLinesAdded     = "cursor.tool.lines_added"
	keyLinesRemoved   = "cursor.tool.lines_removed"
	keyLinesCreated   = "cursor.tool.lines_created"
	keyTotalLines     = "cursor.tool.total_lines"
	keyFileSize       = "cursor.tool.file_size"
	keyTotalFiles     = "cursor.tool.total_files"
	keyTotalCount     = "cursor.tool.total_count"
	keyDiagnostics    = "cursor.tool.total_diagnostics"
	keyPattern        = "cursor.tool.pattern" // this and what follows: with content only
	keyGlob           = "cursor.tool.glob"
	keySearch         = "cursor.tool.search"
	keyDescription    = "cursor.tool.description"
	keyMCPServer      = "cursor.mcp.server"
	keyQueryArguments = "cursor.query.arguments"
	keyQueryResponse  = "cursor.query.response"
	keyTaskTitle      = "cursor.task.title"
	keyTaskDetail     = "cursor.task.detail"
)

// What spantee found out.
const (
	keyDurationReported = "spantee.duration_reported_ms"
	keyTimeEstimated    = "spantee.time.estimated"
	keyStartMissing     = "spantee.start_missing"
	keyStderr           = "spantee.stderr"    // the end of it, with content only
	keyContinues        = "spantee.continues" // the span id of a turn's first span
	keyTurns            = "spantee.turns"
	keyTools            = "spantee.tools"
	keyToolErrors       = "spantee.tool_errors"
	keyDeltas           = "spantee.deltas"
	keyBadLines         = "spantee.bad_lines"
	keyModelSeconds     = "spantee.model_seconds" // in chat spans
	keyToolSeconds      = "spantee.tool_seconds"  // with a tool running, however many
	keyTextDeltas       = "spantee.text.deltas"
	keyTextBytes        = "spantee.text.bytes"
	keyThinkingDeltas   = "spantee.thinking.deltas"
	keyThinkingBytes    = "spantee.thinking.bytes"
	keyIsBackground     = "spantee.tool.is_background"
	keyArgumentBytes    = "spantee.tool.argument_bytes"
	keyResultBytes      = "spantee.tool.result_bytes"
	keyStdoutBytes      = "spantee.tool.stdout_bytes"
	keyStderrBytes      = "spantee.tool.stderr_bytes"
	keyContentBytes     = "spantee.tool.content_bytes"
	keyDeltaIndex       = "spantee.delta.index"
	keyDeltaBytes       = "spantee.delta.bytes"
	keyDeltaCount       = "spantee.delta.count" // of the deltas an event stands for, where it is not one
	keyDeltaText        = "spantee.delta.text"  // with content only
	keyTruncated        = "spantee.truncated_bytes"
)

// detailKeys are the arguments of any tool that tell what a call is about.
var detailKeys = map[string]string{
	"path":               keyFilePath,
	"filePath":           keyFilePath,
	"targetDirectory":    keyFileDirectory,
	"workingDirectory":   keyWorkingDirectory,
	"command":            keyCommandLine,
	"pattern":            keyPattern,
	"globPattern":        keyGlob,
	"glob":               keyGlob,
	"query":              keySearch,
	"searchTerm":         keySearch,
	"url":                keyURL,
	"uri":                keyResourceURI,
	"server":             keyMCPServer,
	"serverIdentifier":   keyMCPServer,
	"providerIdentifier": keyMCPServer,
	"description":        keyDescription,
}

// Values of error.type that spantee itself gives.
const (
	errIncomplete  = "incomplete"  // the stream ended first
	errInterrupted = "interrupted" // a signal ended spantee first, or tracing stopped early
	errToolError   = "tool_error"  // MCP's isError, as its conventions have it
	errKilled      = "killed"      // spantee was killed first
	errOther       = "_OTHER"
)
