package runs

import (
	"cmp"
	"slices"

	"github.com/spantee/spantee/mapping/semconv"
)

// A Model is the usage of a model in a run. In JSON it is part of a receipt.
type Model struct {
	Model string `json:"model"`
	Usage
}

// Models are the models of a run, as far as the agent states usage by model or by model
// call.
type Models struct {
	List    []Model
	byEvent bool // the root's events say what each model used
}

// maxModels bounds the models of a run. Further models are semconv.ErrorOther.
const maxModels = 100

// Add adds a span. What the root states takes precedence.
func (m *Models) Add(s *Span) {
	switch {
	case s.Kind() == Chat && !m.byEvent:
		m.add(cmp.Or(s.Text(semconv.ResponseModel), s.Text(semconv.RequestModel)), s.Usage())
	case s.StatesTotals() && s.MayBeRoot():
		s.Events(func(e Event) {
			if string(e.Name) != semconv.EventModelUsage {
				return
			}
			if !m.byEvent {
				*m = Models{byEvent: true}
			}
			used := e.Attributes()
			m.add(used.Text(semconv.ResponseModel), used.Usage())
		})
	}
}

func (m *Models) add(name string, usage Usage) {
	if !usage.TokensKnown && !usage.CostKnown {
		return
	}
	name = Cut(name)
	index := func() int { return slices.IndexFunc(m.List, func(other Model) bool { return other.Model == name }) }
	i := index()
	if i < 0 && len(m.List) >= maxModels-1 {
		name = semconv.ErrorOther
		i = index()
	}
	if i < 0 {
		m.List = append(m.List, Model{Model: name})
		i = len(m.List) - 1
	}
	m.List[i].Add(usage)
}
