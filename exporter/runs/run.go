// Package runs reads what an agent did out of the spans of its run. It is the one
// place that interprets the spans' attributes: the text tree, the viewer, the limits of
// exec and the metrics use it.
//
//	wire bytes -> Span (facts of one step) -> Run (facts of all steps)
//
// Spans of other senders are read too, as far as they follow the GenAI conventions.
package runs

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/spantee/spantee/mapping/semconv"
)

// A Run is what the spans of a trace say about an agent's run. Spans may be added in
// any order, and at any time. What the root states takes precedence.
type Run struct {
	Identity
	Counts
	Start, End uint64 // of its spans, in nanoseconds since 1970
	Rooted     bool   // the root was added
	ErrorType  string // of the root; "" if it did not fail
	Failure    string // the root's failure in a few words
	Stated     Stated
	Failures   map[string]int // of tool calls, by error type
	Doubts     []Doubt        // what makes its success doubtful, as the root states it
	ToolNames  []string       // in the order of the first calls
	Calls      []Call         // at most maxCalls
	FirstChunk time.Duration  // of the first chat that has one; 0 if unknown
	RetryDelay time.Duration  // before retries, as far as the agent states it

	total, calls Usage  // as the root states it, and the sum of the chats
	rootStart    uint64 // in nanoseconds
	rootsEnd     uint64 // of the last root
	modelStart   uint64 // of the span that names the model
	modelOfRoot  bool
	estimated    bool   // the times of the root
	firstChat    uint64 // when the chat of FirstChunk began
	first        struct {
		start   uint64
		command bool
	} // the step of Identity.First
}

// Identity says whose run it is. In JSON it is part of what a viewer tells its page, as
// are Counts.
type Identity struct {
	Name         string `json:"name"` // of the root span
	Agent        string `json:"agent"`
	Model        string `json:"model"`
	Conversation string `json:"conversation"`
	Prompt       string `json:"prompt"` // its first words
	First        string `json:"first"`  // of a run without a prompt: "$ " and its first command, or "answer: " and its first answer
	Folder       string `json:"folder"` // where the agent works
}

// Counts are the counts of a run's spans.
type Counts struct {
	Spans      int `json:"spans"`
	Turns      int `json:"turns"`
	Tools      int `json:"tools"`
	ToolErrors int `json:"toolErrors"`
}

// A Call is one call of a tool.
type Call struct {
	Tool   int32 // an index of Run.ToolNames
	Failed bool
	Took   time.Duration
}

// Limits of what is kept of one run, whatever its spans say.
const (
	maxText     = 300  // bytes of a string
	maxPrompt   = 2000 // bytes of a prompt: those of a job may differ only at their end
	maxTools    = 100  // further tools are semconv.ErrorOther
	maxFailures = 100
	maxCalls    = 5000
)

// Add adds a span. It reports whether the span is the root, as far as is known.
func (r *Run) Add(s *Span) (isRoot bool) {
	if r.Spans == 0 || s.Start < r.Start {
		r.Start = s.Start
	}
	r.End = max(r.End, s.End)
	r.Spans++
	r.RetryDelay = min(r.RetryDelay+s.delay(), maxDelay)

	if s.MayBeRoot() {
		r.rootsEnd = max(r.rootsEnd, s.End)
	}
	// Of several agents the outermost began first.
	isRoot = s.MayBeRoot() && (!r.Rooted || s.Start < r.rootStart || s.Start == r.rootStart && len(s.Parent) == 0)
	if isRoot {
		r.addRoot(s)
	}
	set := func(to *string, key string) {
		if v := s.Bytes(key); len(v) > 0 && (*to == "" || isRoot) {
			*to = Cut(v)
		}
	}
	set(&r.Agent, semconv.AgentName)
	if isRoot || r.Model == "" || s.Start < r.modelStart { // the root's, or else the first one
		if v := s.Bytes(semconv.RequestModel); len(v) > 0 && (isRoot || !r.modelOfRoot) {
			r.Model, r.modelStart, r.modelOfRoot = Cut(v), s.Start, isRoot
		}
	}
	set(&r.Conversation, semconv.ConversationID)
	set(&r.Folder, semconv.ProcessWorkingDirectory)
	kind := s.Kind()
	if isRoot || r.Prompt == "" && kind == Chat { // the root's prompt replaces that of a sub-agent, which ended earlier
		r.Prompt = cutTo(firstWords(s.Bytes(semconv.InputMessages), "user", 2*maxPrompt), maxPrompt)
	}
	r.addFirst(s, kind)
	switch kind {
	case Chat:
		r.addChat(s)
	case Tool:
		if !s.IsScript() {
			r.addTool(s)
		}
	}
	return isRoot
}

func (r *Run) addRoot(s *Span) {
	r.Rooted, r.rootStart = true, s.Start
	r.Name, r.ErrorType, r.Failure = Cut(s.Name), Cut(s.ErrorType()), Cut(s.ShortFailure())
	r.Doubts = s.Doubts()
	r.total, r.Stated, r.estimated = s.Usage(), s.Stated(), s.Bool(semconv.TimeEstimated)
}

