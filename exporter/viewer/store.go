package viewer

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/internal/field"
	"github.com/spantee/spantee/exporter/runs"
)

type (
	traceID [16]byte
	spanID  [8]byte
)

func (id traceID) String() string { return hex.EncodeToString(id[:]) }

// MarshalText writes an id in JSON.
func (id traceID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// Scan reads an id from the database.
func (id *traceID) Scan(value any) error {
	b, ok := value.([]byte)
	if !ok || copy(id[:], b) != len(id) {
		return fmt.Errorf("%v is no id", value)
	}
	return nil
}

// A Store keeps sessions in an SQLite database, which several processes may use at
// once. What is shown is read from there: memory holds only what speeds up writing.
type Store struct {
	path    string // empty if the database is in memory
	retain  Retention
	problem func(error)
	source  string // names this process among those that report open spans

	// StallAfter is how long an agent is silent before the page calls its session stuck; 0
	// for never. It is set before the store is used.
	StallAfter time.Duration

	read  reader
	write *writer     // its lock guards the fields below
	file  os.FileInfo // that is open, nil if none is
	cache map[traceID]*record
	size  int // of the cache, in bytes

	adders atomic.Int64 // calls of Add

	mu    sync.Mutex
	moved map[traceID]traceID
	last  string // error that was reported

	grown atomic.Int64 // bytes since sessions were last removed

	cancel context.CancelFunc
	done   sync.WaitGroup
}

// A record is what a Store must know of a session to add spans to it.
type record struct {
	id      traceID
	row     int64
	fresh   bool  // it is not in the database
	last    int64 // number of the last span
	bytes   int64 // of the spans
	open    int   // how many spans are open
	origins map[origin]int64
	ids     map[spanID]struct{} // of the spans that ended
	batch   batch               // that is being filled
	run     runs.Run            // of the spans that ended
	service string              // of the root
	size    int                 // in the cache

	before   int64 // number of the last span before the update
	replaced bool  // a span was replaced: run and the index are wrong
	reported bool  // the open spans changed
}

// An origin is the resource and the scope of spans.
type origin struct {
	wire    string // an encoded ResourceSpans without spans
	service string // its name
}

func newOrigin(wire []byte) origin {
	o := origin{wire: string(wire)}
	for resource := range field.Of(wire, field.Resource) {
		for attribute := range field.Of(resource.Bytes, field.ResourceAttributes) {
			var kv commonpb.KeyValue
			_ = proto.Unmarshal(attribute.Bytes, &kv) // it is valid
			if kv.GetKey() == keyService {
				o.service = cutText(kv.GetValue().GetStringValue(), maxDetail)
			}
		}
	}
	return o
}

// A stored is an encoded span: decoded, it would take several times the memory.
type stored struct {
	n      int64 // its number in the session: later spans have higher ones, open ones 0
	origin origin
	wire   []byte
}

func (sp *stored) read() *runs.Span {
	s := new(runs.Span)
	_ = s.Read(sp.wire) // it is valid
	return s
}

const (
	// spanOverhead is what a span takes on disk besides its bytes.
	spanOverhead = 100

	recordOverhead = 300
	idOverhead     = 20

	// maxCache bounds the records in memory, in bytes.
	maxCache = 16 << 20
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

// maxOrigin is the size of the largest resource and scope: each session keeps a copy.
const maxOrigin = 256 << 10

// split returns the spans of an encoded TracesData, which refer to its bytes. Their ids are
// not read.
func split(request []byte) (list []stored) {
	for rs := range field.Of(request, field.ResourceSpans) {
		var resource []byte
		for v := range field.Of(rs.Bytes, field.Resource) {
			resource = append(resource[:len(resource):len(resource)], v.Whole...) // protobuf merges them
		}
		for ss := range field.Of(rs.Bytes, field.ScopeSpans) {
			var scope []byte
			for v := range field.Of(ss.Bytes, field.Scope) {
				scope = append(scope[:len(scope):len(scope)], v.Whole...)
			}
			header := protowire.AppendTag(slices.Clone(resource), field.ScopeSpans, protowire.BytesType)
			from := newOrigin(protowire.AppendBytes(header, scope))
			for v := range field.Of(ss.Bytes, field.Spans) {
				if len(from.wire) > maxOrigin {
					v.Bytes = nil // without an id, it is rejected
				}
				list = append(list, stored{origin: from, wire: v.Bytes})
			}
		}
	}
	return list
}

// withoutCopies leaves the last of the spans that have the same ids: a request may have one
// tens of thousands of times.
func withoutCopies(spans []stored) []stored {
	seen := make(map[[2]string]bool)
	left := len(spans)
	for _, sp := range slices.Backward(spans) {
		var ids [2]string
		for number, v := range field.All(sp.wire, nil) {
			switch number {
			case field.SpanTraceID:
				ids[0] = string(v.Bytes)
			case field.SpanID:
				ids[1] = string(v.Bytes)
			}
		}
		if ids[0] == "" || ids[1] == "" || !seen[ids] { // each that has none is rejected
			seen[ids] = true
			left--
			spans[left] = sp
		}
	}
	return spans[left:]
}

// take reads a span, and returns the record of its session, nil if the span has no valid id.
func (u *update) take(sp *stored) (*record, error) {
	_ = u.reading.Read(sp.wire) // it is valid
	if !validID(u.reading.TraceID, len(traceID{})) || !validID(u.reading.ID, len(spanID{})) {
		return nil, nil
	}
	return u.record(traceID(u.reading.TraceID))
}

func validID(id []byte, size int) bool {
	return len(id) == size && slices.ContainsFunc(id, func(b byte) bool { return b != 0 })
}

// An update is a transaction that changes sessions.
type update struct {
	*Store
	seq     int64
	rows    int64 // sessions there ever were
	touched map[traceID]*record
	reading runs.Span          // the span that is added
	queued  map[string][][]any // rows to insert, by statement
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
		err = u.insertQueued(insertSession, insertSummary, insertRun, insertUnindexed)
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
		if r.origins, err = origins(u.write, r.row); err == nil {
			err = u.rebuild(r)
		}
	}
	r.before = r.last
	u.touched[id] = r
	return r, err
}

// origins returns the origins of a session's spans, with their numbers.
func origins(from querier, row int64) (map[origin]int64, error) {
	list := make(map[origin]int64)
	err := each(from, func(scan func(...any) error) error {
		var n int64
		var wire []byte
		err := scan(&n, &wire)
		list[newOrigin(wire)] = n
		return err
	}, `SELECT n, wire FROM origin WHERE session = ?`, row)
	return list, err
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

// Statements of an update, up to their values.
const (
	insertOrigin  = `INSERT INTO origin (session, n, wire)`
	insertBatch   = `INSERT INTO batch (at, origin, wire)`
	insertSession = `INSERT INTO session (seq, updated, last, bytes, heard, spans, started, duration, tools, errors, input, output, cost,
		agent, model, conversation, failed, ended, test, row, trace)`
	insertSummary   = `INSERT OR REPLACE INTO summary (session, summary)`
	insertRun       = `INSERT OR REPLACE INTO run (session, counts, run)`
	insertUnindexed = `INSERT OR IGNORE INTO unindexed (session, since)`
)

// queue remembers a row to insert.
func (u *update) queue(into string, values ...any) { u.queued[into] = append(u.queued[into], values) }

// insertQueued inserts the rows of some statements.
func (u *update) insertQueued(statements ...string) error {
	for _, into := range statements {
		if err := u.write.insert(into, u.queued[into]); err != nil {
			return err
		}
		delete(u.queued, into)
	}
	return nil
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
	for sp, err := range spans(u.write, r.row, 0) {
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
	u.queue(insertRun, r.row, len(open) == 0 && run.Name != TestSpan, appendOutline(nil, &session, run))
	if r.last > r.before {
		u.queue(insertUnindexed, r.row, r.before)
	}
	usage, conversation := run.Usage(), ""
	if run.Rooted { // only then is its start known
		conversation = run.Conversation
	}
	row := []any{
		u.seq, now.UnixMicro(), r.last, r.bytes, int64(min(r.run.End, math.MaxInt64)), run.Spans, session.Start, session.End - session.Start, run.Tools, run.Errors,
		usage.InputTokens, usage.OutputTokens, usage.Cost, cmp.Or(session.Agent, service), session.Model, conversation, session.Failure != "", session.Ended, run.Name == TestSpan, r.row, r.id[:],
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
	input = ?, output = ?, cost = ?, agent = ?, model = ?, conversation = ?, failed = ?, ended = ?, test = ? WHERE row = ? AND trace = ?`

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

// remove removes a session. Pages that show it learn that something changed.
func (s *Store) remove(row int64) error {
	for _, statement := range []string{
		`DELETE FROM session WHERE row = ?1`, `UPDATE session SET richer = 0 WHERE richer > 0 AND richer = ?1`, `DELETE FROM unindexed WHERE session = ?1`, deleteDocuments,
		`DELETE FROM batch WHERE at > ?1 << 24 AND at < (?1 + 1) << 24`, `DELETE FROM summary WHERE session = ?1`, `DELETE FROM run WHERE session = ?1`, `DELETE FROM origin WHERE session = ?1`,
		`DELETE FROM open WHERE session = ?1`,
	} {
		if err := s.write.exec(statement, row); err != nil {
			return err
		}
	}
	return nil
}

// A Span is a span with its resource and scope.
type Span struct {
	*tracepb.Span
	Resource *resourcepb.Resource
	Scope    *commonpb.InstrumentationScope
	origin   origin
}

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
	for sp, err := range spans(from, row, since) {
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

// A decoder decodes spans. It decodes an origin once.
type decoder map[origin]Span

// decode returns no error because the span is valid.
func (d decoder) decode(sp stored) Span {
	s, known := d[sp.origin]
	if !known {
		var header tracepb.ResourceSpans
		_ = proto.Unmarshal([]byte(sp.origin.wire), &header)
		s = Span{Resource: header.GetResource(), Scope: new(commonpb.InstrumentationScope), origin: sp.origin}
		if scopes := header.GetScopeSpans(); len(scopes) > 0 {
			s.Scope = scopes[0].GetScope()
		}
		d[sp.origin] = s
	}
	s.Span = new(tracepb.Span)
	_ = proto.Unmarshal(sp.wire, s.Span)
	return s
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

// parseTraceID reads an id in hex. Jaeger leaves out leading zeros in links.
func parseTraceID(s string) (id traceID, ok bool) {
	s = strings.Repeat("0", max(0, 2*len(id)-len(s))) + s
	n, err := hex.Decode(id[:], []byte(s[:2*len(id)]))
	return id, err == nil && n == len(id) && len(s) == 2*len(id)
}

func newSource() string { return rand.Text() }
