package viewer

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/spantee/spantee/exporter/runs"
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

// TestSpan is the name of the span that spantee doctor sends. The viewer shows it until
// its next start, and does not count it as a run.
const TestSpan = "spantee doctor"

// calls are a run's tool calls, which refer to the names of its tools.
type calls struct {
	Tools []string   `json:"tools"`
	Calls [][3]int64 `json:"calls"`
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

// Runs returns all sessions that ended, the latest first.
func (s *Store) Runs() (Runs, error) {
	answer := Runs{Runs: []Run{}, Tools: []string{}}
	if err := one(s.read, `SELECT count(*) FROM session`)(&answer.Total); err != nil {
		return answer, err
	}
	names, total, size := make(map[string]int64), 0, 0
	full := errors.New("the answer is full")
	err := each(s.read, func(scan func(...any) error) error {
		var summary, encoded sql.RawBytes
		if err := scan(&summary, &encoded); err != nil {
			return err
		}
		if total > maxRunCalls || size > maxAnswer {
			return full
		}
		var run Run
		var c calls
		if err := cmp.Or(json.Unmarshal(summary, &run.Session), json.Unmarshal(encoded, &c)); err != nil {
			return err
		}
		for i, call := range c.Calls {
			tool := c.Tools[call[0]]
			name, known := names[tool]
			if !known {
				name = int64(len(answer.Tools))
				names[tool] = name
				answer.Tools = append(answer.Tools, tool)
				size += len(tool)
			}
			c.Calls[i][0] = name
		}
		run.Calls = c.Calls
		total += len(c.Calls)
		size += run.size()
		answer.Runs = append(answer.Runs, run)
		return nil
	}, `SELECT summary, calls FROM session JOIN summary ON session = row WHERE NOT test AND row NOT IN (SELECT session FROM open) ORDER BY started DESC LIMIT ?`, maxRuns)
	if errors.Is(err, full) {
		err = nil
	}
	return answer, err
}

func (v *server) runs(w http.ResponseWriter, _ *http.Request) {
	answer, err := v.store.Runs()
	respond(w, answer, true, err)
}
