package viewer

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

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
	write *writer // its lock guards the fields below
	cache map[traceID]*record
	size  int // of the cache, in bytes

	mu      sync.Mutex
	changed chan struct{} // closed, and replaced, when something has come
	moved   map[traceID]traceID
	last    string // error that was reported

	seen  atomic.Int64 // the clock when changed was last closed
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
	run     runs.Run // of the spans that ended
	service string   // of the root
	size    int      // in the cache

	text  *document        // to be indexed; nil if there is nothing
	live  *document        // the same of the open spans; nil if they did not change
	known map[passage]bool // short texts that are indexed

	stale    bool // run is unknown
	replaced bool // a span was replaced: run and the index are wrong
	reported bool // the open spans changed
}

// An origin is the resource and the scope of spans: an encoded ResourceSpans without
// spans.
type origin string

// A stored is an encoded span: decoded, it would take several times the memory.
type stored struct {
	id     spanID
	n      int64 // its number in the session: later spans have higher ones
	origin origin
	wire   []byte
}

func (sp *stored) read() *runs.Span {
	s := new(runs.Span)
	_ = s.Read(sp.wire) // the store encoded it
	return s
}

const (
	// A span's row is its session's row and its number in the session, so that a session
	// lies together and its latest spans are a range.
	spanBits = 24
	maxSpans = 1<<spanBits - 1

	// spanOverhead is what a span takes on disk besides its bytes.
	spanOverhead = 100

	recordOverhead = 300
	knownOverhead  = 100

	// maxCache bounds the records in memory, in bytes.
	maxCache = 16 << 20
)

// Add adds spans that ended, replacing spans with the same id. It returns how many
// it rejected: those without a valid id, or with text that is not UTF-8. After an
// error, none of the spans was added.
func (s *Store) Add(spans []*tracepb.ResourceSpans) (rejected int, err error) {
	return s.add(spans, time.Now())
}

func (s *Store) add(spans []*tracepb.ResourceSpans, now time.Time) (rejected int, err error) {
	taken, rejected := encode(spans)
	if len(taken) == 0 {
		return rejected, nil
	}
	err = s.update(now, func(u *update) error {
		rows := make([]row, 0, len(taken))
		for _, e := range taken {
			r, err := u.record(e.trace)
			if err == nil && r.last == maxSpans {
				rejected++
				continue
			}
			var from int64
			if err == nil {
				from, err = u.add(r, &e)
			}
			if err != nil {
				return err
			}
			rows = append(rows, row{r, e.stored, from})
		}
		return u.insert(rows)
	})
	return rejected, err
}

// An encoded is a span in the form in which it is stored, and its texts.
type encoded struct {
	trace traceID
	stored
	texts []passage
}

func encode(spans []*tracepb.ResourceSpans) (taken []encoded, rejected int) {
	for _, rs := range spans {
		for _, ss := range rs.GetScopeSpans() {
			header, err := proto.MarshalOptions{Deterministic: true}.Marshal(&tracepb.ResourceSpans{
				Resource: rs.GetResource(), ScopeSpans: []*tracepb.ScopeSpans{{Scope: ss.GetScope()}},
			})
			if err != nil { // the spans are useful without it
				header = nil
			}
			from := origin(header)
			for _, span := range ss.GetSpans() {
				wire, err := proto.Marshal(span)
				if err != nil || !validID(span.GetTraceId(), len(traceID{})) || !validID(span.GetSpanId(), len(spanID{})) {
					rejected++
					continue
				}
				taken = append(taken, encoded{
					traceID(span.GetTraceId()),
					stored{id: spanID(span.GetSpanId()), origin: from, wire: wire},
					passages(Span{Span: span, Resource: rs.GetResource()}),
				})
			}
		}
	}
	return taken, rejected
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
	reading runs.Span
	decoder decoder
}

