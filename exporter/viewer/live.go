package viewer

import (
	"cmp"
	"encoding/json"
	"iter"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spantee/spantee/exporter/internal/field"
	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/mapping/semconv"
)

// silence is how long nothing may be heard of a source before its spans count as gone.
const silence = 10 * time.Second

// Open sets the spans that a source has open; the empty source is this process. A span
// that was open before, is no longer listed and has not ended is forgotten. The request is an
// encoded TracesData.
func (s *Store) Open(name string, request []byte) {
	if err := s.openAt(name, request, time.Now()); err != nil {
		s.problem(err)
	}
}

func (s *Store) openAt(name string, request []byte, now time.Time) error {
	taken := split(request)
	source := cmp.Or(name, s.source)
	if len(taken) == 0 {
		var known bool
		if err := one(s.read, `SELECT EXISTS (SELECT 1 FROM open WHERE source = ?)`, source)(&known); err != nil || !known {
			return err
		}
	}
	return s.update(now, func(u *update) error { return u.report(source, taken, now) })
}

// report replaces the spans that a source has open.
func (u *update) report(source string, taken []stored, now time.Time) error {
	before := make(map[traceID]string) // conversations
	err := each(u.write, func(scan func(...any) error) error {
		var id traceID
		var conversation string
		err := scan(&id, &conversation)
		before[id] = conversation
		return err
	}, `SELECT DISTINCT trace, summary ->> 'conversation' FROM open JOIN session ON row = open.session JOIN summary ON row = summary.session WHERE source = ?`, source)
	if err == nil {
		err = u.write.exec(`DELETE FROM open WHERE source = ?`, source)
	}
	current := make(map[traceID]string)
	for _, sp := range taken {
		var r *record
		if err == nil {
			r, err = u.take(&sp)
		}
		if err != nil {
			return err
		}
		if r == nil {
			continue
		}
		id := spanID(u.reading.ID)
		if _, ended := r.ids[id]; ended { // that may arrive first
			continue
		}
		current[r.id] = cmp.Or(current[r.id], u.reading.Text(semconv.ConversationID))
		r.reported = true
		r.open++
		err = u.write.exec(`INSERT OR REPLACE INTO open (source, session, id, origin, wire, written, reported) VALUES (?, ?, ?, ?, ?, ?, ?)`,
			source, r.row, id[:], u.origin(r, sp.origin), withoutFailure(sp.wire), now.UnixNano(), now.UnixNano())
	}
	for id, conversation := range before {
		if _, still := current[id]; still || err != nil {
			continue
		}
		var r *record
		if r, err = u.record(id); err != nil {
			return err
		}
		if r.reported = true; r.last > 0 {
			continue
		}
		// Without a span that ended it is removed: ids are provisional until the first timestamp of
		// a stream. A page that shows it is redirected to the current trace of its conversation.
		for other, is := range current {
			if len(current) == 1 || is == conversation {
				u.move(id, other)
			}
		}
	}
	return err
}

// withoutFailure returns an encoded open span without the error and the doubts: the mapper writes
// open spans as if the process were killed now.
func withoutFailure(span []byte) []byte {
	clean := make([]byte, 0, len(span))
	for number, v := range field.All(span, nil) {
		fails := number == field.SpanStatus
		if number == field.SpanAttributes {
			for key := range field.Of(v.Bytes, field.Key) {
				fails = string(key.Bytes) == semconv.ErrorType || string(key.Bytes) == semconv.Doubts
			}
		}
		if !fails {
			clean = append(clean, v.Whole...)
		}
	}
	return clean
}

// maxMoved bounds how many provisional ids are remembered.
const maxMoved = 1000

func (s *Store) move(from, to traceID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.moved) >= maxMoved {
		clear(s.moved)
	}
	s.moved[from] = to
}

func (s *Store) movedTo(from traceID) (to traceID, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to, ok = s.moved[from]
	return to, ok
}

// alive says that sources live, although they may have nothing new to report.
func (s *Store) alive(sources []string, now time.Time) error {
	if len(sources) == 0 {
		return nil
	}
	names, err := json.Marshal(sources)
	if err != nil {
		return err
	}
	const of = `source IN (SELECT value FROM json_each(?))`
	return s.update(now, func(u *update) error {
		if err := u.write.exec(`UPDATE session SET seq = ? WHERE row IN (SELECT session FROM open WHERE gone = 1 AND `+of+`)`, u.seq, string(names)); err != nil {
			return err
		}
		return u.write.exec(`UPDATE open SET reported = ?, gone = 0 WHERE `+of, now.UnixNano(), string(names))
	})
}

