package runs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/mapping/semconv"
)

// A Kind is the kind of step that a span describes.
type Kind string

// The kinds of span.
const (
	Agent      Kind = "agent"
	Chat       Kind = "chat"
	Tool       Kind = "tool"
	Background Kind = "background"
	Approval   Kind = "approval"
	Hook       Kind = "hook"
	Deltas     Kind = "deltas" // events that did not fit into the chat that is its parent
	Other      Kind = ""
)

var (
	kindsByOperation = map[string]Kind{
		semconv.OperationInvokeAgent: Agent, "create_agent": Agent, "invoke_workflow": Agent,
		semconv.OperationChat: Chat, "text_completion": Chat, "generate_content": Chat,
		semconv.OperationExecuteTool: Tool,
	}
	kindsByName = map[string]Kind{
		semconv.OperationInvokeAgent: Agent, semconv.OperationChat: Chat, semconv.OperationExecuteTool: Tool,
		semconv.OperationBackground: Background, semconv.OperationApproval: Approval, semconv.OperationHook: Hook, semconv.OperationDeltas: Deltas,
	}
)

// Kind returns the kind of the span, by the operation of the GenAI conventions or else by
// the span's name.
func (s *Span) Kind() Kind {
	if kind, ok := kindsByOperation[string(s.Bytes(semconv.OperationName))]; ok {
		return kind
	}
	operation, _, _ := strings.Cut(s.Name, " ")
	return kindsByName[operation]
}

// Subject returns the name without its operation: the agent, the model, the tool or
// the query.
func (s *Span) Subject() string {
	operation, subject, found := strings.Cut(s.Name, " ")
	if _, known := kindsByName[operation]; !known || !found {
		return s.Name
	}
	return subject
}