// update runs a transaction, and tells whoever waits for changes.
func (s *Store) update(now time.Time, change func(*update) error) error {
	u := &update{Store: s, touched: make(map[traceID]*record), decoder: decoder{}}
	err := s.write.transaction(func() error {
		if err := one(s.write, `UPDATE clock SET seq = seq + 1 RETURNING seq, rows`)(&u.seq, &u.rows); err != nil {
			return err
		}
		rows := u.rows
		err := change(u)
		if err == nil && u.rows > rows {
			err = s.write.exec(`UPDATE clock SET rows = ?`, u.rows)
		}
		for _, r := range u.touched {
			if err == nil {
				err = u.summarize(r, now)
			}
		}
		for _, r := range u.touched { // together: SQLite writes what is in memory of the index before it does anything else
			if err == nil {
				err = u.flush(r, r.last)
			}
		}
		if err != nil {
			s.cache, s.size = make(map[traceID]*record), 0 // what was read may not be there
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("store sessions: %w", err)
	}
	s.seen.Store(u.seq)
	s.notify()
	return nil
}

// notify wakes whoever waits for changes.
func (s *Store) notify() {
	s.mu.Lock()
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
}

// record returns the record of a session, which is new if there is none.
func (u *update) record(id traceID) (*record, error) {
	if r := u.touched[id]; r != nil {
		return r, nil
	}
	r := &record{id: id, origins: make(map[origin]int64)}
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
			r.stale = true
		}
	}
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
		list[origin(wire)] = n
		return err
	}, `SELECT n, wire FROM origin WHERE session = ?`, row)
	return list, err
}

