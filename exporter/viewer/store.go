package viewer

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spantee/spantee/exporter/runs"
)

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
	log   os.FileInfo // of what is not in the file yet
	stale bool        // the database is to be opened again
	faults
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

// faults are errors since the last transaction that say that the database is damaged. Opening it
// again repairs what others did to its log; after a second one, a new database begins.
type faults struct {
	n    int
	last error
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

const (
	// spanOverhead is what a span takes on disk besides its bytes.
	spanOverhead = 100

	recordOverhead = 300
	idOverhead     = 20

	// maxCache bounds the records in memory, in bytes.
	maxCache = 16 << 20
)

// An update is a transaction that changes sessions.
type update struct {
	*Store
	seq     int64
	rows    int64 // sessions there ever were
	touched map[traceID]*record
	reading runs.Span          // the span that is added
	queued  map[string][][]any // rows to insert, by statement
	changed []runOutline
}

// Statements of an update, up to their values.
const (
	insertOrigin  = `INSERT INTO origin (session, n, wire)`
	insertBatch   = `INSERT INTO batch (at, origin, wire)`
	insertSession = `INSERT INTO session (seq, updated, last, bytes, heard, spans, started, duration, tools, errors, input, output, cost,
		agent, model, folder, conversation, failed, ended, test, row, trace)`
	insertSummary   = `INSERT OR REPLACE INTO summary (session, summary)`
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

// A batch is a row of the database: spans that came together, as an encoded ScopeSpans
// without its scope. A span that was replaced is empty, so that later ones keep their numbers.
type batch struct {
	origin int64
	wire   []byte
}

// maxBatch bounds a batch of several spans, in bytes: a batch is read as a whole.
const maxBatch = 256 << 10

// A session's batches are a range of rows: a batch has its session's row, and the number of
// its last span.
const (
	spanBits  = 24
	maxNumber = 1<<spanBits - 1
	maxSpans  = 1 << 20 // of a session; their ids are in memory while spans are added
)

// A runOutline is the encoded outline of a session's run, nil if it does not count.
type runOutline struct {
	row     int64
	outline []byte
}

// Runs reads all outlines, and each row of the database has its price: a row has those of as many
// sessions.
const outlinesBits = 4

// outlinesIn returns the outlines of a row of the database.
func outlinesIn(b []byte) iter.Seq[runOutline] {
	return func(yield func(runOutline) bool) {
		for len(b) > 0 {
			row, n := binary.Uvarint(b)
			size, m := binary.Uvarint(b[max(0, n):])
			if n <= 0 || m <= 0 || size > uint64(len(b)-n-m) {
				return
			}
			b = b[n+m:]
			if !yield(runOutline{int64(row), b[:size]}) {
				return
			}
			b = b[size:]
		}
	}
}

// setOutlines writes the outlines of sessions in place of their earlier ones. They are sorted by row.
func (w *writer) setOutlines(changed []runOutline) error {
	for len(changed) > 0 {
		at := changed[0].row >> outlinesBits
		end := slices.IndexFunc(changed, func(o runOutline) bool { return o.row>>outlinesBits != at })
		if end < 0 {
			end = len(changed)
		}
		var before, b []byte
		if err := one(w, `SELECT outlines FROM run WHERE at = ?`, at)(&before); err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		list := slices.DeleteFunc(slices.Collect(outlinesIn(before)), func(o runOutline) bool {
			return slices.ContainsFunc(changed[:end], func(c runOutline) bool { return c.row == o.row })
		})
		for _, o := range append(list, changed[:end]...) {
			if o.outline != nil {
				b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(o.row)), uint64(len(o.outline)))
				b = append(b, o.outline...)
			}
		}
		if err := w.exec(`INSERT OR REPLACE INTO run VALUES (?, ?)`, at, b); err != nil {
			return err
		}
		changed = changed[end:]
	}
	return nil
}

// Retention is what a store keeps of the sessions that are not pinned.
type Retention struct {
	Age   time.Duration // since the last change; 0 for any
	Bytes int64         // of the database; 0 for any
}

// open opens the database, and sets one aside that cannot be used.
func (s *Store) open() error {
	if s.path == "" {
		return s.connect("file:/" + newSource() + "?vfs=memdb&")
	}
	if err := checkFiles(s.path, true); err != nil {
		return err
	}
	dsn := "file:" + (&url.URL{Path: filepath.ToSlash(s.path)}).EscapedPath() + "?_pragma=journal_mode(wal)&"
	err := s.faults.last
	if s.n < 2 {
		for tries := 0; tries < 100 && (tries == 0 || isBusy(err)); tries++ { // SQLite does not always wait itself
			time.Sleep(time.Duration(min(tries, 1)) * 100 * time.Millisecond)
			err = s.connect(dsn)
		}
		if !isDamaged(err) && !errors.Is(err, errOtherVersion) {
			return err
		}
	}
	aside := fmt.Sprintf("%s.aside-%d", s.path, time.Now().UnixNano())
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Rename(s.path+suffix, aside+suffix); err != nil && suffix == "" {
			return err
		}
	}
	s.problem(fmt.Errorf("%s cannot be used (%w): it is now %s, and a new one begins", s.path, err, aside))
	if err := checkFiles(s.path, true); err != nil {
		return err
	}
	return s.connect(dsn)
}

var errOtherVersion = errors.New("another version of spantee wrote it")

