package semconv

// Metrics of the GenAI conventions, at the same commit as the attributes.
const (
	MetricInvokeAgentDuration = "gen_ai.invoke_agent.duration"                  // s
	MetricInvokeAgentCalls    = "gen_ai.invoke_agent.inference_calls"           // {inference_call}
	MetricInvokeAgentTools    = "gen_ai.invoke_agent.tool_calls"                // {tool_call}
	MetricToolDuration        = "gen_ai.execute_tool.duration"                  // s
	MetricInferenceDuration   = "gen_ai.client.inference.duration"              // s
	MetricTimeToFirstChunk    = "gen_ai.client.inference.time_to_first_chunk"   // s
	MetricTimePerChunk        = "gen_ai.client.inference.time_per_output_chunk" // s
	MetricInputTokens         = "gen_ai.client.inference.usage.input_tokens"    // {token}
	MetricOutputTokens        = "gen_ai.client.inference.usage.output_tokens"   // {token}
	MetricCacheReadTokens     = "gen_ai.client.inference.usage.cache_read.input_tokens"
	MetricCacheWriteTokens    = "gen_ai.client.inference.usage.cache_write.input_tokens"
	MetricReasoningTokens     = "gen_ai.client.inference.usage.reasoning.output_tokens"
	MetricCallInputTokens     = "gen_ai.client.inference.operation.input_tokens"  // of one call
	MetricCallOutputTokens    = "gen_ai.client.inference.operation.output_tokens" // of one call
	MetricMCPDuration         = "mcp.client.operation.duration"                   // s
)

// spantee's own metrics.
const (
	MetricRuns           = "spantee.run.count"       // {run}
	MetricActiveRuns     = "spantee.run.active"      // {run}
	MetricIdle           = "spantee.run.idle"        // s since the last byte, while a run is open
	MetricActiveTools    = "spantee.tool.active"     // {tool_call}
	MetricRepeats        = "spantee.tool.repeats"    // {tool_call}, the most of a run
	MetricCost           = "spantee.cost"            // USD
	MetricRetries        = "spantee.retries"         // {retry}
	MetricStalls         = "spantee.stalls"          // {stall}
	MetricLinesAdded     = "spantee.lines.added"     // {line}
	MetricLinesRemoved   = "spantee.lines.removed"   // {line}
	MetricSpansDelivered = "spantee.spans.delivered" // {span}
	MetricSpansSpooled   = "spantee.spans.spooled"   // {span}
	MetricSpansDropped   = "spantee.spans.dropped"   // {span}
)

// Attributes of metrics alone.
const (
	TokenModality = "gen_ai.token.modality"
	CostSource    = "gen_ai.usage.cost.source" // provider: as the stream states it
	Outcome       = "spantee.outcome"          // of a run: success, error, or an Error* of spantee's own
)
