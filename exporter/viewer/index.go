package viewer

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spantee/spantee/exporter/runs"
)

// The full-text index is written later than the spans: while nothing is received, and of a few
// sessions before a search. Until then the table unindexed has the session, and the number of
// its last span whose text is in the index.

// A document is a row of the index: texts of one session, by field. Its number is that of
// the last span.
type document struct {
	fields [len(fields)]strings.Builder
	size   int
}

// maxDocument bounds a document, and roughly what is indexed in one transaction, in bytes.
const maxDocument = 1 << 20

func (d *document) add(field, text string) {
	d.size += len(text)
	b := &d.fields[slices.Index(fields[:], field)]
	b.WriteString(text)
	b.WriteString(" \x00 ") // no phrase goes from one to the next
}

func (d *document) take(p passage) {
	d.add(p.field, p.text)
	for w := range humps(p.text) {
		d.add(p.field, w.text)
	}
}

// A search waits for the text of a few sessions, and not for long.
const (
	maxAwaited = 20
	maxWait    = 50 * time.Millisecond
)

// catchUp indexes what a search can wait for. It returns how many sessions have text that is
// not in the index yet.
func (s *Store) catchUp(from querier) (left int, err error) {
	count := func() error { return one(from, `SELECT count(*) FROM unindexed`)(&left) }
	if err := count(); err != nil || left == 0 || left > maxAwaited {
		return left, err
	}
	begin := time.Now()
	s.failed(s.index(func() bool { return time.Since(begin) > maxWait }))
	return left, count()
}

// Index indexes all text that is not in the index yet, unless ctx ends. A search does not wait
// for it.
func (s *Store) Index(ctx context.Context) error {
	return s.index(func() bool { return ctx.Err() != nil })
}

// index indexes the text that is not in the index now, until stop returns true.
func (s *Store) index(stop func() bool) error {
	sessions, err := all[int64](s.read, `SELECT session FROM unindexed ORDER BY session`) // FTS5 is fastest in this order
	for err == nil && len(sessions) > 0 && !stop() {
		err = s.transaction(func() error {
			for size := 0; len(sessions) > 0 && size < maxDocument && !stop(); {
				n, whole, err := s.indexSession(sessions[0])
				if err != nil {
					return err
				}
				if size += n; whole {
					sessions = sessions[1:]
				}
			}
			return nil
		})
	}
	return err
}

// indexSession indexes a document of a session. It returns its size, and whether it was the
// last one.
func (s *Store) indexSession(row int64) (size int, whole bool, err error) {
	var since int64
	var id traceID
	err = one(s.write, `SELECT since, trace FROM unindexed JOIN session ON row = session WHERE session = ?`, row)(&since, &id)
	if errors.Is(err, sql.ErrNoRows) { // another process indexed or removed it
		return 0, true, nil
	}
	if err != nil {
		return 0, false, err
	}
	var d document
	if since == 0 {
		d.add("id", id.String())
	}
	const short, most = 100, 1000
	known := make(map[passage]bool) // short texts, which every span repeats
	whole = true
	var span runs.Span
	for sp, err := range spansSince(s.write, row, since) {
		if err != nil {
			return 0, false, err
		}
		if whole = d.size < maxDocument; !whole {
			break
		}
		since = sp.n
		_ = span.Read(sp.wire) // it was valid
		texts(&span, sp.origin.service, func(field string, text []byte) {
			p := passage{field, string(text)}
			if len(text) == 0 || known[p] {
				return
			}
			if len(text) < short && len(known) < most {
				known[p] = true
			}
			d.take(p)
		})
	}
	if whole {
		err = s.write.exec(`DELETE FROM unindexed WHERE session = ?`, row)
	} else {
		err = s.write.exec(`UPDATE unindexed SET since = ? WHERE session = ?`, since, row)
	}
	if d.size == 0 || err != nil {
		return 0, whole, err
	}
	values := []any{row<<spanBits + since}
	for i := range d.fields {
		values = append(values, d.fields[i].String())
	}
	return d.size, whole, s.write.exec(`INSERT INTO search (rowid, text, tool, agent, model, file, id) VALUES (?, ?, ?, ?, ?, ?, ?)`, values...)
}
