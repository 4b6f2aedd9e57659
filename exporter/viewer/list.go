package viewer

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/spantee/spantee/exporter/runs"
)

// A Query says which sessions to list.
type Query struct {
	Words        []string // in lower case; all of them must occur
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
	agents, models := make(map[string]bool), make(map[string]bool)
	for _, t := range s.traces {
		r := t.full()
		l.Spans += r.Spans
		agents[t.who()], models[r.Model] = true, true
		if q.matches(t) {
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
	l.Agents, l.Models = names(agents), names(models)
	return l
}

// columns are the values that a list can be sorted by.
var columns = map[string]func(*runs.Run) float64{
	"started":  func(r *runs.Run) float64 { return float64(r.Start) },
	"duration": func(r *runs.Run) float64 { return float64(r.End - r.Start) },
	"tools":    func(r *runs.Run) float64 { return float64(r.Tools) },
	"errors":   func(r *runs.Run) float64 { return float64(r.Failed) },
	"input":    func(r *runs.Run) float64 { return float64(r.Usage().Input) },
	"output":   func(r *runs.Run) float64 { return float64(r.Usage().Output) },
	"cost":     func(r *runs.Run) float64 { return r.Usage().Cost },
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
	return cmp.Or(cmp.Compare(b.full().Start, a.full().Start), slices.Compare(a.id[:], b.id[:]))
}

func (q Query) matches(t *trace) bool {
	r := t.full()
	if q.Failed && r.Failed == 0 || q.Agent != "" && t.who() != q.Agent || q.Model != "" && r.Model != q.Model {
		return false
	}
	for _, w := range q.Words {
		if !t.mentions(w) && !strings.HasPrefix(t.id.String(), w) && !t.contains(w) {
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
	var part [8 << 10]byte // on the stack
	for {
		n := copy(part[:], text)
		for i, c := range part[:n] {
			if 'A' <= c && c <= 'Z' {
				part[i] = c + 'a' - 'A'
			}
		}
		if bytes.Contains(part[:n], []byte(lower)) {
			return true
		}
		if n == len(text) || len(lower) > len(part)/2 {
			return false
		}
		text = text[n-len(lower):] // a match may begin in one part and end in the next
	}
}

// whereIs returns the first place in the content that has one of the words.
func (t *trace) whereIs(words []string) *Found {
	for i := range t.spans {
		for _, w := range words {
			if !containsFold(t.spans[i].wire, w) {
				continue
			}
			s := decodeAll(t.spans[i : i+1])[0]
			for _, at := range texts(s) {
				if excerpt, ok := around(at, w); ok {
					return &Found{hexID(s.GetSpanId()), cutText(s.GetName(), maxDetail), excerpt}
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

// names returns the names in a set, as many as a list holds.
func names(set map[string]bool) []string {
	delete(set, "")
	sorted := slices.AppendSeq([]string{}, maps.Keys(set))
	slices.Sort(sorted)
	return sorted[:min(len(sorted), maxListed)]
}