// MayBeRoot reports whether the span may be a run's root. If TRACEPARENT was set, a
// root has a parent, in another process.
func (s *Span) MayBeRoot() bool {
	const known, remote = uint64(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK), uint64(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
	switch {
	case len(s.Parent) == 0:
		return true
	case s.flags&known != 0:
		return s.flags&remote != 0
	}
	return s.Kind() == Agent
}

// IsScript reports whether the span is a call that made other calls. Only those are counted.
func (s *Span) IsScript() bool { return s.Has(semconv.ToolCalls) }

// StatesTotals reports whether the span is the root of a run that spantee traced,
// which states the run's totals.
func (s *Span) StatesTotals() bool { return s.Has(semconv.BadLines) }

// Duration returns how long the span took.
func (s *Span) Duration() time.Duration { return time.Duration(min(s.End-s.Start, 1<<63-1)) }

// FirstChunk returns how long the user waited for the first chunk of a chat, 0 if it
// is unknown.
func (s *Span) FirstChunk() time.Duration {
	seconds := s.Number(semconv.TimeToFirstChunk)
	if 0 < seconds && seconds < float64(1<<63-1)/1e9 { // a sender may say anything
		return time.Duration(seconds * 1e9)
	}
	return 0
}

// ErrorType returns the type of a failure, "" if the span did not fail.
func (s *Span) ErrorType() string {
	kind := s.Text(semconv.ErrorType)
	if kind == "" && s.Failed {
		return semconv.ErrorOther
	}
	return kind
}

// ShortFailure says in a few words why a span failed, "" if it did not.
func (s *Span) ShortFailure() string {
	if !s.Failed {
		return ""
	}
	return cmp.Or(s.exit(), s.Text(semconv.ErrorType), s.Message, "error")
}

// Failure says why a span failed, "" if it did not.
func (s *Span) Failure() string {
	kind := s.Text(semconv.ErrorType)
	if s.Failed && s.exit() == "" && kind != "" && s.Message != "" {
		if strings.HasPrefix(s.Message, kind) {
			return s.Message
		}
		return kind + ": " + s.Message
	}
	return s.ShortFailure()
}

// exit returns the exit code of the span's process in words, "" if it is 0.
func (s *Span) exit() string {
	code := s.Int(semconv.ProcessExitCode)
	if code == 0 {
		return ""
	}
	return "exit " + strconv.FormatInt(code, 10)
}

// Outcome maps the error types of agents, of which there are many, to one name.
func Outcome(errorType string) string {
	switch errorType {
	case "":
		return "success"
	case semconv.ErrorIncomplete, semconv.ErrorInterrupted, semconv.ErrorKilled:
		return errorType
	}
	return "error"
}

// detailKeys tell what a tool call was about, the most telling first.
var detailKeys = []string{
	semconv.ProcessCommandLine, semconv.ToolPattern, semconv.ToolGlob, semconv.FilePath,
	semconv.URLFull, semconv.ToolSearch, semconv.ToolDescription,
}

// maxDetail is more than a row of a page or of a terminal can show.
const maxDetail = 512

// Detail returns what a tool call was about, on one line, and whether it is a path.
// It is empty if that was not recorded.
func (s *Span) Detail() (line string, isPath bool) {
	if s.Kind() != Tool {
		return "", false
	}
	for _, key := range detailKeys {
		if v := s.Bytes(key); len(v) > 0 {
			return oneLine(string(v[:min(len(v), 4*maxDetail)]), maxDetail), key == semconv.FilePath
		}
	}
	return "", false
}

// oneLine returns at most limit bytes of text, with spaces for line ends.
func oneLine(text string, limit int) string {
	line := strings.Join(strings.Fields(text), " ")
	return strings.ToValidUTF8(line[:min(len(line), limit)], "")
}

// firstWords returns the first words of the last message of a role, if they were recorded, in
// at most so many bytes.
func firstWords(messages []byte, role string, most int) string {
	var list []struct {
		Role  string `json:"role"`
		Parts []struct {
			Type    string `json:"type"`
			Content any    `json:"content"`
		} `json:"parts"`
	}
	if json.Unmarshal(messages, &list) != nil {
		return ""
	}
	for _, m := range slices.Backward(list) {
		var words string
		for _, p := range m.Parts {
			if text, ok := p.Content.(string); ok && p.Type == "text" && m.Role == role && len(words) < most {
				words += " " + text[:min(len(text), 4*most)]
			}
		}
		if words != "" {
			return oneLine(words, most)
		}
	}
	return ""
}

// Answer returns the first words of a model's answer, on one line, if they were recorded.
func (s *Span) Answer() string {
	return firstWords(s.Bytes(semconv.OutputMessages), "assistant", maxDetail)
}

// ToolName returns the tool of a call.
func (s *Span) ToolName() string {
	name := s.Bytes(semconv.ToolName)
	if len(name) == 0 {
		return Cut(s.Subject())
	}
	return Cut(name)
}

// Stated is what an agent's span says about all that the agent did.
type Stated struct {
	Turns, Tools, ToolErrors int64
	Repeats                  int64 // the longest repetition of one call
	ModelTime, ToolTime      time.Duration
	Again
}

// Again is what an agent did again. In JSON it is part of what a viewer tells its page.
type Again struct {
	Retries     int64 `json:"retries"` // of model requests
	Reconnects  int64 `json:"reconnects"`
	Compactions int64 `json:"compactions"`
}

// Stated returns what the span says about all that its agent did.
func (s *Span) Stated() Stated {
	seconds := func(key string) time.Duration { return time.Duration(s.Number(key) * 1e9) }
	return Stated{
		Turns: s.Int(semconv.Turns), Tools: s.Int(semconv.Tools), ToolErrors: s.Int(semconv.ToolErrors),
		Again:     Again{s.Int(semconv.Retries), s.Int(semconv.Reconnects), s.Int(semconv.Compactions)},
		Repeats:   s.Int(semconv.MaxRepeats),
		ModelTime: seconds(semconv.ModelSeconds), ToolTime: seconds(semconv.ToolSeconds),
	}
}

// maxDelay is more than an agent waits. Two of it can be added.
const maxDelay = 1e6 * time.Hour

// delay adds up the delays before retries that the span's events state. The time that passed
// until the next attempt is not known: no event says when that begins.
func (s *Span) delay() (sum time.Duration) {
	for _, event := range s.events {
		if !bytes.Contains(event, []byte(semconv.DelayMillis)) { // few have it
			continue
		}
		if e := readEvent(event); string(e.Name) == semconv.EventRetry {
			stated := min(max(0, e.Attributes().Int(semconv.DelayMillis)), maxDelay.Milliseconds())
			sum = min(sum+time.Duration(stated)*time.Millisecond, maxDelay)
		}
	}
	return sum
}

// Usage is tokens and cost, of one model call or of several, as the agent states them; what
// it does not state is 0. In JSON it is part of a receipt.
type Usage struct {
	InputTokens      int64   `json:"input_tokens"`
	OutputTokens     int64   `json:"output_tokens"`
	CacheReadTokens  int64   `json:"cache_read_tokens"`
	CacheWriteTokens int64   `json:"cache_write_tokens"`
	ReasoningTokens  int64   `json:"reasoning_tokens"`
	Cost             float64 `json:"cost"`         // USD
	TokensKnown      bool    `json:"tokens_known"` // input or output tokens are stated, even if as 0
	CostKnown        bool    `json:"cost_known"`
}

// maxUsed is more than anybody uses. Sums of less are numbers.
const maxUsed = 1e15

// usageKeys are the attributes of a usage, by the fields of Usage.
type usageKeys struct{ input, output, cacheRead, cacheWrite, reasoning, cost string }

var (
	callKeys = usageKeys{
		semconv.InputTokens, semconv.OutputTokens, semconv.CacheReadTokens, semconv.CacheWriteTokens, semconv.ReasoningTokens, semconv.UsageCost,
	}
	totalKeys = usageKeys{
		semconv.UsageInput, semconv.UsageOutput, semconv.UsageCacheRead, semconv.UsageCacheWrite, semconv.UsageReasoning, semconv.UsageTotalCost,
	}
	sessionKeys = usageKeys{
		semconv.SessionInput, semconv.SessionOutput, semconv.SessionCacheRead, semconv.SessionCacheWrite, semconv.SessionReasoning, semconv.SessionCost,
	}
)

// Usage returns what the span or event states: of a model call, or of a whole run. A root
// has names of its own for totals if its model calls state theirs; they take precedence.
func (as Attributes) Usage() Usage { return as.usage(&totalKeys, &callKeys) }

// SessionUsage returns what a root states for the whole session, which is no run's.
func (as Attributes) SessionUsage() Usage { return as.usage(&sessionKeys, &sessionKeys) }

// usage reads each count from the first attribute that the span has.
func (as Attributes) usage(first, second *usageKeys) (u Usage) {
	read := func(keys ...string) (float64, bool) {
		for _, k := range keys {
			if as.Has(k) {
				n := as.Number(k)
				if math.Abs(n) < maxUsed { // which no NaN is
					return n, true
				}
				return 0, false
			}
		}
		return 0, false
	}
	tokens := func(keys ...string) (int64, bool) {
		n, known := read(keys...)
		return int64(n), known
	}
	var input, output bool
	u.InputTokens, input = tokens(first.input, second.input)
	u.OutputTokens, output = tokens(first.output, second.output)
	u.TokensKnown = input || output
	u.CacheReadTokens, _ = tokens(first.cacheRead, second.cacheRead)
	u.CacheWriteTokens, _ = tokens(first.cacheWrite, second.cacheWrite)
	u.ReasoningTokens, _ = tokens(first.reasoning, second.reasoning)
	u.Cost, u.CostKnown = read(first.cost, second.cost)
	return u
}

// Add adds the usage of other model calls.
func (u *Usage) Add(more Usage) {
	u.InputTokens += more.InputTokens
	u.OutputTokens += more.OutputTokens
	u.CacheReadTokens += more.CacheReadTokens
	u.CacheWriteTokens += more.CacheWriteTokens
	u.ReasoningTokens += more.ReasoningTokens
	u.Cost = math.Round((u.Cost+more.Cost)*1e12) / 1e12 // as decimals add up
	u.TokensKnown = u.TokensKnown || more.TokensKnown
	u.CostKnown = u.CostKnown || more.CostKnown
}

// AtLeast returns the larger one of each count.
func (u Usage) AtLeast(other Usage) Usage {
	return Usage{
		InputTokens: max(u.InputTokens, other.InputTokens), OutputTokens: max(u.OutputTokens, other.OutputTokens),
		CacheReadTokens: max(u.CacheReadTokens, other.CacheReadTokens), CacheWriteTokens: max(u.CacheWriteTokens, other.CacheWriteTokens),
		ReasoningTokens: max(u.ReasoningTokens, other.ReasoningTokens), Cost: max(u.Cost, other.Cost),
		TokensKnown: u.TokensKnown || other.TokensKnown, CostKnown: u.CostKnown || other.CostKnown,
	}
}
