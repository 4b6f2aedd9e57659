// Package semconv defines the names of the spans, events, attributes and metrics
// that describe a run. It is the one place to look up what a query or a dashboard
// may rely on; the attributes of the resource are in package exporter/resource. It imports
// nothing.
//
// The gen_ai and mcp names follow v0.1.0 of the GenAI conventions,
// github.com/open-telemetry/semantic-conventions-genai, which are in development.
// Spans have no schema URL. Where backends still read an older name, both are
// written, and a comment on the older one says who reads it.
package semconv

// Operations. A span is named by its operation and, after a space, the agent,
// the model, the tool or the query. Nothing that a user or a model wrote is
// ever part of a span name.
const (
	OperationInvokeAgent = "invoke_agent"
	OperationChat        = "chat"
	OperationExecuteTool = "execute_tool"

	// The following are spantee's own, and no values of gen_ai.operation.name.
	OperationBackground = "background"     // what a tool call left running
	OperationApproval   = "await_approval" // the agent asked its user
	OperationHook       = "hook"           // the agent ran a program of its user's
	OperationDeltas     = "deltas"         // the events of a chat that did not fit into it
)

// Events of root spans.
const (
	EventStall = "stall"         // the stream was silent for longer than --stall-after
	EventLimit = "limit.reached" // the agent reached a limit set with exec
)

// Events of chat spans.
const (
	EventTextDelta          = "text.delta"       // a piece of the model's answer
	EventThinkingDelta      = "thinking.delta"   // a piece of its thinking
	EventTextMessage        = "text.message"     // a whole text
	EventThinkingMessage    = "thinking.message" // a whole block of thinking
	EventRetry              = "retry"
	EventError              = "error" // the agent reported an error, and may go on
	EventConnectionLost     = "connection.lost"
	EventConnectionRestored = "connection.restored"
	EventCompaction         = "compaction"
	EventRateLimit          = "rate_limit"
	EventWarning            = "warning"            // the agent's warning of something other than a failure
	EventModelUsage         = "model.usage"        // what one model used
	EventTodoList           = "todo.list"          // the agent's plan and its progress
	EventBackgroundTimeout  = "background.timeout" // of a shell
	EventTaskNotification   = "task.notification"  // a background task that no tool call in the stream started has ended
)

// GenAI conventions.
const (
	OperationName    = "gen_ai.operation.name"
	ProviderName     = "gen_ai.provider.name"
	AgentName        = "gen_ai.agent.name"
	ConversationID   = "gen_ai.conversation.id"
	Compacted        = "gen_ai.conversation.compacted"
	RequestModel     = "gen_ai.request.model"
	RequestStream    = "gen_ai.request.stream"
	ReasoningLevel   = "gen_ai.request.reasoning.level"
	ResponseModel    = "gen_ai.response.model"
	ResponseID       = "gen_ai.response.id"
	FinishReasons    = "gen_ai.response.finish_reasons"
	TimeToFirstChunk = "gen_ai.response.time_to_first_chunk" // s
	ToolName         = "gen_ai.tool.name"
	ToolCallID       = "gen_ai.tool.call.id"
	ToolType         = "gen_ai.tool.type"
	InputTokens      = "gen_ai.usage.input_tokens"
	OutputTokens     = "gen_ai.usage.output_tokens"
	CacheReadTokens  = "gen_ai.usage.cache_read.input_tokens"
	CacheWriteTokens = "gen_ai.usage.cache_write.input_tokens"
	ReasoningTokens  = "gen_ai.usage.reasoning.output_tokens"
	UsageCost        = "gen_ai.usage.cost" // USD; no convention yet (semantic-conventions-genai#443), read by Langfuse
	SkillName        = "gen_ai.skill.name"
	MCPMethodName    = "mcp.method.name"

	// With content only.
	ToolArguments  = "gen_ai.tool.call.arguments"
	ToolResult     = "gen_ai.tool.call.result"
	InputMessages  = "gen_ai.input.messages"
	OutputMessages = "gen_ai.output.messages"
	MCPResourceURI = "mcp.resource.uri"
)

