package viewer

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/spantee/spantee/exporter/runs"
)

// RunsHead is how the answer for "runs over time" begins. Its last member is "runs": each run
// is a list of its values, in JSON as the database has it.
type RunsHead struct {
	Total  int      `json:"total"` // sessions in the database
	Agents []string `json:"agents"`
	Models []string `json:"models"`
	Prices Prices   `json:"prices"` // of these models, as far as they are known
	Values []string `json:"values"` // what they are called
}

// Limits of the answer.
const (
	maxRuns      = 20_000
	maxRunsBytes = 15 << 20
)

// TestSpan is the name of the span that spantee doctor sends. The viewer shows it until
// its next start, and does not count it as a run.
const TestSpan = "spantee doctor"

// runValues are the values of a run. They are what a Session has under these names, and at last
// its tool calls, which refer to the names of its tools. What the database has is changed by
// a migration.
var runValues = []string{
	"id", "name", "agent", "service", "model", "folder", "prompt", "first", "failure", "start", "end", "firstChunk",
	"input", "output", "cached", "written", "cost", "costStated", "errors", "tools", "toolErrors", "toolNames", "calls",
}

func valuesOf(s *Session, r *runs.Run) []any {
	calls := make([][3]int64, len(r.Calls)) // tool, microseconds, 1 if it failed
	for i, call := range r.Calls {
		calls[i] = [3]int64{int64(call.Tool), call.Took.Microseconds(), 0}
		if call.Failed {
			calls[i][2] = 1
		}
	}
	return []any{
		s.ID, s.Name, s.Agent, s.Service, s.Model, s.Folder, s.Prompt, s.First, s.Failure, s.Start, s.End, s.FirstChunk,
		s.Input, s.Output, s.Cached, s.Written, s.Cost, s.CostStated, s.Errors, s.Tools, s.ToolErrors, r.ToolNames, calls,
	}
}

// Runs returns the sessions that a query selects and that ended, the latest first, in JSON.
// What the database has in JSON is not decoded: there may be a lot of it.
func (s *Store) Runs(ctx context.Context, q Query, prices Prices) ([]byte, error) {
	from := s.read.during(ctx)
	var l List
	if err := l.facets(from); err != nil {
		return nil, err
	}
	head, err := json.Marshal(RunsHead{Total: l.Total, Agents: l.Agents, Models: l.Models, Prices: prices.of(l.Models), Values: runValues})
	if err != nil {
		return nil, err
	}
	if q.Search != "" {
		if _, err := s.catchUp(from); err != nil {
			return nil, err
		}
	}
	where, args, _, err := s.conditions(from, q)
	if err != nil {
		return nil, err
	}
	answer, n := bytes.NewBuffer(head[:len(head)-1]), 0
	answer.WriteString(`,"runs":[`)
	full := errors.New("the answer is full")
	err = each(from, func(scan func(...any) error) error {
		var run sql.RawBytes
		if err := scan(&run); err != nil {
			return err
		}
		if n == maxRuns || answer.Len()+len(run) > maxRunsBytes {
			return full
		}
		if n++; n > 1 {
			answer.WriteByte(',')
		}
		answer.Write(run)
		return nil
	}, `SELECT run FROM session JOIN run ON session = row
		WHERE NOT test AND row NOT IN (SELECT session FROM open) AND `+where+` ORDER BY started DESC`, args...)
	if err != nil && !errors.Is(err, full) {
		return nil, err
	}
	answer.WriteString(`]}`)
	return answer.Bytes(), nil
}

func (v *server) runs(w http.ResponseWriter, r *http.Request) {
	answer, err := v.store.Runs(r.Context(), queryOf(r), v.prices)
	if err != nil {
		respond(w, nil, false, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // the client may be gone
}
