package viewer

import (
	"fmt"
	"strings"

	"github.com/spantee/spantee/exporter/runs"
)

// Load returns a store with the sessions that were kept, and an error for each file that
// could not be read.
func (k *Kept) Load(limit int) (s *Store, problems []error) {
	s = NewStore(limit)
	for spans, err := range k.Read() {
		if err != nil {
			problems = append(problems, err)
			continue
		}
		s.Add(spans)
	}
	return s, problems
}

// Find returns the spans of the session whose id begins with prefix, or of the
// latest session if prefix is empty.
func (s *Store) Find(prefix string) ([]*runs.Span, error) {
	var found []Session
	for _, session := range s.List(Query{Limit: maxRuns}).Sessions {
		if strings.HasPrefix(session.ID, strings.ToLower(prefix)) {
			found = append(found, session)
		}
	}
	switch {
	case len(found) == 0 && prefix == "":
		return nil, fmt.Errorf("no sessions are kept")
	case len(found) == 0:
		return nil, fmt.Errorf("no session whose id begins with %q", prefix)
	case len(found) > 1 && prefix != "":
		return nil, fmt.Errorf("%d sessions have an id that begins with %q", len(found), prefix)
	}
	id, _ := parseTraceID(found[0].ID)
	spans, _ := s.Spans(id, 0)
	list := make([]*runs.Span, len(spans))
	for i := range spans {
		list[i] = runs.Of(spans[i].Span)
	}
	return list, nil
}
