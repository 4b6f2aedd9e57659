package viewer

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/spantee/spantee/exporter/spool"
)

// version is that of the schema. A database of another version is set aside.
const version = 9

const schema = `
CREATE TABLE clock (seq INTEGER NOT NULL, rows INTEGER NOT NULL); -- changes, and sessions there ever were
INSERT INTO clock VALUES (0, 0);

-- What sessions are listed, sorted and found by. Rows are narrow because lists read
-- all of them.
CREATE TABLE session (
	row INTEGER PRIMARY KEY,
	trace BLOB NOT NULL UNIQUE,
	seq INTEGER NOT NULL DEFAULT 0,     -- the clock at its last change
	updated INTEGER NOT NULL DEFAULT 0, -- microseconds since 1970, like started
	last INTEGER NOT NULL DEFAULT 0,    -- number of its last span
	bytes INTEGER NOT NULL DEFAULT 0,
	heard INTEGER NOT NULL DEFAULT 0,   -- last end of a span, in nanoseconds since 1970
	spans INTEGER NOT NULL DEFAULT 0,
	started INTEGER NOT NULL DEFAULT 0,
	duration INTEGER NOT NULL DEFAULT 0,
	tools INTEGER NOT NULL DEFAULT 0,
	errors INTEGER NOT NULL DEFAULT 0,  -- of tools
	input INTEGER NOT NULL DEFAULT 0,
	output INTEGER NOT NULL DEFAULT 0,
	cost REAL NOT NULL DEFAULT 0,
	agent TEXT NOT NULL DEFAULT '',
	model TEXT NOT NULL DEFAULT '',
	folder TEXT NOT NULL DEFAULT '',
	failed INTEGER NOT NULL DEFAULT 0,  -- it or one of its tools did
	ended INTEGER NOT NULL DEFAULT 0,
	test INTEGER NOT NULL DEFAULT 0,    -- it is the test span of doctor
	pinned INTEGER NOT NULL DEFAULT 0,
	conversation TEXT NOT NULL DEFAULT '', -- of a session whose root is known
	richer INTEGER NOT NULL DEFAULT 0   -- row of the session that has more of the same run: see rank
);
CREATE INDEX session_run ON session (conversation, started, agent) WHERE conversation <> ''; -- of copies
CREATE INDEX session_richer ON session (richer) WHERE richer > 0;
CREATE INDEX session_started ON session (started DESC, trace);
CREATE INDEX session_test ON session (row) WHERE test;
CREATE INDEX session_changed ON session (seq, pinned, updated, bytes);

-- How many sessions are listed of each agent, model and folder.
CREATE TABLE facet (agent TEXT, model TEXT, folder TEXT, sessions INTEGER NOT NULL, spans INTEGER NOT NULL, PRIMARY KEY (agent, model, folder)) WITHOUT ROWID;
CREATE TRIGGER facet_insert AFTER INSERT ON session BEGIN
	INSERT INTO facet VALUES (new.agent, new.model, new.folder, 1, new.spans) ON CONFLICT DO UPDATE SET sessions = sessions + 1, spans = spans + excluded.spans;
END;
CREATE TRIGGER facet_delete AFTER DELETE ON session BEGIN
	UPDATE facet SET sessions = sessions - 1, spans = spans - old.spans WHERE (agent, model, folder) = (old.agent, old.model, old.folder) AND old.richer = 0;
	DELETE FROM facet WHERE (agent, model, folder) = (old.agent, old.model, old.folder) AND sessions = 0;
END;
CREATE TRIGGER facet_update AFTER UPDATE OF agent, model, folder, spans, richer ON session BEGIN
	UPDATE facet SET sessions = sessions - 1, spans = spans - old.spans WHERE (agent, model, folder) = (old.agent, old.model, old.folder) AND old.richer = 0;
	INSERT INTO facet SELECT new.agent, new.model, new.folder, 1, new.spans WHERE new.richer = 0 ON CONFLICT DO UPDATE SET sessions = sessions + 1, spans = spans + excluded.spans;
	DELETE FROM facet WHERE (agent, model, folder) = (old.agent, old.model, old.folder) AND sessions = 0;
END;

CREATE TABLE summary (session INTEGER PRIMARY KEY, summary BLOB NOT NULL);
CREATE TABLE run (at INTEGER PRIMARY KEY, outlines BLOB); -- see setOutlines
CREATE TABLE batch (at INTEGER PRIMARY KEY, origin INTEGER NOT NULL, wire BLOB NOT NULL);
CREATE TABLE origin (session INTEGER, n INTEGER, wire BLOB NOT NULL, PRIMARY KEY (session, n)) WITHOUT ROWID;

-- Spans that have not ended, as their process wrote them, and when it was last known to live, in nanoseconds since 1970.
CREATE TABLE open (
	source TEXT, session INTEGER, id BLOB, origin INTEGER NOT NULL, wire BLOB NOT NULL,
	written INTEGER NOT NULL, reported INTEGER NOT NULL, gone INTEGER NOT NULL DEFAULT 0,
	PRIMARY KEY (source, session, id)
) WITHOUT ROWID;
CREATE INDEX open_session ON open (session);

-- Sessions with text that is not in the index, and the number of the last span whose text is.
CREATE TABLE unindexed (session INTEGER PRIMARY KEY, since INTEGER NOT NULL);
CREATE VIRTUAL TABLE search USING fts5 (
	text, tool, agent, model, file, id,
	content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 0'
);
`

// maxReaders bounds what connections take: each has a cache of 8 MB.
const maxReaders = 4

