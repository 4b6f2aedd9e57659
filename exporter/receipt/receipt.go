// Package receipt sums up what agents did, as one JSON document that a job can read.
//
//	runs.Span -> Recorder -> Receipt -> file
//
// The schema is testdata/schema/receipt-1.json. A field is never renamed or removed
// within a schema version.
package receipt

import (
	"encoding/json"
	"time"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/runs"
)

// SchemaVersion is the version of the schema.
const SchemaVersion = 1

// A Receipt says what the agents of a stream did, and what became of their spans.
type Receipt struct {
	SchemaVersion int    `json:"schema_version"`
	Spantee       string `json:"spantee_version"`
	ExitStatus    int    `json:"exit_status"` // as a shell reports it, before --fail-if
	Complete      bool   `json:"complete"`    // the whole stream was traced
	Totals               // of all runs
	Session       Usage  `json:"session"` // what agents state only for whole sessions; in no total
	Delivery
	UnknownTypes []UnknownType `json:"unknown_types"`
	Baseline     *Baseline     `json:"baseline,omitempty"` // of the run, if it is the only one
	RunsTotal    int           `json:"runs_total"`
	Runs         []Run         `json:"runs"` // at most maxRuns
}

// An UnknownType is a type of an agent's lines that spantee does not know.
type UnknownType struct {
	Agent   string `json:"agent"`
	Version string `json:"version"` // of the agent, "" if unknown
	Type    string `json:"type"`
	Lines   int    `json:"lines"`
}

// Delivery is what became of the spans that were sent.
type Delivery struct {
	Delivered int `json:"spans_delivered"`
	Spooled   int `json:"spans_spooled"`
	Rejected  int `json:"spans_rejected"`
	Dropped   int `json:"spans_dropped"`
}

// A Baseline says what earlier runs of the same service and agent that succeeded took and used.
// Each field is a median, or by its name the 90th percentile.
type Baseline struct {
	Runs            int      `json:"runs"`
	Seconds         float64  `json:"seconds"`
	SecondsP90      float64  `json:"seconds_p90"`
	Model           float64  `json:"model_seconds"`
	ModelP90        float64  `json:"model_seconds_p90"`
	Tool            float64  `json:"tool_seconds"`
	ToolP90         float64  `json:"tool_seconds_p90"`
	Tools           float64  `json:"tools"`
	ToolsP90        float64  `json:"tools_p90"`
	InputTokens     *float64 `json:"input_tokens"` // null, as those below, if too few runs state it
	InputTokensP90  *float64 `json:"input_tokens_p90"`
	OutputTokens    *float64 `json:"output_tokens"`
	OutputTokensP90 *float64 `json:"output_tokens_p90"`
	Cost            *float64 `json:"cost"`
	CostP90         *float64 `json:"cost_p90"`
}

// Totals are the facts that a Receipt and a Run have in common.
type Totals struct {
	Succeeded        bool `json:"succeeded"`
	EndedAfterResult bool `json:"ended_after_result"` // exec ended the agent, which stayed after its result
	Times
	Time Spent `json:"time"`
	Counts
	Usage
	CostSource string `json:"cost_source"` // stated, computed at least in part, or "" if it is unknown
}

// The values of cost_source.
const (
	CostStated   = "stated"
	CostComputed = "computed" // from tokens, by Recorder.Prices
)

// Times say when and for how long. The time in a model or in tools is the agent's own:
// that of its sub-agents is time in a tool.
type Times struct {
	Start    time.Time `json:"start,omitzero"`
	End      time.Time `json:"end,omitzero"`
	Seconds  float64   `json:"seconds"`
	Model    float64   `json:"model_seconds"`
	Tool     float64   `json:"tool_seconds"`
	Approval float64   `json:"approval_seconds"` // awaiting at least one
	Idle     float64   `json:"idle_seconds"`     // none of these
	Retry    float64   `json:"retry_seconds"`    // the delays before retries, as far as the agent states them
}

