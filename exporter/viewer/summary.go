package viewer

import (
	"cmp"
	"slices"
	"strings"
	"unique"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/mapping/semconv"
)

// A summary is what the list of sessions shows of a trace. Every span updates it,
// because there may be a hundred thousand traces to search.
type summary struct {
	start, end                            uint64
	service, agent, model, name           word
	conversation, failure, prompt, folder word
	toolNames                             []word
	calls                                 []call
	spans, errors, tools, toolErrors      int
	turns                                 int
	firstChunk                            uint64 // of the first chat, in nanoseconds
	firstChat                             uint64 // when that began
	total, chats                          usage  // as the root has it, and the sum of the chats
	root                                  rootRank
}

// usage is the tokens and cost of a model call, or of several.
type usage struct{ input, output, cached, cost float64 }

func newUsage(s *tracepb.Span) usage {
	a := s.GetAttributes()
	return usage{
		firstOf(a, semconv.InputTokens, semconv.UsageInput), firstOf(a, semconv.OutputTokens, semconv.UsageOutput),
		firstOf(a, semconv.CacheReadTokens, semconv.UsageCacheRead), firstOf(a, semconv.UsageCost, semconv.UsageTotalCost),
	}
}

func (u *usage) add(v usage) {
	u.input, u.output, u.cached, u.cost = u.input+v.input, u.output+v.output, u.cached+v.cached, u.cost+v.cost
}

// A call is how long a tool ran.
type call struct {
	tool   word
	micros int64
	failed bool
}

// A word is a string kept once, however many traces have it.
type word = unique.Handle[string]

// A rootRank says how likely a span is the root: if TRACEPARENT was set, spantee's
// root has a parent elsewhere.
type rootRank int

const (
	noRoot rootRank = iota
	agentRoot
	trueRoot
)

// How much a trace with many tools may add to its summary.
const (
	maxToolNames = 32
	maxCalls     = 5000
)

func (m *summary) add(s *tracepb.Span, from origin) {
	attrs := s.GetAttributes()
	if m.spans == 0 || s.GetStartTimeUnixNano() < m.start {
		m.start = s.GetStartTimeUnixNano()
	}
	m.end = max(m.end, end(s))
	m.spans++
	if failed(s) {
		m.errors++
	}

	op := operation(s)
	rank := noRoot
	switch {
	case len(s.GetParentSpanId()) == 0:
		rank = trueRoot
	case op == opAgent:
		rank = agentRoot
	}
	// Of several agents the outermost began first.
	better := rank > m.root || rank == m.root && rank != noRoot && s.GetStartTimeUnixNano() <= m.start
	if better {
		m.root = rank
		m.name = unique.Make(s.GetName())
		m.failure = word{}
		if failed(s) {
			m.failure = unique.Make(cmp.Or(exitFailure(s), text(attrs, semconv.ErrorType), s.GetStatus().GetMessage(), "error"))
		}
		m.total = newUsage(s)
	}
	m.set(&m.agent, text(attrs, semconv.AgentName), better)
	m.set(&m.model, text(attrs, semconv.RequestModel), better)
	m.set(&m.conversation, text(attrs, semconv.ConversationID), better)
	m.set(&m.folder, text(attrs, semconv.ProcessWorkingDirectory), better)
	switch {
	case better: // replaces the prompt of a sub-agent that ended before
		m.prompt = unique.Make(preview(text(attrs, semconv.InputMessages)))
	case get(m.prompt) == "" && op == opChat:
		m.set(&m.prompt, preview(text(attrs, semconv.InputMessages)), false)
	}
	if m.service == (word{}) || better {
		m.service = serviceOf(from.resource)
	}
	switch op {
	case opChat:
		m.addChat(s)
	case opTool:
		m.addTool(s)
	}
}

func (m *summary) addChat(s *tracepb.Span) {
	m.turns++
	m.chats.add(newUsage(s))
	first := number(value(s.GetAttributes(), semconv.TimeToFirstChunk))
	if first > 0 && (m.firstChunk == 0 || s.GetStartTimeUnixNano() < m.firstChat) {
		m.firstChunk, m.firstChat = uint64(first*1e9), s.GetStartTimeUnixNano()
	}
}

func (m *summary) addTool(s *tracepb.Span) {
	m.tools++
	if failed(s) {
		m.toolErrors++
	}
	tool := unique.Make(cmp.Or(text(s.GetAttributes(), semconv.ToolName), title(s)))
	if len(m.toolNames) < maxToolNames && !slices.Contains(m.toolNames, tool) {
		m.toolNames = append(m.toolNames, tool)
	}
	if len(m.calls) < maxCalls {
		m.calls = append(m.calls, call{tool, microseconds(end(s)) - microseconds(s.GetStartTimeUnixNano()), failed(s)})
	}
}

// set sets w to v if w is empty or better is set, because the root takes
// precedence.
func (m *summary) set(w *word, v string, better bool) {
	if v != "" && (get(*w) == "" || better) {
		*w = unique.Make(v)
	}
}

