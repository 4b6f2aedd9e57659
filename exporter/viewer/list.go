package viewer

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
)

// A Query says which sessions to list.
type Query struct {
	Words        []string // all of which must occur, in lower case
	Failed       bool     // only where something failed
	Agent, Model string
	Sort         string // a column; the latest first if empty
	Ascending    bool
	Limit        int
}

// A List is the answer to a Query: the latest sessions, how many more there are,
// and the agents and models to choose from.
type List struct {
	Sessions []Session `json:"sessions"`
	Matching int       `json:"matching"`
	Total    int       `json:"total"`
	Spans    int       `json:"spans"` // of all
	Agents   []string  `json:"agents"`
	Models   []string  `json:"models"`
	Evicted  Lost      `json:"evicted"`
	Bytes    int       `json:"bytes"`
	Limit    int       `json:"limit"`
}

// Found is the first match of a search in the content of a session.
type Found struct {
	Span string `json:"span"`
	Name string `json:"name"`
	Text string `json:"text"`
}

// maxFound bounds how many sessions of a List have a Found.
const maxFound = 100

// List answers a Query.
func (s *Store) List(q Query) List {
	s.refresh()
	s.mu.RLock()
	defer s.mu.RUnlock()

	l := List{Sessions: []Session{}, Total: len(s.traces), Evicted: s.evicted, Bytes: s.size, Limit: s.limit}
	var matching []*trace
	agents, models := make(map[word]bool), make(map[word]bool)
	for _, t := range s.traces {
		m := t.full()
		l.Spans += m.spans
		agents[m.who()], models[m.model] = true, true
		if q.matches(t, m) {
			matching = append(matching, t)
		}
	}
	l.Matching = len(matching)
	slices.SortFunc(matching, q.order())
	for i, t := range matching[:min(len(matching), q.Limit)] {
		session := t.session()
		if i < maxFound {
			session.Found = t.whereIs(q.Words)
		}
		l.Sessions = append(l.Sessions, session)
	}
	l.Agents, l.Models = sortedWords(agents), sortedWords(models)
	return l
}

// columns are the values that a list can be sorted by.
var columns = map[string]func(*summary) float64{
	"started":  func(m *summary) float64 { return float64(m.start) },
	"duration": func(m *summary) float64 { return float64(m.end - m.start) },
	"tools":    func(m *summary) float64 { return float64(m.tools) },
	"errors":   func(m *summary) float64 { return float64(m.errors) },
	"input":    func(m *summary) float64 { return m.usage().input },
	"output":   func(m *summary) float64 { return m.usage().output },
	"cost":     func(m *summary) float64 { return m.usage().cost },
}

func (q Query) order() func(a, b *trace) int {
	column := columns[q.Sort]
	if column == nil {
		column = columns["started"]
	}
	return func(a, b *trace) int {
		way := cmp.Compare(column(b.full()), column(a.full()))
		if q.Ascending {
			way = -way
		}
		return cmp.Or(way, byStart(a, b))
	}
}

// byStart orders traces, the latest first. Ids decide last, so that the order is
// stable.
func byStart(a, b *trace) int {
	return cmp.Or(cmp.Compare(b.full().start, a.full().start), slices.Compare(a.id[:], b.id[:]))
}

func (q Query) matches(t *trace, m *summary) bool {
	if q.Failed && m.errors == 0 || q.Agent != "" && get(m.who()) != q.Agent || q.Model != "" && get(m.model) != q.Model {
		return false
	}
	for _, w := range q.Words {
		if !m.mentions(w) && !strings.HasPrefix(t.id.String(), w) && !t.contains(w) {
			return false
		}
	}
	return true
}

// contains searches all text of the spans. It searches the encoded spans, because
// protobuf does not change text.
func (t *trace) contains(lower string) bool {
	for i := range t.spans {
		if containsFold(t.spans[i].wire, lower) {
			return true
		}
	}
	for _, sp := range t.open {
		if containsFold(sp.wire, lower) {
			return true
		}
	}
	return false
}

// containsFold reports whether text contains lower, ignoring the case of ASCII
// letters.
func containsFold(text []byte, lower string) bool {
	if lower == "" {
		return true
	}
	first, upper := lower[0], lower[0]
	if 'a' <= first && first <= 'z' {
		upper -= 'a' - 'A'
	}
	for len(text) >= len(lower) {
		i := bytes.IndexByte(text, first)
		if upper != first {
			within := text
			if i >= 0 {
				within = text[:i]
			}
			if j := bytes.IndexByte(within, upper); j >= 0 {
				i = j
			}
		}
		if i < 0 || len(text)-i < len(lower) {
			return false
		}
		if equalFold(text[i:i+len(lower)], lower) {
			return true
		}
		text = text[i+1:]
	}
	return false
}

func equalFold(text []byte, lower string) bool {
	for i := range len(lower) {
		c := text[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// whereIs returns the first span whose content has one of the words.
func (t *trace) whereIs(words []string) *Found {
	for i := range t.spans {
		for _, w := range words {
			if !containsFold(t.spans[i].wire, w) {
				continue
			}
			s := decodeAll(t.spans[i:i+1], t.origins)[0]
			for _, at := range texts(s) {
				if excerpt, ok := around(at, w); ok {
					return &Found{newBar(s).ID, s.GetName(), excerpt}
				}
			}
		}
	}
	return nil
}

// texts returns the strings of a span that a person may have searched for.
func texts(s Span) (list []string) {
	for _, kv := range s.GetAttributes() {
		list = append(list, kv.GetValue().GetStringValue())
	}
	for _, e := range s.GetEvents() {
		for _, kv := range e.GetAttributes() {
			list = append(list, kv.GetValue().GetStringValue())
		}
	}
	return append(list, s.GetStatus().GetMessage())
}

// escapedSpace unescapes white space and quotes in JSON, which most content is.
var escapedSpace = strings.NewReplacer(`\n`, " ", `\t`, " ", `\"`, `"`)

// around returns the text around a match of lower, and whether there is one.
func around(text, lower string) (string, bool) {
	const before, after = 40, 100
	i := strings.Index(strings.ToLower(text), lower)
	if i < 0 || i > len(text) {
		return "", false
	}
	from, to := max(0, i-before), min(len(text), i+len(lower)+after)
	excerpt := escapedSpace.Replace(strings.ToValidUTF8(text[from:to], ""))
	return strings.Join(strings.Fields(excerpt), " "), true
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
