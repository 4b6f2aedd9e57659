package viewer

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/spantee/spantee/exporter/runs"
)

// A Session is a trace as the page lists it.
type Session struct {
	ID string `json:"id"`
	runs.Identity
	runs.Counts
	runs.Again
	RetryDelay   int64        `json:"retryDelay"` // microseconds, as far as the agent states it
	Service      string       `json:"service"`
	Start        int64        `json:"start"`              // microseconds since 1970
	End          int64        `json:"end"`                // of the run
	Timeless     bool         `json:"timeless,omitempty"` // only the order of its steps is known
	FirstChunk   int64        `json:"firstChunk"`         // microseconds
	Input        int64        `json:"input"`
	Output       int64        `json:"output"`
	Cached       int64        `json:"cached"`           // read from the cache, part of Input
	Cost         float64      `json:"cost"`             // US dollars
	Ended        bool         `json:"ended"`            // its root has arrived
	Failure      string       `json:"failure"`          // the root's, if it failed
	Doubts       []runs.Doubt `json:"doubts,omitempty"` // what makes its success doubtful
	LastReceived int64        `json:"came"`             // when its last span arrived, in microseconds since 1970
	Pinned       bool         `json:"pinned,omitempty"`
	Now          *Now         `json:"now,omitempty"`
}

// newSession returns a run as it is listed, without what depends on its open spans.
func newSession(id traceID, r *runs.Run, service string, now time.Time) Session {
	u := r.Usage()
	return Session{
		ID: id.String(), Identity: r.Identity, Counts: r.Counts, Again: r.Stated.Again, RetryDelay: r.RetryDelay.Microseconds(), Service: service,
		Start: microseconds(r.Start), End: microseconds(r.Ended()), Timeless: r.Timeless(),
		FirstChunk: r.FirstChunk.Microseconds(), Input: u.InputTokens, Output: u.OutputTokens, Cached: u.CacheReadTokens, Cost: u.Cost,
		Failure: r.Failure, Doubts: r.Doubts, LastReceived: now.UnixMicro(),
	}
}

// listed is the part of a query that reads sessions for listing.
const listed = `SELECT row, summary, heard, pinned, (SELECT max(gone) FROM open WHERE open.session = row), (SELECT max(reported) FROM open WHERE open.session = row) FROM session JOIN summary ON summary.session = row `

// sessions reads sessions, with their rows. The query begins with listed.
func (s *Store) sessions(from querier, query string, args ...any) (list []Session, rows []int64, err error) {
	var heard []int64
	var reported []sql.NullInt64
	var gone []sql.NullBool // of sessions with open spans
	list = []Session{}
	err = each(from, func(scan func(...any) error) error {
		var summary sql.RawBytes
		var session Session
		var row, end int64
		var silent sql.NullBool
		var at sql.NullInt64
		err := scan(&row, &summary, &end, &session.Pinned, &silent, &at)
		if err == nil {
			err = json.Unmarshal(summary, &session)
		}
		list, rows, heard, gone, reported = append(list, session), append(rows, row), append(heard, end), append(gone, silent), append(reported, at)
		return err
	}, query, args...)
	for i := range list {
		if err == nil && gone[i].Valid {
			var open []stored
			open, err = openSpans(from, rows[i])
			if list[i].Now = newNow(open, uint64(heard[i]), gone[i].Bool); list[i].Now != nil {
				list[i].Now.StallAfter, list[i].Now.Read = s.StallAfter.Microseconds(), reported[i].Int64/1000
			}
		}
	}
	return list, rows, err
}

// Session returns a trace as the page lists it.
func (s *Store) Session(ctx context.Context, id traceID) (Session, bool, error) {
	found, _, err := s.sessions(s.read.during(ctx), listed+`WHERE row = `+richest, id[:])
	if err != nil || len(found) == 0 {
		return Session{}, false, err
	}
	return found[0], true, nil
}
