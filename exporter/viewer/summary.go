package viewer

import (
	"cmp"
	"slices"
	"strings"
	"unique"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// A summary is what the list of sessions shows of a trace. It grows with every
// span, as there may be a hundred thousand traces to search.
type summary struct {
	start, end                       uint64
	service, agent, model, name      word
	conversation, failure            word
	toolNames                        []word
	spans, errors, tools, toolErrors int
	input, output                    int64 // tokens, as the root has them
	chatInput, chatOutput            int64 // as the chat spans have them
	root                             rootRank
}

// A word is a string kept once, however many traces have it.
type word = unique.Handle[string]

// A rootRank says how sure it is that the root has come: a root of ours has a
// parent elsewhere when TRACEPARENT was set.
type rootRank int

const (
	noRoot rootRank = iota
	agentRoot
	trueRoot
)

// maxToolNames bounds what a trace of many tools takes.
const maxToolNames = 32

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
			m.failure = unique.Make(cmp.Or(text(attrs, keyErrorType), s.GetStatus().GetMessage(), "error"))
		}
		m.input, m.output = value(attrs, keyInput).GetIntValue(), value(attrs, keyOutput).GetIntValue()
	}
	m.set(&m.agent, text(attrs, keyAgent), better)
	m.set(&m.model, text(attrs, keyModel), better)
	m.set(&m.conversation, text(attrs, keyConversation), better)
	if m.service == (word{}) || better {
		m.service = serviceOf(from.resource)
	}

	switch op {
	case opChat:
		m.chatInput += value(attrs, keyInput).GetIntValue()
		m.chatOutput += value(attrs, keyOutput).GetIntValue()
	case opTool:
		m.tools++
		if failed(s) {
			m.toolErrors++
		}
		tool := unique.Make(text(attrs, keyTool))
		if len(m.toolNames) < maxToolNames && !slices.Contains(m.toolNames, tool) {
			m.toolNames = append(m.toolNames, tool)
		}
	}
}

// set prefers what the root says.
func (m *summary) set(w *word, v string, better bool) {
	if v != "" && (*w == (word{}) || better) {
		*w = unique.Make(v)
	}
}

func get(w word) string {
	if w == (word{}) {
		return ""
	}
	return w.Value()
}

// A Session is a trace as the page lists it.
type Session struct {
	ID           string `json:"id"`
	Name         string `json:"name"` // of the root span
	Service      string `json:"service"`
	Agent        string `json:"agent"`
	Model        string `json:"model"`
	Conversation string `json:"conversation"`
	Start        int64  `json:"start"` // microseconds since 1970
	End          int64  `json:"end"`
	Spans        int    `json:"spans"`
	Errors       int    `json:"errors"`
	Tools        int    `json:"tools"`
	ToolErrors   int    `json:"toolErrors"`
	Input        int64  `json:"input"`
	Output       int64  `json:"output"`
	Ended        bool   `json:"ended"`   // its root has come
	Failure      string `json:"failure"` // the root's, if it failed
	Came         int64  `json:"came"`    // when the last span did, in microseconds
}

func (t *trace) session() Session {
	m := t.upToDate()
	input, output := m.input, m.output
	if input == 0 && output == 0 {
		input, output = m.chatInput, m.chatOutput
	}
	return Session{
		ID: t.id.String(), Name: get(m.name), Service: get(m.service), Agent: get(m.agent), Model: get(m.model),
		Conversation: get(m.conversation), Start: microseconds(m.start), End: microseconds(m.end),
		Spans: m.spans, Errors: m.errors, Tools: m.tools, ToolErrors: m.toolErrors,
		Input: input, Output: output, Ended: m.root != noRoot, Failure: get(m.failure), Came: t.came.UnixMicro(),
	}
}

// upToDate makes the summary anew if a span was replaced.
func (t *trace) upToDate() *summary {
	if !t.stale {
		return &t.summary
	}
	var m summary
	for i, sp := range decodeAll(t.spans, t.origins) {
		m.add(sp.Span, t.origins[t.spans[i].origin])
	}
	return &m
}

// A Query says which sessions to list.
type Query struct {
	Words        []string // all of which must occur, in lower case
	Failed       bool     // only where something failed
	Agent, Model string
	Limit        int
}

// A List is the answer to a Query: the latest sessions, how many more there
// are, and among which agents and models one can choose.
type List struct {
	Sessions []Session `json:"sessions"`
	Matching int       `json:"matching"`
	Total    int       `json:"total"`
	Spans    int       `json:"spans"` // of all
	Agents   []string  `json:"agents"`
	Models   []string  `json:"models"`
	Lost     Lost      `json:"lost"`
	Bytes    int       `json:"bytes"`
	Limit    int       `json:"limit"`
}

// List answers a Query.
func (s *Store) List(q Query) List {
	s.refresh()
	s.mu.RLock()
	defer s.mu.RUnlock()

	l := List{Sessions: []Session{}, Total: len(s.traces), Lost: s.gaveUp, Bytes: s.size, Limit: s.limit}
	var latest []*trace // in order, never more than asked for
	agents, models := make(map[word]bool), make(map[word]bool)
	for _, t := range s.traces {
		m := &t.summary
		l.Spans += m.spans
		agents[m.who()], models[m.model] = true, true
		if !q.matches(t, m) {
			continue
		}
		l.Matching++
		if i, _ := slices.BinarySearchFunc(latest, t, byStart); i < q.Limit {
			latest = slices.Insert(latest, i, t)
			latest = latest[:min(len(latest), q.Limit)]
		}
	}
	for _, t := range latest {
		l.Sessions = append(l.Sessions, t.session())
	}
	l.Agents, l.Models = sortedWords(agents), sortedWords(models)
	return l
}

// refresh makes all summaries true.
func (s *Store) refresh() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.stale {
		t.summary, t.stale = *t.upToDate(), false
	}
	s.stale = nil
}

// byStart has the latest first; ids decide last, so that it is always the same.
func byStart(a, b *trace) int {
	return cmp.Or(cmp.Compare(b.summary.start, a.summary.start), slices.Compare(a.id[:], b.id[:]))
}

// who is the agent, and where there is none the service.
func (m *summary) who() word {
	if m.agent != (word{}) {
		return m.agent
	}
	return m.service
}

func (q Query) matches(t *trace, m *summary) bool {
	if q.Failed && m.errors == 0 || q.Agent != "" && get(m.who()) != q.Agent || q.Model != "" && get(m.model) != q.Model {
		return false
	}
	for _, w := range q.Words {
		if !m.mentions(w) && !strings.HasPrefix(t.id.String(), w) {
			return false
		}
	}
	return true
}

func (m *summary) mentions(lower string) bool {
	has := func(w word) bool { return strings.Contains(strings.ToLower(get(w)), lower) }
	return has(m.agent) || has(m.model) || has(m.name) || has(m.service) || has(m.conversation) || has(m.failure) ||
		slices.ContainsFunc(m.toolNames, has)
}

func sortedWords(set map[word]bool) []string {
	words := []string{}
	for w := range set {
		if v := get(w); v != "" {
			words = append(words, v)
		}
	}
	slices.Sort(words)
	return words[:min(len(words), maxListed)]
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