// OpenTelemetry's general conventions.
const (
	SessionID          = "session.id"
	ErrorType          = "error.type"
	ProcessExitCode    = "process.exit.code"
	ProcessExecutable  = "process.executable.name"
	ProcessPID         = "process.pid"
	HTTPResponseStatus = "http.response.status_code"

	// With content only.
	ProcessWorkingDirectory = "process.working_directory"
	ProcessCommandLine      = "process.command_line"
	FilePath                = "file.path"
	FileDirectory           = "file.directory"
	URLFull                 = "url.full"
)

// Attributes that one backend needs to show a span right.
const (
	OpenInferenceKind         = "openinference.span.kind"                    // Phoenix
	LangfuseCompletionStarted = "langfuse.observation.completion_start_time" // Langfuse's time to first token
)

// KindChain is the [OpenInferenceKind] of spans without a GenAI operation:
// Phoenix and Langfuse would take them for calls of a model.
const KindChain = "CHAIN"

// Facts that only Cursor states.
const (
	CursorAPIKeySource   = "cursor.api_key_source"
	CursorPermissionMode = "cursor.permission_mode"
	CursorRequestID      = "cursor.request_id"
)

// Facts that only Claude Code states.
const (
	ClaudeAPIKeySource   = "claude.api_key_source"
	ClaudeTerminalReason = "claude.terminal_reason"
)

// CopilotPremiumRequests is a fact that only the Copilot CLI states. It may be a
// fraction.
const CopilotPremiumRequests = "copilot.premium_requests"

// spantee's own attributes of root spans.
const (
	AgentVersion        = "spantee.agent.version"        // the conventions have no version on this span
	StartupMillis       = "spantee.startup_ms"           // from the start of the agent's process, or of spantee's, to the agent's first line
	DurationReported    = "spantee.duration_reported_ms" // by the agent
	Turns               = "spantee.turns"
	Tools               = "spantee.tools"
	ToolErrors          = "spantee.tool_errors"
	Deltas              = "spantee.deltas"
	BadLines            = "spantee.bad_lines"
	UnknownLines        = "spantee.unknown_lines"
	Doubts              = "spantee.doubts"        // what makes a success doubtful
	RunningTasks        = "spantee.running_tasks" // in the background, that nobody ended
	DeniedCalls         = "spantee.denied_calls"
	EndedEarly          = "spantee.ended_early"  // true if spantee ended the run because too many were open
	CutLines            = "spantee.cut_lines"    // lines that are parts of events
	OpenCalls           = "spantee.open_calls"   // that have no end
	HiddenNames         = "spantee.hidden_names" // names replaced by _OTHER because they may be secrets
	Retries             = "spantee.retries"
	Reconnects          = "spantee.reconnects"
	Compactions         = "spantee.compactions"
	ModelSeconds        = "spantee.model_seconds" // in chat spans
	ModelMillis         = "spantee.model_ms"
	ToolSeconds         = "spantee.tool_seconds" // with at least one tool running
	ToolMillis          = "spantee.tool_ms"
	MaxRepeats          = "spantee.max_repeats"        // the most of its tool calls' ToolRepeat
	IdleMillis          = "spantee.idle_ms"            // of a stall
	Limit               = "spantee.limit"              // max-duration, max-idle, max-tools, max-tokens or max-cost
	EndedAfterResult    = "spantee.ended_after_result" // exec ended the agent, which stayed after its result
	UntracedBytes       = "spantee.untraced_bytes"     // of the stream, after tracing was abandoned
	UntracedLines       = "spantee.untraced_lines"
	UsageInput          = "spantee.usage.input_tokens" // totals, where chats have the counts
	UsageOutput         = "spantee.usage.output_tokens"
	UsageCacheRead      = "spantee.usage.cache_read_tokens"
	UsageCacheWrite     = "spantee.usage.cache_write_tokens"
	UsageReasoning      = "spantee.usage.reasoning_tokens"
	UsageTotalCost      = "spantee.usage.cost" // USD
	UsageCacheWriteHour = "spantee.usage.cache_write_1h_tokens"
	UsageWebSearches    = "spantee.usage.web_searches"
	SessionInput        = "spantee.session.usage.input_tokens" // of a whole session, where the agent states no run's
	SessionOutput       = "spantee.session.usage.output_tokens"
	SessionCacheRead    = "spantee.session.usage.cache_read_tokens"
	SessionCacheWrite   = "spantee.session.usage.cache_write_tokens"
	SessionReasoning    = "spantee.session.usage.reasoning_tokens"
	SessionCost         = "spantee.session.usage.cost" // USD
	Stderr              = "spantee.stderr"             // the end of it, with content only
	APIMillis           = "spantee.api_ms"             // of its model calls together, by the agent
	PermissionMode      = "spantee.permission_mode"
	PermissionDenials   = "spantee.permission_denials"
	SessionLog          = "spantee.session_log" // the model and the settings are from the agent's session log
)