func (u *update) origin(r *record, from origin) (int64, error) {
	n, ok := r.origins[from]
	if !ok {
		n = int64(len(r.origins))
		if err := u.write.exec(`INSERT INTO origin (session, n, wire) VALUES (?, ?, ?)`, r.row, n, []byte(from)); err != nil {
			return 0, err
		}
		r.origins[from] = n
		r.bytes += int64(len(from))
		service := cmp.Or(serviceOf(from), unknownService)
		if err := u.write.exec(`INSERT OR IGNORE INTO service (name, session) VALUES (?, ?)`, service, r.row); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// add takes a span, numbers it, and returns the number of its origin.
func (u *update) add(r *record, e *encoded) (from int64, err error) {
	if from, err = u.origin(r, e.origin); err != nil {
		return from, err
	}
	if r.open > 0 {
		if err := u.write.exec(`DELETE FROM open WHERE session = ? AND id = ?`, r.row, e.id[:]); err != nil {
			return from, err
		}
	}
	r.last++
	e.n = r.last
	u.grown.Add(int64(len(e.wire)) + spanOverhead)
	if !r.stale {
		u.sum(r, &e.stored)
	}
	return from, u.index(r, e.n, e.texts)
}

// A row is a row of the table of spans.
type row struct {
	*record
	stored
	from int64 // number of the origin
}

// insert writes spans. A span replaces one with its id.
func (u *update) insert(rows []row) error {
	const atOnce = 16 // each statement has its price
	for len(rows) > 0 {
		n := 1
		if len(rows) >= atOnce {
			n = atOnce
		}
		added, err := u.insertNew(rows[:n])
		for i := 0; i < n && err == nil && added < int64(n); i++ {
			r := &rows[i]
			var result sql.Result
			result, err = u.write.result(`DELETE FROM span WHERE at >> 24 = ? AND id = ? AND at <> ?`, r.row, r.stored.id[:], r.at())
			if err == nil {
				deleted, _ := result.RowsAffected() // without error in SQLite
				if deleted > 0 {
					r.stale, r.replaced = true, true
				}
				_, err = u.insertNew(rows[i : i+1])
			}
		}
		if err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

func (r *row) at() int64 { return r.row<<spanBits + r.n }

// insertNew inserts the spans whose ids are new.
func (u *update) insertNew(rows []row) (added int64, err error) {
	args := make([]any, 0, 4*len(rows))
	for i := range rows {
		r := &rows[i]
		args = append(args, r.at(), r.stored.id[:], r.from, r.wire)
	}
	result, err := u.write.result(`INSERT OR IGNORE INTO span (at, id, origin, wire) VALUES (?, ?, ?, ?)`+strings.Repeat(`, (?, ?, ?, ?)`, len(rows)-1), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// sum adds a span to what is known of its session.
func (u *update) sum(r *record, sp *stored) {
	_ = u.reading.Read(sp.wire) // the store encoded it
	if isRoot := r.run.Add(&u.reading); isRoot || r.service == "" {
		r.service = serviceOf(sp.origin)
	}
	r.bytes += int64(len(sp.wire)) + spanOverhead
}

// rebuild reads all spans of a session, and indexes them again if one was replaced.
func (u *update) rebuild(r *record) error {
	r.run, r.service, r.bytes = runs.Run{}, "", 0
	if r.replaced {
		r.text, r.known = nil, nil
		if err := u.write.exec(`DELETE FROM search WHERE rowid > ? AND rowid < ?`, r.row<<spanBits, (r.row+1)<<spanBits); err != nil {
			return err
		}
	}
	for sp, err := range spans(u.write, r.row, 0) {
		if err != nil {
			return err
		}
		u.sum(r, &sp)
		if r.replaced {
			if err := u.index(r, sp.n, passages(u.decoder.decode(sp))); err != nil {
				return err
			}
		}
	}
	r.stale, r.replaced = false, false
	return nil
}

// summarize writes what the list shows of a session. A session without spans is gone.
func (u *update) summarize(r *record, now time.Time) error {
	if r.stale {
		if err := u.rebuild(r); err != nil {
			return err
		}
	}
	var open []openSpan
	if r.open > 0 || r.reported {
		var err error
		if open, err = openSpans(u.write, r.row); err != nil {
			return err
		}
		u.indexOpen(r, open)
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
				service = serviceOf(open[i].origin)
			}
		}
	}
	session := newSession(r.id, run, service, now)
	session.Ended = run.Rooted && !slices.ContainsFunc(open, func(sp openSpan) bool { return sp.read().MayBeRoot() })
	summary, err := json.Marshal(session)
	if err != nil {
		return err
	}
	calls, err := json.Marshal(callsOf(run))
	if err != nil {
		return err
	}
	if err := u.write.exec(`INSERT OR REPLACE INTO summary (session, summary, calls) VALUES (?, ?, ?)`, r.row, string(summary), string(calls)); err != nil {
		return err
	}
	usage := run.Usage()
	write := updateSession
	if r.fresh {
		write = insertSession
	}
	err = u.write.exec(write, u.seq, now.UnixMicro(), r.last, r.bytes, int64(min(r.run.End, math.MaxInt64)), run.Spans, session.Start, session.End-session.Start, run.Tools, run.Errors,
		usage.Input, usage.Output, usage.Cost, cmp.Or(session.Agent, service), session.Model, session.Failure != "", session.Ended, run.Name == TestSpan, r.row, r.id[:])
	r.fresh, r.reported = false, false
	if err == nil {
		u.remember(r)
	}
	return err
}

const (
	insertSession = `INSERT INTO session (seq, updated, last, bytes, heard, spans, started, duration, tools, errors, input, output, cost,
		agent, model, failed, ended, test, row, trace) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	updateSession = `UPDATE session SET seq = ?, updated = ?, last = ?, bytes = ?, heard = ?, spans = ?, started = ?, duration = ?, tools = ?, errors = ?,
		input = ?, output = ?, cost = ?, agent = ?, model = ?, failed = ?, ended = ?, test = ? WHERE row = ? AND trace = ?`
)

// remember keeps a record for the next spans of its session.
func (s *Store) remember(r *record) {
	if s.size > maxCache {
		s.cache, s.size = make(map[traceID]*record), 0
	}
	if s.cache[r.id] != r {
		s.cache[r.id], r.size = r, 0
	}
	s.size -= r.size
	r.size = r.run.Size() + recordOverhead + len(r.known)*knownOverhead
	for from := range r.origins {
		r.size += len(from)
	}
	s.size += r.size
}

// remove removes a session. Pages that show it learn that something changed.
func (s *Store) remove(row int64) error {
	for _, statement := range []string{
		`DELETE FROM session WHERE row = ?1`, `DELETE FROM search WHERE rowid >= ?1 << 24 AND rowid < (?1 + 1) << 24`,
		`DELETE FROM span WHERE at > ?1 << 24 AND at < (?1 + 1) << 24`, `DELETE FROM summary WHERE session = ?1`, `DELETE FROM origin WHERE session = ?1`,
		`DELETE FROM service WHERE session = ?1`, `DELETE FROM open WHERE session = ?1`,
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

// find returns the row of a session and the number of its last span, 0 if there is none.
func (s *Store) find(from querier, id traceID) (row, last int64, err error) {
	err = one(from, `SELECT row, last FROM session WHERE trace = ?`, id[:])(&row, &last)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return row, last, err
}

// Spans returns the spans of a trace that came after since, and the value of since
// for the next call. since is zero in the first call. For an unknown trace there
// are no spans.
func (s *Store) Spans(id traceID, since int64) (list []Span, seq int64, err error) {
	row, seq, err := s.find(s.read, id)
	if err != nil || row == 0 {
		return nil, 0, err
	}
	d := decoder{}
	for sp, err := range spans(s.read, row, since) {
		if err != nil {
			return nil, 0, err
		}
		list = append(list, d.decode(sp))
	}
	return list, seq, nil
}

// Span returns one span, nil if it is not there, and whether it is open.
func (s *Store) Span(id traceID, span spanID) (found *Span, open bool, err error) {
	var wire, from []byte
	err = one(s.read, `
		SELECT span.wire, origin.wire, 0 FROM session JOIN span ON at >> 24 = row AND id = ?2 JOIN origin ON session = row AND n = origin WHERE trace = ?1
		UNION ALL
		SELECT open.wire, origin.wire, 1 FROM session JOIN open ON open.session = row AND id = ?2 JOIN origin ON origin.session = row AND n = origin WHERE trace = ?1`,
		id[:], span[:])(&wire, &from, &open)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	sp := decoder{}.decode(stored{id: span, origin: origin(from), wire: wire})
	return &sp, open, nil
}

// A decoder decodes spans. It decodes an origin once.
type decoder map[origin]Span

// decode returns no error because the store encoded the span.
func (d decoder) decode(sp stored) Span {
	s, known := d[sp.origin]
	if !known {
		var header tracepb.ResourceSpans
		_ = proto.Unmarshal([]byte(sp.origin), &header)
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

// serviceOf returns the name of the service in an encoded origin.
func serviceOf(from origin) string {
	var header tracepb.ResourceSpans
	_ = proto.Unmarshal([]byte(from), &header) // was encoded by us
	return cutText(text(header.GetResource().GetAttributes(), keyService), maxDetail)
}

// Changes returns the ids of up to limit traces that changed after since, the
// latest first, the value of since for the next call, and a channel that is closed
// at the next change.
func (s *Store) Changes(since int64, limit int) (ids []traceID, seq int64, more <-chan struct{}, err error) {
	s.mu.Lock()
	more = s.changed
	s.mu.Unlock()
	if err = one(s.read, `SELECT seq FROM clock`)(&seq); err != nil {
		return nil, since, more, err
	}
	ids, err = all[traceID](s.read, `SELECT trace FROM session WHERE seq > ? AND seq <= ? ORDER BY seq DESC LIMIT ?`, since, seq, limit)
	return ids, seq, more, err
}

// Sequence returns the value to pass to Since or Changes to get only later changes.
func (s *Store) Sequence() int64 {
	_, seq, _, _ := s.Changes(math.MaxInt64, 0)
	return seq
}

// Since returns the ids of the traces that changed after seq.
func (s *Store) Since(seq int64) []string {
	found, _, _, _ := s.Changes(seq, math.MaxInt32)
	ids := make([]string, len(found))
	for i, id := range found {
		ids[i] = id.String()
	}
	return ids
}

// parseTraceID reads an id in hex. Jaeger and Grafana leave out leading zeros.
func parseTraceID(s string) (id traceID, ok bool) {
	s = strings.Repeat("0", max(0, 2*len(id)-len(s))) + s
	n, err := hex.Decode(id[:], []byte(s[:2*len(id)]))
	return id, err == nil && n == len(id) && len(s) == 2*len(id)
}

func newSource() string { return rand.Text() }
