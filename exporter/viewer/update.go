package viewer

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/runs"
)

// Add adds the spans of an encoded TracesData: spans that ended, which replace those with
// the same id. It returns how many it rejected, because they have no valid id. After an
// error, none of the spans was added. The request must be valid.
func (s *Store) Add(request []byte) (rejected int, err error) {
	s.adders.Add(1)
	defer s.adders.Add(-1)
	return s.add(withoutCopies(split(request)), time.Now())
}

// add adds spans as of a time.
func (s *Store) add(spans []stored, now time.Time) (rejected int, err error) {
	if len(spans) == 0 {
		return 0, nil
	}
	err = s.update(now, func(u *update) error {
		rejected = 0
		for _, sp := range spans {
			r, err := u.take(&sp)
			if err != nil {
				return err
			}
			if r == nil || r.last == maxNumber || len(r.ids) >= maxSpans {
				rejected++
				continue
			}
			if err := u.add(r, &sp); err != nil {
				return err
			}
		}
		return nil
	})
	return rejected, err
}

// addSpans adds decoded spans as of a time.
func (s *Store) addSpans(spans []*tracepb.ResourceSpans, now time.Time) error {
	request, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err == nil {
		_, err = s.add(split(request), now)
	}
	return err
}

// take reads a span, and returns the record of its session, nil if the span has no valid id.
func (u *update) take(sp *stored) (*record, error) {
	_ = u.reading.Read(sp.wire) // it is valid
	if !validID(u.reading.TraceID, len(traceID{})) || !validID(u.reading.ID, len(spanID{})) {
		return nil, nil
	}
	return u.record(traceID(u.reading.TraceID))
}

