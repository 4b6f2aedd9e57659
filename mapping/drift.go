package mapping

import (
	"slices"

	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/semconv"
)

// An UnknownType is a type of an agent's lines that its decoder does not know. Agents add
// some with every version.
type UnknownType struct {
	Agent, Version string // the version is "" if the agent does not state it
	Type           string // semconv.ErrorOther if it may not be shown
	Lines          int
}

// maxUnknownTypes is how many types are told apart.
const maxUnknownTypes = 100

// UnknownTypes returns the unknown types of the stream's lines so far.
func (m *Mapper) UnknownTypes() []UnknownType { return slices.Clone(m.unknownTypes) }

// unknown counts a line of an unknown type. r is the run that it belongs to, nil if none is open.
func (s *stream) unknown(a *agent.Agent, r *run, name string) {
	s.stats.Unknown++
	t := UnknownType{Agent: a.Name, Type: s.names.pass(name)}
	if r == nil {
		s.between[a]++
	} else {
		r.counts.unknown++
		if version := r.facts.Find(semconv.AgentVersion); version != nil {
			t.Version = s.names.pass(string(version.Text))
		}
	}
	i := slices.IndexFunc(s.unknownTypes, func(u UnknownType) bool { return u.Agent == t.Agent && u.Version == t.Version && u.Type == t.Type })
	switch {
	case i >= 0:
	case len(s.unknownTypes) < maxUnknownTypes:
		i = len(s.unknownTypes)
		s.unknownTypes = append(s.unknownTypes, t)
	default:
		i = maxUnknownTypes - 1
		s.unknownTypes[i].Type = semconv.ErrorOther
	}
	s.unknownTypes[i].Lines++
}