func get(w word) string {
	if w == (word{}) {
		return ""
	}
	return w.Value()
}

// usage returns the usage of the session, preferably as the root states it.
func (m *summary) usage() usage {
	u := m.total
	if u.input == 0 && u.output == 0 {
		u.input, u.output, u.cached = m.chats.input, m.chats.output, m.chats.cached
	}
	u.cost = cmp.Or(u.cost, m.chats.cost)
	return u
}

// who returns the agent, or the service if there is none.
func (m *summary) who() word {
	if m.agent != (word{}) {
		return m.agent
	}
	return m.service
}

// mentions reports whether the summary contains lower, a lower-case text.
func (m *summary) mentions(lower string) bool {
	has := func(w word) bool { return strings.Contains(strings.ToLower(get(w)), lower) }
	return has(m.agent) || has(m.model) || has(m.name) || has(m.service) || has(m.conversation) || has(m.failure) ||
		has(m.prompt) || has(m.folder) || slices.ContainsFunc(m.toolNames, has)
}

// A Session is a trace as the page lists it.
type Session struct {
	ID           string  `json:"id"`
	Name         string  `json:"name"` // of the root span
	Service      string  `json:"service"`
	Agent        string  `json:"agent"`
	Model        string  `json:"model"`
	Conversation string  `json:"conversation"`
	Prompt       string  `json:"prompt"` // its first words, if content is there
	Folder       string  `json:"folder"`
	Start        int64   `json:"start"` // microseconds since 1970
	End          int64   `json:"end"`
	Spans        int     `json:"spans"`
	Errors       int     `json:"errors"`
	Turns        int     `json:"turns"`
	Tools        int     `json:"tools"`
	ToolErrors   int     `json:"toolErrors"`
	FirstChunk   int64   `json:"firstChunk"` // microseconds
	Input        int64   `json:"input"`
	Output       int64   `json:"output"`
	Cached       int64   `json:"cached"`
	Cost         float64 `json:"cost"`    // US dollars
	Ended        bool    `json:"ended"`   // its root has come
	Failure      string  `json:"failure"` // the root's, if it failed
	LastReceived int64   `json:"came"`    // when its last span came, in microseconds
	Now          *Now    `json:"now,omitempty"`
	Found        *Found  `json:"found,omitempty"` // where a search found its words
}

func (t *trace) session() Session {
	m := t.full()
	u := m.usage()
	open, gone := t.openSpans()
	return Session{
		ID: t.id.String(), Name: get(m.name), Service: get(m.service), Agent: get(m.agent), Model: get(m.model),
		Conversation: get(m.conversation), Prompt: get(m.prompt), Folder: get(m.folder),
		Start: microseconds(m.start), End: microseconds(m.end),
		Spans: m.spans, Errors: m.errors, Turns: m.turns, Tools: m.tools, ToolErrors: m.toolErrors,
		FirstChunk: microseconds(m.firstChunk), Input: int64(u.input), Output: int64(u.output), Cached: int64(u.cached), Cost: u.cost,
		Ended: m.root != noRoot && !t.rootOpen(open), Failure: get(m.failure), LastReceived: t.came.UnixMicro(),
		Now: t.now(open, gone, t.closed().end),
	}
}

// rootOpen reports whether the root is among the open spans.
func (t *trace) rootOpen(open []Span) bool {
	return slices.ContainsFunc(open, func(s Span) bool {
		return len(s.GetParentSpanId()) == 0 || operation(s.Span) == opAgent
	})
}

// closed returns the summary of the spans that ended.
func (t *trace) closed() *summary {
	if !t.stale {
		return &t.summary
	}
	var m summary
	for _, sp := range t.spans {
		m.add(decodeAll([]stored{sp}, t.origins)[0].Span, t.origins[sp.origin])
	}
	return &m
}

// full returns the summary including the open spans. Turns and tools in progress
// count, but have no length yet.
func (t *trace) full() *summary {
	if t.live != nil {
		return t.live
	}
	closed := t.closed()
	if len(t.open) == 0 {
		return closed
	}
	m := *closed
	m.toolNames, m.calls = slices.Clip(m.toolNames), slices.Clip(m.calls)
	for _, sp := range t.open {
		m.add(decodeAll([]stored{sp.stored}, t.origins)[0].Span, t.origins[sp.origin])
	}
	m.calls = closed.calls
	return &m
}

// refresh recomputes stale summaries.
func (s *Store) refresh() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for t := range s.stale {
		t.summary, t.stale = *t.closed(), false
		if len(t.open) > 0 {
			t.live = t.full()
		}
	}
	clear(s.stale)
}

// Session returns what is known of a trace.
func (s *Store) Session(id traceID) (Session, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	t := s.traces[id]
	if t == nil {
		return Session{}, false
	}
	return t.session(), true
}
