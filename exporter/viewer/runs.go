package viewer

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/spantee/spantee/exporter/runs"
)

// RunsHead is how the answer for "runs over time" begins. Its last member is "runs": for
// each run, a pair of its Session and its calls, as the database has them in JSON.
type RunsHead struct {
	Total  int      `json:"total"` // sessions in the database
	Agents []string `json:"agents"`
	Models []string `json:"models"`
	Prices Prices   `json:"prices"` // of these models, as far as they are known
}

// Limits of the answer.
const (
	maxRuns      = 20_000
	maxRunsBytes = 15 << 20
)

// TestSpan is the name of the span that spantee doctor sends. The viewer shows it until
// its next start, and does not count it as a run.
const TestSpan = "spantee doctor"

// calls are a run's tool calls, which refer to the names of its tools.
type calls struct {
	Tools []string   `json:"tools"`
	Calls [][3]int64 `json:"calls"` // tool, microseconds, 1 if it failed
}

func callsOf(r *runs.Run) calls {
	c := calls{Tools: r.ToolNames, Calls: make([][3]int64, len(r.Calls))}
	for i, call := range r.Calls {
		failed := int64(0)
		if call.Failed {
			failed = 1
		}
		c.Calls[i] = [3]int64{int64(call.Tool), call.Took.Microseconds(), failed}
	}
	return c
}

// Runs returns the sessions that a query selects and that ended, the latest first, in JSON.
// What the database has in JSON is not decoded: there may be a lot of it.
func (s *Store) Runs(q Query, prices Prices) ([]byte, error) {
	var l List
	if err := s.facets(&l); err != nil {
		return nil, err
	}
	head, err := json.Marshal(RunsHead{Total: l.Total, Agents: l.Agents, Models: l.Models, Prices: prices.of(l.Models)})
	if err != nil {
		return nil, err
	}
	where, args, words := q.conditions()
	found, err := s.matching(words)
	if err != nil {
		return nil, err
	}
	answer, n := bytes.NewBuffer(head[:len(head)-1]), 0
	answer.WriteString(`,"runs":[`)
	full := errors.New("the answer is full")
	err = each(s.read, func(scan func(...any) error) error {
		var row int64
		var summary, calls sql.RawBytes
		if err := scan(&row, &summary, &calls); err != nil {
			return err
		}
		if _, ok := slices.BinarySearch(found, row); len(words) > 0 && !ok {
			return nil
		}
		if n == maxRuns || answer.Len()+len(summary)+len(calls) > maxRunsBytes {
			return full
		}
		if n++; n > 1 {
			answer.WriteByte(',')
		}
		answer.WriteByte('[')
		answer.Write(summary)
		answer.WriteByte(',')
		answer.Write(calls)
		answer.WriteByte(']')
		return nil
	}, `SELECT row, summary, calls FROM session JOIN summary ON session = row
		WHERE NOT test AND row NOT IN (SELECT session FROM open) AND `+where+` ORDER BY started DESC`, args...)
	if err != nil && !errors.Is(err, full) {
		return nil, err
	}
	answer.WriteString(`]}`)
	return answer.Bytes(), nil
}

func (v *server) runs(w http.ResponseWriter, r *http.Request) {
	answer, err := v.store.Runs(queryOf(r), v.prices)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // the client may be gone
}