// isDamaged reports whether an error says that others have changed the files of a database.
func isDamaged(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return errors.Is(err, errNoClock)
	}
	return slices.Contains([]int{sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}, e.Code()&0xff) ||
		slices.Contains([]int{sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_IOERR_IN_PAGE, sqlite3.SQLITE_READONLY_DBMOVED}, e.Code()) ||
		strings.Contains(e.Error(), "no such table") || strings.Contains(e.Error(), "no such column")
}

func isBusy(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && e.Code()&0xff == sqlite3.SQLITE_BUSY
}

var errNoClock = errors.New("its counters are gone")

// Check returns an error if the database must not be used, such as a *spool.Untrusted.
func Check(path string) error {
	if err := checkFiles(path, false); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil // it will be created
}

// checkFiles checks the files of a database, and creates the first of them, which gives its
// mode to the others.
func checkFiles(path string, create bool) error {
	if err := spool.EnterDir(filepath.Dir(path), create); err != nil {
		return err
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		flag := os.O_RDONLY
		if suffix == "" && create {
			flag = os.O_RDWR | os.O_CREATE
		}
		f, _, err := spool.OpenFile(path+suffix, flag)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		_ = f.Close()
	}
	return nil
}

// Integrity returns what is wrong with a database, nil if nothing is.
func Integrity(path string) error {
	if err := Check(path); err != nil {
		return err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: filepath.ToSlash(path)}).EscapedPath()+"?mode=ro&_pragma=busy_timeout(1000)")
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	problems, err := all[string](reader{&pool{new(sync.RWMutex), db}, context.Background()}, `PRAGMA quick_check(3)`)
	if err == nil && !slices.Equal(problems, []string{"ok"}) {
		err = errors.New(strings.Join(problems, "; "))
	}
	return err
}

// A querier runs queries, inside the writer's transaction or outside. done ends a query.
type querier interface {
	query(text string, args ...any) (rows *sql.Rows, done func(), err error)
}

// A reader reads outside of transactions, and never nests queries. A file can be read while
// it is written. A database in memory cannot: its readers share the writer's lock.
type reader struct {
	*pool
	ctx context.Context // ends the queries
}

// A pool has the connections of readers. Its lock is held for a query.
type pool struct {
	mu *sync.RWMutex
	db *sql.DB
}

// during returns a reader whose queries end with ctx.
func (r reader) during(ctx context.Context) reader {
	r.ctx = ctx
	return r
}

func (r reader) query(text string, args ...any) (*sql.Rows, func(), error) {
	r.mu.RLock()
	rows, err := r.db.QueryContext(r.ctx, text, args...)
	if err != nil {
		r.mu.RUnlock()
		return nil, nil, err
	}
	return rows, func() { _ = rows.Close(); r.mu.RUnlock() }, nil
}

// A writer is the one connection that writes. Its lock is held for a transaction, and to open
// the database again.
type writer struct {
	mu         sync.RWMutex
	db         *sql.DB
	conn       *sql.Conn
	statements map[string]*sql.Stmt
}

// transaction commits what run wrote, unless it returns an error.
func (w *writer) transaction(run func() error) error {
	tx, err := w.conn.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	if err := run(); err != nil {
		_ = tx.Rollback() // SQLite may have done so
		return err
	}
	return tx.Commit()
}

func (w *writer) prepared(query string) (*sql.Stmt, error) {
	statement := w.statements[query]
	if statement == nil {
		var err error
		if statement, err = w.conn.PrepareContext(context.Background(), query); err != nil {
			return nil, err
		}
		w.statements[query] = statement
	}
	return statement, nil
}

func (w *writer) exec(query string, args ...any) error {
	statement, err := w.prepared(query)
	if err == nil {
		_, err = statement.ExecContext(context.Background(), args...)
	}
	return err
}

// insert inserts rows. into is the statement up to its values.
func (w *writer) insert(into string, rows [][]any) error {
	const atOnce = 16 // each statement has its price
	for len(rows) > 0 {
		n := 1
		if len(rows) >= atOnce {
			n = atOnce
		}
		values := `(?` + strings.Repeat(`, ?`, len(rows[0])-1) + `)`
		if err := w.exec(into+` VALUES `+values+strings.Repeat(`, `+values, n-1), slices.Concat(rows[:n]...)...); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

func (w *writer) query(text string, args ...any) (*sql.Rows, func(), error) {
	statement, err := w.prepared(text)
	if err != nil {
		return nil, nil, err
	}
	rows, err := statement.QueryContext(context.Background(), args...)
	return rows, func() { _ = rows.Close() }, err
}

func (w *writer) close() {
	for _, statement := range w.statements {
		_ = statement.Close()
	}
	if w.conn != nil {
		_ = w.conn.Close()
	}
	_ = w.db.Close()
}

// one returns a function that reads the first row of a query. It returns sql.ErrNoRows if
// there is none.
func one(from querier, text string, args ...any) func(into ...any) error {
	return func(into ...any) error {
		rows, done, err := from.query(text, args...)
		if err != nil {
			return err
		}
		defer done()
		if !rows.Next() {
			return cmp.Or(rows.Err(), sql.ErrNoRows)
		}
		return rows.Scan(into...)
	}
}

// each calls do with each row of a query.
func each(from querier, do func(scan func(...any) error) error, text string, args ...any) error {
	rows, done, err := from.query(text, args...)
	if err != nil {
		return err
	}
	defer done()
	for rows.Next() {
		if err := do(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// all returns the one column of a query.
func all[T any](from querier, text string, args ...any) ([]T, error) {
	list := []T{}
	err := each(from, func(scan func(...any) error) error {
		var v T
		err := scan(&v)
		list = append(list, v)
		return err
	}, text, args...)
	return list, err
}
