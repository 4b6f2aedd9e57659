package viewer

import (
	"net/http"
	"slices"
)

// Runs is the data of "runs over time": what the list shows of each session, and how long
// the session's tools took.
type Runs struct {
	Runs  []Run    `json:"runs"`
	Tools []string `json:"tools"` // names, which Run.Calls refer to
	Total int      `json:"total"`
}

// A Run is a session, with its tool calls as [tool, microseconds, failed].
type Run struct {
	Session
	Calls [][3]int64 `json:"calls"`
}

// Limits of one answer.
const (
	maxRuns     = 20_000
	maxRunCalls = 500_000
)

// Runs returns all sessions that ended, the latest first.
func (s *Store) Runs() Runs {
	s.refresh()
	s.mu.RLock()
	defer s.mu.RUnlock()
	answer := Runs{Runs: []Run{}, Tools: []string{}, Total: len(s.traces)}
	traces := make([]*trace, 0, len(s.traces))
	for _, t := range s.traces {
		traces = append(traces, t)
	}
	slices.SortFunc(traces, byStart)
	names, calls, size := make(map[string]int64), 0, 0
	for _, t := range traces[:min(len(traces), maxRuns)] {
		r := t.full()
		if len(t.open) > 0 || r.Name == TestSpan {
			continue
		}
		if calls > maxRunCalls || size > maxAnswer {
			break
		}
		run := Run{t.session(), make([][3]int64, 0, len(r.Calls))}
		for _, c := range r.Calls {
			tool := r.Called[c.Tool].Name
			name, known := names[tool]
			if !known {
				name = int64(len(answer.Tools))
				names[tool] = name
				answer.Tools = append(answer.Tools, tool)
				size += len(tool)
			}
			failed := int64(0)
			if c.Failed {
				failed = 1
			}
			run.Calls = append(run.Calls, [3]int64{name, c.Took.Microseconds(), failed})
		}
		calls += len(r.Calls)
		size += run.size()
		answer.Runs = append(answer.Runs, run)
	}
	return answer
}

func (v *server) runs(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, v.store.Runs())
}