// Spent says what the time went to. The fields add up to the seconds of the runs that have times
// and a root. Of several activities at once, only the first counts, in the order of approvals,
// tools, hooks and model calls. The time of sub-agents is that of their model calls and tools.
type Spent struct {
	Waiting  float64 `json:"waiting_seconds"` // until the first output of a model call
	Output   float64 `json:"output_seconds"`  // from then until its end
	Tool     float64 `json:"tool_seconds"`
	Hook     float64 `json:"hook_seconds"`
	Approval float64 `json:"approval_seconds"`
	Own      float64 `json:"own_seconds"` // the agent's
}

// Counts are counts.
type Counts struct {
	Spans         int            `json:"spans"`
	Turns         int            `json:"turns"`
	Tools         int            `json:"tools"`
	ToolsFailed   int            `json:"tools_failed"`
	Failures      map[string]int `json:"failures"` // failed tools by error.type
	Retries       int            `json:"retries"`
	Reconnects    int            `json:"reconnects,omitempty"`
	Compactions   int            `json:"compactions,omitempty"` // of the agent's context
	Stalls        int            `json:"stalls"`
	LimitsReached []string       `json:"limits_reached"`
	Doubts        []string       `json:"doubts"` // what makes a success doubtful
	DoubtCounts   map[string]int `json:"doubt_counts"`
}

// Usage is tokens and cost.
type Usage = runs.Usage

// A Run is one run of an agent, which is one trace.
type Run struct {
	TraceID   string `json:"trace_id"`
	SessionID string `json:"session_id"`
	Agent     string `json:"agent"`
	Version   string `json:"version"`
	Model     string `json:"model"`
	ErrorType string `json:"error_type"` // "" if it succeeded
	Slowest   string `json:"slowest"`    // Time in words, with each tool; "" if unknown
	Totals
	Longest   []Share    `json:"longest"` // of Time, at most maxLongest, the longest first
	Models    []Model    `json:"models"`
	Subagents []Subagent `json:"subagents"` // at most maxSubagents

	FailedTools []FailedTool `json:"failed_tools"` // the first maxFailedTools
}

// A FailedTool is a tool call that failed. Detail and what Failure quotes are content.
type FailedTool struct {
	Tool     string `json:"tool"`
	Program  string `json:"program"` // that a shell ran, "" if unknown
	Detail   string `json:"detail"`  // the command line, path or query, if it was recorded
	Failure  string `json:"failure"` // in words
	Kind     string `json:"error_type"`
	ExitCode *int64 `json:"exit_code"` // null if unknown
	AtMillis int64  `json:"at_ms"`     // when it began, since the start of the run
}

// A Model is the usage of a model in a run, as far as the agent states it by model or by
// model call.
type Model = runs.Model

// A Share is the part of Time that went to steps of one name: of all calls of a tool, say.
type Share = runs.Share

// A Subagent is an agent that another agent called, whose steps the stream shows.
type Subagent struct {
	Agent       string  `json:"agent"`
	ErrorType   string  `json:"error_type"`
	Seconds     float64 `json:"seconds"`
	Turns       int     `json:"turns"`
	Tools       int     `json:"tools"`
	ToolsFailed int     `json:"tools_failed"`
	Usage
}

// Finish adds what is known at the end: the exit status, whether the whole stream was
// traced, and what became of the spans.
func (r *Receipt) Finish(version string, exitStatus int, complete bool, spans exporter.Report) {
	r.Spantee, r.ExitStatus, r.Complete = version, exitStatus, complete
	r.Succeeded = r.Succeeded && complete && exitStatus == 0
	r.Delivery = Delivery{Delivered: spans.Delivered, Spooled: spans.Spooled, Rejected: spans.Rejected, Dropped: spans.Dropped}
}

// WriteFile replaces a file by the receipt.
func (r *Receipt) WriteFile(name string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return ReplaceFile(name, append(b, '\n'))
}