func (s *Store) connect(dsn string) (err error) {
	s.cache, s.size = make(map[traceID]*record), 0
	s.write.statements = make(map[string]*sql.Stmt)
	dsn += "_pragma=busy_timeout(10000)&_pragma=synchronous(normal)&_pragma=wal_autocheckpoint(16000)&_pragma=temp_store(memory)&_pragma=cache_size(-8000)"
	if s.write.db, err = sql.Open("sqlite", dsn+"&_pragma=auto_vacuum(incremental)&_txlock=immediate"); err != nil {
		return err
	}
	if s.read.db, err = sql.Open("sqlite", dsn); err == nil {
		s.read.db.SetMaxOpenConns(maxReaders)
		if s.write.conn, err = s.write.db.Conn(context.Background()); err == nil {
			err = s.write.transaction(s.create)
		}
	}
	if err == nil && s.path != "" {
		s.file, err = os.Stat(s.path)
		s.log = s.statLog()
	}
	if err != nil {
		s.closeFiles()
	}
	return err
}

func (s *Store) closeFiles() {
	if s.read.db != nil {
		_ = s.read.db.Close()
	}
	s.write.close()
	s.file, s.log = nil, nil
}

// transaction commits what run wrote, unless it returns an error. run is called again if the
// database was deleted, replaced or damaged meanwhile: what was written to the old one is lost.
func (s *Store) transaction(run func() error) (err error) {
	s.write.mu.Lock()
	defer s.write.mu.Unlock()
	for range 4 {
		if err := s.reopen(); err != nil {
			return err
		}
		err = s.write.transaction(run)
		if s.noteDamage(err); s.stale || s.replaced() {
			continue
		}
		if err == nil {
			s.faults, s.log = faults{}, s.statLog()
		}
		return err
	}
	return cmp.Or(err, fmt.Errorf("%s is replaced again and again", s.path))
}

// noteDamage has the database opened again after an error that says that it is damaged.
func (s *Store) noteDamage(err error) {
	if s.path != "" && isDamaged(err) {
		s.stale, s.faults = true, faults{s.n + 1, err}
	}
}

// replaced reports whether the database or its log is not the file of that name any more, or
// was emptied.
func (s *Store) replaced() bool {
	if s.path == "" {
		return false
	}
	now, err := os.Stat(s.path)
	if err != nil {
		return s.file == nil || errors.Is(err, fs.ErrNotExist)
	}
	if s.file == nil || !os.SameFile(now, s.file) || now.Size() == 0 && s.file.Size() > 0 {
		return true
	}
	log := s.statLog()
	return s.log != nil && (log == nil || !os.SameFile(log, s.log) || log.Size() < s.log.Size())
}

// statLog returns the file of the log, nil if there is none. While a database is open, its log
// does not shrink.
func (s *Store) statLog() os.FileInfo {
	info, err := os.Stat(s.path + "-wal")
	if err != nil {
		return nil
	}
	return info
}

// reopen opens the file that now has the database's name, if it is another one or damaged.
func (s *Store) reopen() error {
	if !s.stale && !s.replaced() {
		return nil
	}
	s.read.mu.Lock()
	defer s.read.mu.Unlock()
	if s.file != nil && !s.stale {
		s.problem(fmt.Errorf("%s was deleted, emptied or replaced: sessions that were kept in it may be gone", s.path))
	}
	s.closeFiles()
	s.stale = false
	return s.open()
}

// create creates the tables of a new database.
func (s *Store) create() error {
	var found, tables int
	if err := one(s.write, `SELECT user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_user_version`)(&found, &tables); err != nil {
		return err
	}
	switch {
	case found == version:
		return s.forgetTests() // fails if the database is corrupt
	case found != 0 || tables != 0:
		return errOtherVersion
	}
	_, err := s.write.conn.ExecContext(context.Background(), schema+fmt.Sprintf("PRAGMA user_version = %d", version))
	return err
}

// forgetTests removes the sessions of spantee doctor.
func (s *Store) forgetTests() error {
	rows, err := all[int64](s.write, `SELECT row FROM session WHERE test`)
	for _, row := range rows {
		if err == nil {
			err = s.remove(row)
		}
	}
	return err
}

// remove removes a session. Pages that show it learn that something changed.
func (s *Store) remove(row int64) error {
	for _, statement := range []string{
		`DELETE FROM session WHERE row = ?1`, `UPDATE session SET richer = 0 WHERE richer > 0 AND richer = ?1`, `DELETE FROM unindexed WHERE session = ?1`, deleteDocuments,
		`DELETE FROM batch WHERE at > ?1 << 24 AND at < (?1 + 1) << 24`, `DELETE FROM summary WHERE session = ?1`, `DELETE FROM origin WHERE session = ?1`,
		`DELETE FROM open WHERE session = ?1`,
	} {
		if err := s.write.exec(statement, row); err != nil {
			return err
		}
	}
	return s.write.setOutlines([]runOutline{{row, nil}})
}

// deleteDocuments removes a session's documents.
const deleteDocuments = `DELETE FROM search WHERE rowid > ?1 << 24 AND rowid < (?1 + 1) << 24`

// failed reports an error of the database, unless it is the last one again.
func (s *Store) failed(err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	again := s.last == err.Error()
	s.last = err.Error()
	s.mu.Unlock()
	if !again {
		s.problem(fmt.Errorf("the sessions' database: %w", err))
	}
}

func newSource() string { return rand.Text() }