// Values of Doubts. Each is a fact of the stream.
const (
	DoubtBackground    = "background_running"
	DoubtDenied        = "denied"
	DoubtEmptyAnswer   = "empty_answer"
	DoubtEndsOnTool    = "ends_on_tool"
	DoubtCommandFailed = "last_command_failed"
	DoubtBadLines      = "bad_lines"
	DoubtNoEnd         = "no_end"
	DoubtNoWork        = "no_work"
	DoubtOpenCalls     = "open_calls"
	DoubtUnknownLines  = "unknown_lines"
)

// spantee's own attributes of any span.
const (
	TimeStart     = "spantee.time.start"     // how its start is known: stated, printed or inferred
	TimeEnd       = "spantee.time.end"       // how its end is known
	TimeEstimated = "spantee.time.estimated" // its start or end was inferred: see moment in package mapping
	StartMissing  = "spantee.start_missing"  // the stream has an end without a start, or the run that began was evicted
	Truncated     = "spantee.truncated_bytes"
	TurnNumber    = "spantee.turn" // from 1
)

// spantee's own attributes of chat spans and their events.
const (
	FirstChunkMillis = "spantee.first_chunk_ms"
	TextDeltas       = "spantee.text.deltas"
	TextBytes        = "spantee.text.bytes"
	ThinkingDeltas   = "spantee.thinking.deltas"
	ThinkingBytes    = "spantee.thinking.bytes"
	DeltaIndex       = "spantee.delta.index"
	DeltaBytes       = "spantee.delta.bytes"
	DeltaCount       = "spantee.delta.count" // of the deltas an event stands for, if more than one
	DeltaText        = "spantee.delta.text"  // with content only
	Attempt          = "spantee.attempt"
	AttemptMillis    = "spantee.attempt_ms"      // from the last retry to the first chunk
	RetryResumes     = "spantee.retry.is_resume" // true if the agent continues the answer that broke off
	MaxAttempts      = "spantee.max_attempts"
	DelayMillis      = "spantee.delay_ms"
	Reason           = "spantee.reason" // by kind
	TokensBefore     = "spantee.tokens_before"
	TokensAfter      = "spantee.tokens_after"
	CacheWriteHour   = "spantee.cache_write_1h_tokens" // of CacheWriteTokens, those for an hour: they cost more
	WebSearches      = "spantee.web_searches"          // by the model's API: they cost extra
	RateLimitStatus  = "spantee.rate_limit.status"
	RateLimitType    = "spantee.rate_limit.type"
	RateLimitResets  = "spantee.rate_limit.resets_at" // s since 1970
	HookEvent        = "spantee.hook.event"
	HookOutcome      = "spantee.hook.outcome"

	// With content only.
	Message   = "spantee.message"    // of a notice
	TodoItems = "spantee.todo.items" // JSON
)

