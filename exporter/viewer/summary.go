package viewer

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spantee/spantee/exporter/runs"
)

// A Session is a trace as the page lists it.
type Session struct {
	ID           string  `json:"id"`
	Name         string  `json:"name"` // of the root span
	Service      string  `json:"service"`
	Agent        string  `json:"agent"`
	Model        string  `json:"model"`
	Conversation string  `json:"conversation"`
	Prompt       string  `json:"prompt"` // its first words, if content was recorded
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
	Ended        bool    `json:"ended"`   // its root has arrived
	Failure      string  `json:"failure"` // the root's, if it failed
	LastReceived int64   `json:"came"`    // when its last span arrived, in microseconds since 1970
	Now          *Now    `json:"now,omitempty"`
	Found        *Found  `json:"found,omitempty"` // where a search found its words
}

func (t *trace) session() Session {
	r := t.full()
	u := r.Usage()
	open, gone := t.openSpans()
	return Session{
		ID: t.id.String(), Name: r.Name, Service: t.service, Agent: r.Agent, Model: r.Model,
		Conversation: r.Conversation, Prompt: r.Prompt, Folder: r.Folder,
		Start: microseconds(r.Start), End: microseconds(r.End),
		Spans: r.Spans, Errors: r.Failed, Turns: r.Turns, Tools: r.Tools, ToolErrors: r.ToolErrors,
		FirstChunk: r.FirstChunk.Microseconds(), Input: u.Input, Output: u.Output, Cached: u.CacheRead, Cost: u.Cost,
		Ended: r.Rooted && !slices.ContainsFunc(open, (*runs.Span).MayBeRoot), Failure: r.Failure, LastReceived: t.updated.UnixMicro(),
		Now: now(open, gone, t.closed().End),
	}
}

// size returns how many bytes of text a session has.
func (s *Session) size() int {
	return len(s.ID) + len(s.Name) + len(s.Service) + len(s.Agent) + len(s.Model) + len(s.Conversation) + len(s.Prompt) + len(s.Folder) + len(s.Failure)
}

// add adds a span that ended to the run.
func (t *trace) add(s *runs.Span, from origin) {
	if isRoot := t.run.Add(s); isRoot || t.service == "" {
		t.service = serviceOf(from.resource)
	}
	t.count()
}

// count updates the trace's size after its run has changed.
func (t *trace) count() {
	size := t.run.Size() + len(t.service)
	t.size += size - t.runSize
	t.runSize = size
}

// closed returns the run of the spans that ended.
func (t *trace) closed() *runs.Run {
	if !t.stale {
		return &t.run
	}
	run := new(runs.Run)
	for _, sp := range t.spans {
		run.Add(sp.read())
	}
	return run
}

// full returns the run including the open spans. Turns and tools in progress count.
func (t *trace) full() *runs.Run {
	if t.live != nil {
		return t.live
	}
	closed := t.closed()
	if len(t.open) == 0 {
		return closed
	}
	run := closed.Clone()
	for _, sp := range t.open {
		run.Add(sp.read())
	}
	return run
}

// who returns the agent, or the service if there is none.
func (t *trace) who() string { return cmp.Or(t.full().Agent, t.service) }

// mentions reports whether the run contains lower, a lower-case text.
func (t *trace) mentions(lower string) bool {
	r := t.full()
	has := func(text string) bool { return strings.Contains(strings.ToLower(text), lower) }
	return slices.ContainsFunc([]string{r.Agent, r.Model, r.Name, t.service, r.Conversation, r.Failure, r.Prompt, r.Folder}, has) ||
		slices.ContainsFunc(r.Called, func(used runs.ToolUse) bool { return has(used.Name) })
}

// refresh recomputes what is stale.
func (s *Store) refresh() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for t := range s.stale {
		size := t.size
		t.run, t.stale = *t.closed(), false
		t.count()
		s.size += t.size - size
		if len(t.open) > 0 {
			t.live = t.full()
		}
	}
	clear(s.stale)
}

// Session returns a trace as the page lists it.
func (s *Store) Session(id traceID) (Session, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	t := s.traces[id]
	if t == nil {
		return Session{}, false
	}
	return t.session(), true
}
