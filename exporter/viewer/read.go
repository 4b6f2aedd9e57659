package viewer

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"math"
)

// richest selects the row of a session, or of the one that has more of the same run.
const richest = `(SELECT iif(richer > 0, richer, row) FROM session WHERE trace = ?)`

// find returns the row of a session and the number of its last span, 0 if there is none.
func (s *Store) find(from querier, id traceID) (row, last int64, err error) {
	err = one(from, `SELECT row, last FROM session WHERE row = `+richest, id[:])(&row, &last)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return row, last, err
}

// Spans returns the spans of a trace that came after since, and the value of since
// for the next call. since is zero in the first call. For an unknown trace there
// are no spans.
func (s *Store) Spans(ctx context.Context, id traceID, since int64) (list []Span, seq int64, err error) {
	from := s.read.during(ctx)
	row, seq, err := s.find(from, id)
	if err != nil || row == 0 {
		return nil, 0, err
	}
	d := decoder{}
	for sp, err := range spansSince(from, row, since) {
		if err != nil {
			return nil, 0, err
		}
		list = append(list, d.decode(sp))
	}
	return list, seq, nil
}

// Span returns one span, nil if it is not there.
func (s *Store) Span(ctx context.Context, id traceID, span spanID) (found *Span, err error) {
	from := s.read.during(ctx)
	row, _, err := s.find(from, id)
	if err != nil || row == 0 {
		return nil, err
	}
	for sp, err := range spansAndOpen(from, row, 0) {
		if err != nil {
			return nil, err
		}
		if bytes.Equal(sp.read().ID, span[:]) {
			decoded := decoder{}.decode(sp)
			return &decoded, nil
		}
	}
	return nil, nil
}

// Changes returns the ids of up to limit traces that changed after since, the
// latest first, and the value of since for the next call.
func (s *Store) Changes(since int64, limit int) (ids []traceID, seq int64, err error) {
	if err = one(s.read, `SELECT seq FROM clock`)(&seq); err != nil || seq == since {
		return nil, since, err
	}
	ids, err = all[traceID](s.read, `SELECT trace FROM session WHERE seq > ? AND seq <= ? ORDER BY seq DESC LIMIT ?`, since, seq, limit)
	return ids, seq, err
}

// Sequence returns the value to pass to Since or Changes to get only later changes.
func (s *Store) Sequence() int64 {
	_, seq, _ := s.Changes(math.MaxInt64, 0)
	return seq
}

// Since returns the ids of the traces that changed after seq.
func (s *Store) Since(seq int64) []string {
	found, _, _ := s.Changes(seq, math.MaxInt32)
	ids := make([]string, len(found))
	for i, id := range found {
		ids[i] = id.String()
	}
	return ids
}