// update runs a transaction that changes sessions. change may be called twice.
func (s *Store) update(now time.Time, change func(*update) error) error {
	err := s.transaction(func() error {
		u := &update{Store: s, touched: make(map[traceID]*record), queued: make(map[string][][]any)}
		err := u.run(now, change)
		if err != nil {
			s.cache, s.size = make(map[traceID]*record), 0 // what was read may not be there
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("store sessions: %w", err)
	}
	return nil
}

func (u *update) run(now time.Time, change func(*update) error) error {
	if err := one(u.write, `UPDATE clock SET seq = seq + 1 RETURNING seq, rows`)(&u.seq, &u.rows); err != nil {
		if errors.Is(err, sql.ErrNoRows) {
			return errNoClock
		}
		return err
	}
	rows := u.rows
	if err := change(u); err != nil {
		return err
	}
	touched := slices.SortedFunc(maps.Values(u.touched), func(a, b *record) int { return cmp.Compare(a.row, b.row) })
	for _, r := range touched {
		u.endBatch(r, r.last)
	}
	err := u.insertQueued(insertOrigin, insertBatch)
	if err == nil && u.rows > rows {
		err = u.write.exec(`UPDATE clock SET rows = ?`, u.rows)
	}
	for _, r := range touched {
		if err == nil {
			err = u.summarize(r, now)
		}
	}
	if err == nil {
		err = u.insertQueued(insertSession, insertSummary, insertUnindexed)
	}
	if err == nil {
		err = u.write.setOutlines(u.changed)
	}
	for _, r := range touched {
		if err == nil {
			err = u.rank(r.row)
		}
	}
	return err
}

// maxCopies is more than there are content levels and other options that change ids. More traces
// that look like one run are no copies.
const maxCopies = 16

// rank finds the copies of a session's run: traces with the same agent, conversation and start,
// because a run that is sent at several content levels has several ids. The one that is whole and
// has most stands for all of them, in whatever order they come.
func (u *update) rank(row int64) error {
	type copied struct {
		row, richer int64
		pinned      bool
	}
	var copies []copied
	pinned := false
	err := each(u.write, func(scan func(...any) error) error {
		var c copied
		err := scan(&c.row, &c.richer, &c.pinned)
		pinned = pinned || c.pinned
		copies = append(copies, c)
		return err
	}, `SELECT row, richer, pinned FROM (SELECT copy.* FROM session AS this JOIN session AS copy USING (conversation, started, agent)
		WHERE this.row = ?1 AND this.conversation <> '' AND copy.conversation <> '' LIMIT ?2) ORDER BY ended DESC, bytes DESC, trace`, row, maxCopies+1)
	if len(copies) > maxCopies {
		copies = nil
	}
	for i, c := range copies {
		richer := copies[0].row
		if i == 0 {
			richer = 0
		}
		if err == nil && (c.richer != richer || i == 0 && pinned && !c.pinned) {
			err = u.write.exec(`UPDATE session SET richer = ?, pinned = pinned OR ?, seq = ? WHERE row = ?`, richer, i == 0 && pinned, u.seq, c.row)
		}
	}
	if err == nil { // what was a copy of it as long as its root was another
		err = u.write.exec(`UPDATE session SET richer = 0, seq = ?1 WHERE richer > 0 AND richer = ?2 AND (started, agent, conversation) <> (SELECT started, agent, conversation FROM session WHERE row = ?2)`, u.seq, row)
	}
	return err
}

// record returns the record of a session, which is new if there is none.
func (u *update) record(id traceID) (*record, error) {
	if r := u.touched[id]; r != nil {
		return r, nil
	}
	r := &record{id: id, origins: make(map[origin]int64), ids: make(map[spanID]struct{})}
	err := one(u.write, `SELECT row, last, bytes, (SELECT count(*) FROM open WHERE session = session.row) FROM session WHERE trace = ?`, id[:])(
		&r.row, &r.last, &r.bytes, &r.open)
	switch known := u.cache[id]; {
	case errors.Is(err, sql.ErrNoRows):
		u.rows++
		r.row, r.fresh, err = u.rows, true, nil
	case err == nil && known != nil && known.row == r.row && known.last == r.last: // no other process added to it
		known.open = r.open
		r = known
	case err == nil:
		if r.origins, err = originsOf(u.write, r.row); err == nil {
			err = u.rebuild(r)
		}
	}
	r.before = r.last
	u.touched[id] = r
	return r, err
}

// origin returns the number of an origin in a session.
func (u *update) origin(r *record, from origin) int64 {
	n, ok := r.origins[from]
	if !ok {
		n = int64(len(r.origins))
		r.origins[from] = n
		r.bytes += int64(len(from.wire))
		u.queue(insertOrigin, r.row, n, []byte(from.wire))
	}
	return n
}

// add takes the span that was read, which replaces one with its id.
func (u *update) add(r *record, sp *stored) error {
	id := spanID(u.reading.ID)
	if r.open > 0 {
		if err := u.write.exec(`DELETE FROM open WHERE session = ? AND id = ?`, r.row, id[:]); err != nil {
			return err
		}
	}
	if _, again := r.ids[id]; again {
		r.replaced = true
	}
	r.ids[id] = struct{}{}
	r.last++
	sp.n = r.last
	u.batch(r, u.origin(r, sp.origin), sp.wire)
	u.grown.Add(int64(len(sp.wire)) + spanOverhead)
	u.sum(r, &u.reading, sp)
	return nil
}

// sum adds a span to what is known of its session.
func (u *update) sum(r *record, span *runs.Span, sp *stored) {
	if isRoot := r.run.Add(span); isRoot || r.service == "" {
		r.service = sp.origin.service
	}
	r.bytes += int64(len(sp.wire)) + spanOverhead
}

// rebuild reads all spans of a session, and has them indexed again if one was replaced.
func (u *update) rebuild(r *record) error {
	r.run, r.service, r.bytes, r.ids = runs.Run{}, "", 0, make(map[spanID]struct{})
	if r.replaced {
		if err := u.dropReplaced(r); err != nil {
			return err
		}
		for _, statement := range []string{deleteDocuments, `INSERT OR REPLACE INTO unindexed VALUES (?, 0)`} {
			if err := u.write.exec(statement, r.row); err != nil {
				return err
			}
		}
	}
	var span runs.Span
	for sp, err := range spansSince(u.write, r.row, 0) {
		if err != nil {
			return err
		}
		_ = span.Read(sp.wire) // it was valid
		r.ids[spanID(span.ID)] = struct{}{}
		u.sum(r, &span, &sp)
	}
	r.replaced = false
	return nil
}

// summarize writes what the list shows of a session. A session without spans is gone.
func (u *update) summarize(r *record, now time.Time) error {
	if r.replaced {
		if err := u.rebuild(r); err != nil {
			return err
		}
	}
	var open []stored
	if r.open > 0 || r.reported {
		var err error
		if open, err = openSpans(u.write, r.row); err != nil {
			return err
		}
	}
	if r.open = len(open); r.open == 0 && r.run.Spans == 0 {
		return u.remove(r.row)
	}
	run, service := &r.run, r.service
	if len(open) > 0 {
		run = run.Clone()
		for i := range open {
			span := open[i].read()
			if run.Add(span) || service == "" {
				service = open[i].origin.service
			}
		}
	}
	session := newSession(r.id, run, service, now)
	session.Ended = run.Rooted && !slices.ContainsFunc(open, func(sp stored) bool { return sp.read().MayBeRoot() })
	summary, err := json.Marshal(session)
	if err != nil {
		return err
	}
	u.queue(insertSummary, r.row, string(summary))
	var outline []byte
	if len(open) == 0 && run.Name != TestSpan {
		outline = newOutline(&session, run)
	}
	u.changed = append(u.changed, runOutline{r.row, outline})
	if r.last > r.before {
		u.queue(insertUnindexed, r.row, r.before)
	}
	usage, conversation := run.Usage(), ""
	if run.Rooted { // only then is its start known
		conversation = run.Conversation
	}
	row := []any{
		u.seq, now.UnixMicro(), r.last, r.bytes, int64(min(r.run.End, math.MaxInt64)), run.Spans, session.Start, session.End - session.Start, run.Tools, run.ToolErrors,
		usage.InputTokens, usage.OutputTokens, usage.Cost, cmp.Or(session.Agent, service), session.Model, session.Folder, conversation, run.Failed(), session.Ended, run.Name == TestSpan, r.row, r.id[:],
	}
	if r.fresh {
		u.queue(insertSession, row...)
	} else {
		err = u.write.exec(updateSession, row...)
	}
	r.fresh, r.reported = false, false
	u.remember(r)
	return err
}

const updateSession = `UPDATE session SET seq = ?, updated = ?, last = ?, bytes = ?, heard = ?, spans = ?, started = ?, duration = ?, tools = ?, errors = ?,
	input = ?, output = ?, cost = ?, agent = ?, model = ?, folder = ?, conversation = ?, failed = ?, ended = ?, test = ? WHERE row = ? AND trace = ?`

// remember keeps a record for the next spans of its session.
func (s *Store) remember(r *record) {
	if s.size > maxCache {
		s.cache, s.size = make(map[traceID]*record), 0
	}
	if s.cache[r.id] != r {
		s.cache[r.id], r.size = r, 0
	}
	s.size -= r.size
	r.size = r.run.Size() + recordOverhead + len(r.ids)*idOverhead
	for from := range r.origins {
		r.size += len(from.wire)
	}
	s.size += r.size
}
