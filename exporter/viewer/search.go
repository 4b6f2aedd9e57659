package viewer

import (
	"cmp"
	"encoding/hex"
	"slices"
	"unique"

	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/proto"
)

// serviceOf returns the name of the service in an encoded resource.
func serviceOf(resource unique.Handle[string]) string {
	var r resourcepb.Resource
	_ = proto.Unmarshal([]byte(resource.Value()), &r) // was encoded by us
	return cutText(text(r.GetAttributes(), keyService), maxDetail)
}

// services returns the names of services that sent spans.
func (s *Store) services() []string {
	s.mu.RLock()
	origins := make(map[unique.Handle[string]]bool)
	for _, t := range s.traces {
		for i := range t.spans {
			origins[t.spans[i].origin.resource] = true
		}
	}
	s.mu.RUnlock()
	found := make(map[string]bool)
	for resource := range origins {
		found[cmp.Or(serviceOf(resource), "unknown_service")] = true
	}
	return names(found)
}

// search calls found with the traces that began between from and to, the latest
// first, until found returns false. If service is not empty, only traces with spans
// of that service count.
func (s *Store) search(service string, from, to uint64, found func(traceID, []Span) bool) {
	type candidate struct {
		id    traceID
		start uint64
	}
	var candidates []candidate
	s.refresh()
	s.mu.RLock()
	known := make(map[unique.Handle[string]]bool)
	for id, t := range s.traces {
		if t.full().Start < from || to > 0 && t.full().Start > to {
			continue
		}
		of := func(sp stored) bool {
			is, ok := known[sp.origin.resource]
			if !ok {
				is = cmp.Or(serviceOf(sp.origin.resource), "unknown_service") == service
				known[sp.origin.resource] = is
			}
			return is
		}
		if service == "" || slices.ContainsFunc(t.spans, of) {
			candidates = append(candidates, candidate{id, t.full().Start})
		}
	}
	s.mu.RUnlock()
	slices.SortFunc(candidates, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.start, a.start), slices.Compare(a.id[:], b.id[:]))
	})
	for _, c := range candidates {
		if spans, _ := s.Spans(c.id, 0); len(spans) > 0 && !found(c.id, spans) {
			return
		}
	}
}

// parseTraceID reads an id in hex. Jaeger and Grafana leave out leading zeros.
func parseTraceID(s string) (id traceID, ok bool) {
	for len(s) < 2*len(id) {
		s = "0" + s
	}
	n, err := hex.Decode(id[:], []byte(s[:min(len(s), 2*len(id))]))
	return id, err == nil && n == len(id) && len(s) == 2*len(id)
}