// expire marks the open spans of sources that have been silent as gone.
func (s *Store) expire(now time.Time) error {
	const silent = `gone = 0 AND reported <= ?`
	var any bool
	limit := now.Add(-silence).UnixNano()
	if err := one(s.read, `SELECT EXISTS (SELECT 1 FROM open WHERE `+silent+`)`, limit)(&any); err != nil || !any {
		return err
	}
	return s.update(now, func(u *update) error {
		if err := u.write.exec(`UPDATE session SET seq = ? WHERE row IN (SELECT session FROM open WHERE `+silent+`)`, u.seq, limit); err != nil {
			return err
		}
		return u.write.exec(`UPDATE open SET gone = 1 WHERE `+silent, limit)
	})
}

// openSpans returns the open spans of a session. They are encoded as if they ended when their
// source was last known to live.
func openSpans(from querier, row int64) (list []stored, err error) {
	var lasting []uint64
	var sources []string
	latest := make(map[string]uint64) // by source
	err = each(from, func(scan func(...any) error) error {
		var sp stored
		var header []byte
		var source string
		var since uint64
		err := scan(&source, &header, &sp.wire, &since)
		sp.origin = newOrigin(header)
		list, lasting, sources = append(list, sp), append(lasting, since), append(sources, source)
		latest[source] = max(latest[source], endOf(sp.wire))
		return err
	}, `SELECT source, origin.wire, open.wire, max(0, reported - written) FROM open JOIN origin ON origin.session = open.session AND n = origin WHERE open.session = ? ORDER BY id`, row)
	for i := range list {
		if end := endOf(list[i].wire); lasting[i] > 0 && end+uint64(held) >= latest[sources[i]] {
			wire := protowire.AppendTag(list[i].wire, field.SpanEnd, protowire.Fixed64Type) // the last one counts
			list[i].wire = protowire.AppendFixed64(wire, end+lasting[i])
		}
	}
	return list, err
}

// held is how much earlier than others a span has ended that its process still holds back. One
// that goes on ends with the others.
const held = time.Millisecond

func endOf(span []byte) (end uint64) {
	for v := range field.Of(span, field.SpanEnd) {
		end = v.Number
	}
	return end
}

// spansAndOpen returns the spans of a session after the number since, and then the open ones,
// whose number is 0.
func spansAndOpen(from querier, row, since int64) iter.Seq2[stored, error] {
	return func(yield func(stored, error) bool) {
		open, err := openSpans(from, row) // first: a span may end meanwhile
		if err != nil {
			yield(stored{}, err)
			return
		}
		for sp, err := range spansSince(from, row, since) {
			if !yield(sp, err) {
				return
			}
		}
		for _, sp := range open {
			if !yield(sp, nil) {
				return
			}
		}
	}
}

// A Now is what a session that has not ended is doing.
type Now struct {
	Op           string `json:"op"`    // of the latest open span
	What         string `json:"what"`  // its tool or model
	Text         string `json:"text"`  // what a tool call is about
	Event        string `json:"event"` // the last event: a chat without events waits for the model
	Since        int64  `json:"since"` // when that span began, in microseconds since 1970
	LastActivity int64  `json:"heard"` // when something last happened
	LastReport   int64  `json:"asked"` // when its process last reported, by the clock of its spans
	Read         int64  `json:"read"`  // when that was read here: time goes on from then
	Gone         bool   `json:"gone"`  // its process has been silent for too long
	StallAfter   int64  `json:"stall"` // how long it is silent before it is stuck, in microseconds; 0 for never
}

// newNow describes a session by its open spans, nil without any.
func newNow(list []stored, lastEnd uint64, gone bool) *Now {
	open := make([]*runs.Span, len(list))
	for i := range list {
		open[i] = list[i].read()
	}
	latest := runs.Latest(open)
	if latest == nil {
		return nil
	}
	n := &Now{Op: string(latest.Kind()), What: cutText(latest.Subject(), maxDetail), Event: cutText(latest.LastEvent(), maxDetail), Gone: gone}
	n.Text, _ = detail(latest)
	since, heard := latest.Start, lastEnd
	for _, s := range open {
		heard = max(heard, s.LastHeard())
		n.LastReport = max(n.LastReport, microseconds(s.End))
	}
	if latest.Kind() == runs.Agent { // between steps: since the last one
		since = heard
	}
	n.Since, n.LastActivity = microseconds(since), microseconds(heard)
	return n
}