// spantee's own attributes of tool calls.
const (
	ToolIsBackground   = "spantee.tool.is_background"
	ToolDuration       = "spantee.tool.duration_ms"       // by the agent's own clock, waits included
	ToolExecutionTime  = "spantee.tool.execution_time_ms" // as the tool reports it
	ToolLocalTime      = "spantee.tool.local_time_ms"     // without hooks and approvals
	ToolTimeout        = "spantee.tool.timeout_ms"
	ToolSignal         = "spantee.tool.signal"
	ToolAborted        = "spantee.tool.aborted"
	ToolArgumentBytes  = "spantee.tool.argument_bytes"
	ToolResultBytes    = "spantee.tool.result_bytes"
	ToolStdoutBytes    = "spantee.tool.stdout_bytes"
	ToolStderrBytes    = "spantee.tool.stderr_bytes"
	ToolContentBytes   = "spantee.tool.content_bytes"
	ToolLinesAdded     = "spantee.tool.lines_added"
	ToolLinesRemoved   = "spantee.tool.lines_removed"
	ToolLinesCreated   = "spantee.tool.lines_created"
	ToolTotalLines     = "spantee.tool.total_lines"
	ToolFileSize       = "spantee.tool.file_size"
	ToolTotalFiles     = "spantee.tool.total_files"
	ToolTotalCount     = "spantee.tool.total_count"
	ToolTotalMatches   = "spantee.tool.total_matches"
	ToolDiagnostics    = "spantee.tool.total_diagnostics"
	ToolTruncated      = "spantee.tool.truncated"      // by the tool itself
	ToolLimitExceeded  = "spantee.tool.limit_exceeded" // a file was too long to read whole
	ToolTodosPending   = "spantee.tool.todos_pending"
	ToolTodosRunning   = "spantee.tool.todos_in_progress"
	ToolTodosCompleted = "spantee.tool.todos_completed"
	ToolCalls          = "spantee.tool.calls"      // how many calls a script made, which is in no count of tool calls itself
	ToolRepeat         = "spantee.tool.repeat"     // how many times in a row the agent made this call, or the round of calls that it completes
	ToolHooks          = "spantee.tool.hooks"      // names of hooks that added context
	ToolHookBytes      = "spantee.tool.hook_bytes" // of that context
	SubagentType       = "spantee.subagent.type"
	SubagentModel      = "spantee.subagent.model"
	SubagentID         = "spantee.subagent.id"
	SubagentTokens     = "spantee.subagent.tokens"

	// With content only.
	ToolPattern     = "spantee.tool.pattern"
	ToolGlob        = "spantee.tool.glob"
	ToolSearch      = "spantee.tool.search"
	ToolDescription = "spantee.tool.description"
	MCPServer       = "spantee.mcp.server"
)

// spantee's own attributes of background work and approvals.
const (
	TaskID       = "spantee.task.id"
	TaskStatus   = "spantee.task.status"
	QueryType    = "spantee.query.type"
	QueryOutcome = "spantee.query.outcome"

	// With content only.
	TaskTitle      = "spantee.task.title"
	TaskDetail     = "spantee.task.detail"
	QueryArguments = "spantee.query.arguments"
	QueryResponse  = "spantee.query.response"
)

// Values of error.type that spantee itself gives.
const (
	ErrorOutcomeUnknown = "outcome_unknown" // the result does not say whether the run succeeded
	ErrorIncomplete     = "incomplete"      // the stream ended first
	ErrorInterrupted    = "interrupted"     // a signal ended spantee first, or tracing stopped early
	ErrorKilled         = "killed"          // spantee was killed first
	ErrorToolNotFound   = "tool_not_found"  // the model called a tool that does not exist
	ErrorTool           = "tool_error"      // MCP's isError, as its conventions have it
	ErrorOther          = "_OTHER"
)