// Timeless reports whether only the order of the steps is known, as in a recording of an
// agent that prints no times. Their spans are a few microseconds apart.
func (r *Run) Timeless() bool {
	return r.End-r.Start < uint64(timeless(r.Spans)) && (r.Spans > 2 || r.estimated)
}

// timeless returns what a run of this many spans takes at least if it has times.
func timeless(spans int) time.Duration {
	return max(time.Millisecond, time.Duration(spans)*10*time.Microsecond)
}

// addFirst looks for what tells a run without a prompt from others: a command rather than
// an answer.
func (r *Run) addFirst(s *Span, kind Kind) {
	if r.Prompt != "" {
		r.First = ""
		return
	}
	command := kind == Tool
	earlier := r.First == "" || command && !r.first.command || command == r.first.command && s.Start < r.first.start
	if kind != Tool && kind != Chat || !earlier {
		return
	}
	mark, first := "answer: ", ""
	if command {
		mark, first = "$ ", oneLine(s.Text(semconv.ProcessCommandLine), maxText)
	} else {
		first = s.Answer()
	}
	if first != "" {
		r.First = Cut(mark + first)
		r.first.start, r.first.command = s.Start, command
	}
}

// Size returns how many bytes the Run takes at most, or little more.
func (r *Run) Size() int {
	const otherTexts = 8 // of the Run and its Identity
	return maxPrompt + (otherTexts+len(r.ToolNames)+len(r.Failures))*maxText + cap(r.Calls)*int(unsafe.Sizeof(Call{}))
}

func (r *Run) addChat(s *Span) {
	r.Turns++
	r.calls.Add(s.Usage())
	if first := s.FirstChunk(); first > 0 && (r.FirstChunk == 0 || s.Start < r.firstChat) {
		r.FirstChunk, r.firstChat = first, s.Start
	}
}

func (r *Run) addTool(s *Span) {
	r.Tools++
	if s.Failed {
		r.ToolErrors++
		r.addFailure(Cut(s.ErrorType()))
	}
	if len(r.Calls) < maxCalls {
		r.Calls = append(r.Calls, Call{r.tool(s), s.Failed, s.Duration()})
	}
}

func (r *Run) addFailure(kind string) {
	if r.Failures == nil {
		r.Failures = make(map[string]int)
	}
	if _, known := r.Failures[kind]; !known && len(r.Failures) >= maxFailures {
		kind = semconv.ErrorOther
	}
	r.Failures[kind]++
}

// Cut returns the beginning of a text that is too long for a list.
func Cut[T string | []byte](text T) string { return cutTo(text, maxText) }

func cutTo[T string | []byte](text T, most int) string {
	if len(text) <= most {
		return string(text)
	}
	return strings.ToValidUTF8(string(text[:most]), "") + "…"
}

// tool returns the index of the span's tool in r.ToolNames.
func (r *Run) tool(s *Span) int32 {
	name := s.ToolName()
	i := slices.Index(r.ToolNames, name)
	if i < 0 && len(r.ToolNames) >= maxTools-1 {
		name = semconv.ErrorOther
		i = slices.Index(r.ToolNames, name)
	}
	if i < 0 {
		i = len(r.ToolNames)
		r.ToolNames = append(r.ToolNames, name)
	}
	return int32(i)
}

// Ended returns when the run ended: with its last root, if there is one. Background work may end later.
func (r *Run) Ended() uint64 { return cmp.Or(r.rootsEnd, r.End) }

// Failed reports whether something failed: the run or a tool. Whatever else fails, such as a hook
// or a model call, is not an error of the run.
func (r *Run) Failed() bool { return r.Failure != "" || r.ToolErrors > 0 }

// Usage returns the usage of the run, preferably as the root states it.
func (r *Run) Usage() Usage {
	u := r.total
	if u.InputTokens == 0 && u.OutputTokens == 0 && r.calls.TokensKnown {
		u = r.calls
		u.Cost, u.CostKnown = r.total.Cost, r.total.CostKnown
	}
	if u.Cost == 0 && r.calls.CostKnown {
		u.Cost, u.CostKnown = r.calls.Cost, true
	}
	return u
}

// StatedUsage returns what the root states, and the sum of what model calls state, also those
// of sub-agents that went on after the run.
func (r *Run) StatedUsage() (root, calls Usage) { return r.total, r.calls }

// Clone returns a copy to which spans can be added.
func (r *Run) Clone() *Run {
	c := *r
	c.Failures, c.ToolNames, c.Calls = maps.Clone(r.Failures), slices.Clip(r.ToolNames), slices.Clip(r.Calls)
	return &c
}

// Latest returns the step that an agent is working on: the open span that started last, or an
// approval, because the agent waits for it whatever else is open. It returns the agent's own span
// only between steps, and nil if nothing is open.
func Latest(open []*Span) (latest *Span) {
	worth := map[Kind]int{Agent: -1, Approval: 1}
	for _, s := range open {
		if s.Kind() == Deltas {
			continue
		}
		if latest == nil || cmp.Or(cmp.Compare(worth[s.Kind()], worth[latest.Kind()]), cmp.Compare(s.Start, latest.Start)) >= 0 {
			latest = s
		}
	}
	return latest
}
