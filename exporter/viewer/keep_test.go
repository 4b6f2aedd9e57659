package viewer

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/mapping/semconv"
)

// What was stored is there after a restart, and several viewers have the same sessions.
func TestSessionsSurvive(t *testing.T) {
	path := newPath(t)
	for i := range 3 {
		s := openStore(t, path)
		s.Add(from("a", span(i+1, 1, 0, "invoke_agent x", 1, 2)))
		if n := s.List(Query{}).Total; n != i+1 {
			t.Errorf("%d sessions", n)
		}
		s.Close()
	}
	for _, name := range []string{filepath.Dir(path), path} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%v %v", info.Mode(), err)
		}
	}
	a, b := openStore(t, path), openStore(t, path)
	defer a.Close()
	defer b.Close()
	_, seq := a.Changes(0, 0)
	b.Add(from("a", span(1, 2, 1, "execute_tool shell", 1, 2)))
	if ids, _ := a.Changes(seq, 10); len(ids) != 1 {
		t.Errorf("told of %v", ids)
	}
	a.Add(from("a", span(1, 3, 1, "execute_tool shell", 1, 2)))
	b.Add(from("a", span(1, 4, 1, "execute_tool shell", 1, 2)))
	for _, s := range []testStore{a, b} {
		if got, _ := s.Session(idOf(span(1, 1, 0, "", 0, 0))); got.Spans != 4 || got.Tools != 3 {
			t.Errorf("%+v", got)
		}
	}
	if err := Integrity(path); err != nil {
		t.Error(err)
	}
}

// The test span of spantee doctor is no session.
func TestTestSpanIsNotKept(t *testing.T) {
	path := newPath(t)
	s := openStore(t, path)
	s.Add(from("a", span(1, 1, 0, TestSpan, 1, 2)))
	s.Add(from("a", span(2, 1, 0, "invoke_agent x", 1, 2)))
	if n := s.List(Query{}).Total; n != 2 {
		t.Errorf("%d of 2 are shown", n)
	}
	if runs := s.Runs(RunsQuery{By: "agent"}); runs.All.Runs != 1 || runs.Groups[0].Name != "x" {
		t.Errorf("runs: %+v", runs)
	}
	s.Close()
	s = openStore(t, path)
	defer s.Close()
	if l := s.List(Query{Limit: 9}); l.Total != 1 || l.Sessions[0].Name != "invoke_agent x" {
		t.Errorf("%+v", l)
	}
}

// The least recently changed sessions go when there is too much, except for those that are
// pinned, and that is said before.
func TestRetention(t *testing.T) {
	var said []string
	s, err := NewStore(Retention{Bytes: 400_000}, func(err error) { said = append(said, err.Error()) })
	if err != nil {
		t.Fatal(err)
	}
	s.cancel() // what it does by itself is done here
	s.done.Wait()
	defer s.Close()
	on := on(t, s)
	add := func(first, n int) {
		for i := range n {
			on.Add(from("a", span(first+i, 1, 0, fmt.Sprintf("invoke_agent x%d", first+i), 1, 2, str(semconv.InputMessages, strings.Repeat("y", 5000)))))
		}
	}
	add(1, 10)
	pinned := idOf(span(1, 1, 0, "", 0, 0))
	if found, err := s.Pin(pinned, true); !found || err != nil {
		t.Fatal(found, err)
	}
	announced := false
	for next := 11; !announced; next++ {
		add(next, 1)
		announced, err = s.announce(false, time.Now())
		on.ok(err)
	}
	before := on.List(Query{}).Total
	if going := on.List(Query{}).Kept.Going; len(said) != 1 || !strings.Contains(said[0], "removed next") || going.Sessions == 0 {
		t.Errorf("%q, %+v", said, going)
	}
	add(1000, 30)
	on.ok(s.sweep(time.Now()))
	l := on.List(Query{Limit: 100})
	if l.Total >= before+30 || l.Kept.Bytes > 450_000 || len(said) != 2 || !strings.HasPrefix(said[1], "removed ") {
		t.Errorf("%d of %d sessions, %d bytes: %q", l.Total, before+30, l.Kept.Bytes, said)
	}
	for _, session := range l.Sessions {
		if session.ID != pinned.String() && session.Pinned {
			t.Errorf("%+v", session)
		}
	}
	if _, ok := on.Session(pinned); !ok {
		t.Error("the pinned session went")
	}
	if _, ok := on.Session(idOf(span(2, 1, 0, "", 0, 0))); ok {
		t.Error("the oldest stayed")
	}
	if found, err := s.Delete(pinned); !found || err != nil {
		t.Error(found, err)
	}
	if found, err := s.Delete(pinned); found || err != nil {
		t.Error(found, err)
	}
	if n := on.Runs(RunsQuery{}).All.Runs; n != l.Total-1 {
		t.Errorf("%d runs of %d sessions", n, l.Total-1)
	}
	for _, table := range []string{"batch", "summary", "origin"} {
		if n := on.number(`SELECT count(*) FROM ` + table); n != l.Total-1 {
			t.Errorf("%d rows of %d sessions in %s", n, l.Total-1, table)
		}
	}
}

func TestRetentionByAge(t *testing.T) {
	s := newStore(t, Retention{Age: 30 * 24 * time.Hour})
	now := time.Now()
	for i, days := range []int{40, 31, 20, 1} {
		err := s.addSpans(from("a", span(i+1, 1, 0, "invoke_agent x", 1, 2)), now.Add(-time.Duration(days)*24*time.Hour))
		s.ok(err)
	}
	if going := s.List(Query{}).Kept.Going; going.Sessions != 2 {
		t.Errorf("%+v", going)
	}
	s.problem = func(error) {}
	s.ok(s.sweep(now))
	if n := s.List(Query{}).Total; n != 2 {
		t.Errorf("%d sessions", n)
	}
}

// A database that cannot be read is set aside.
func TestCorruptDatabase(t *testing.T) {
	path := newPath(t)
	s := openStore(t, path)
	s.Add(from("a", span(1, 1, 0, "invoke_agent x", 1, 2)))
	s.Close()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"not a database": []byte(strings.Repeat("hello ", 1000)), "destroyed": append(append([]byte{}, whole[:100]...), make([]byte, len(whole)-100)...)} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Integrity(path); err == nil {
			t.Errorf("%s: intact", name)
		}
		var said []error
		s, err := Open(path, Retention{}, func(err error) { said = append(said, err) })
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if n := on(t, s).List(Query{}).Total; n != 0 || len(said) != 1 || !strings.Contains(said[0].Error(), "a new one begins") {
			t.Errorf("%s: %d sessions, %v", name, n, said)
		}
		s.Close()
	}
	aside, err := filepath.Glob(path + ".aside-*")
	if err != nil || len(aside) == 0 {
		t.Error(aside, err)
	}
}

// A database of an earlier or later version, or of another program, is set aside as it is, and
// that is said.
func TestOtherDatabase(t *testing.T) {
	for name, change := range map[string]string{
		"earlier": `PRAGMA user_version = 5`, "later": `PRAGMA user_version = 99`, "of another program": `CREATE TABLE users (name TEXT); PRAGMA user_version = 0`,
	} {
		path := newPath(t)
		s := openStore(t, path)
		s.Add(from("a", span(1, 1, 0, "invoke_agent x", 1, 2)))
		_, err := s.write.conn.ExecContext(t.Context(), change)
		s.ok(err)
		s.Close()
		var said []error
		empty, err := Open(path, Retention{}, func(err error) { said = append(said, err) })
		s.ok(err)
		if n := on(t, empty).List(Query{}).Total; n != 0 || len(said) != 1 || !strings.Contains(said[0].Error(), "another version") {
			t.Errorf("%s: %d sessions, %v", name, n, said)
		}
		empty.Close()
		aside, _ := filepath.Glob(path + ".aside-*")
		if len(aside) != 1 || Integrity(aside[0]) != nil {
			t.Errorf("%s: %q", name, aside)
		}
		openStore(t, path).Close() // without a word
	}
}

// A database that is deleted or replaced while it is open is noticed: nothing is acknowledged
// that is not in the file of its name.
func TestReplacedDatabase(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files that are open cannot be deleted there")
	}
	one := func(n int) []*tracepb.ResourceSpans { return from("a", span(n, 1, 0, "invoke_agent x", 1, 2)) }
	other := newPath(t)
	s := openStore(t, other)
	s.Add(one(100))
	s.Close()
	truncate := func(size int64, suffixes ...string) func(path string) error {
		return func(path string) (err error) {
			for _, suffix := range suffixes {
				err = errors.Join(err, os.Truncate(path+suffix, size))
			}
			return err
		}
	}
	run := func(statements string) func(path string) error {
		return func(path string) error {
			db, err := sql.Open("sqlite", "file:"+path)
			must(t, err)
			_, err = db.ExecContext(t.Context(), statements)
			return errors.Join(err, db.Close())
		}
	}
	for name, change := range map[string]func(path string) error{
		"emptied":              truncate(0, ""),
		"emptied with its log": truncate(0, "", "-wal"),
		"emptied with all":     truncate(0, "", "-wal", "-shm"),
		"log emptied":          truncate(0, "-wal"),
		"truncated":            truncate(4096, ""),
		"log deleted":          func(path string) error { return os.Remove(path + "-wal") },
		"emptied, and log deleted": func(path string) error {
			return errors.Join(os.Truncate(path, 0), os.Remove(path+"-wal"), os.Remove(path+"-shm"))
		},
		"overwritten": func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("hello ", 100000)), 0o600) },
		"overwritten with its log": func(path string) error {
			return errors.Join(os.WriteFile(path, []byte(strings.Repeat("hello ", 100000)), 0o600), os.Truncate(path+"-wal", 0))
		},
		"overwritten by another": func(path string) error {
			content, err := os.ReadFile(other)
			return errors.Join(err, os.WriteFile(path, content, 0o600), os.Truncate(path+"-wal", 0))
		},
		"a folder":         func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700), os.Remove(path)) },
		"tables dropped":   run(`DROP TABLE session; DROP TABLE batch`),
		"rows deleted":     run(`DELETE FROM session; DELETE FROM batch; DELETE FROM summary; DELETE FROM clock; DELETE FROM run; DELETE FROM origin`),
		"deleted":          os.Remove,
		"deleted with all": func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
		"renamed":          func(path string) error { return os.Rename(path, path+".old") },
		"replaced": func(path string) error {
			content, err := os.ReadFile(other)
			return errors.Join(err, os.Remove(path), os.Remove(path+"-wal"), os.Remove(path+"-shm"), os.WriteFile(path, content, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			var mu sync.Mutex
			var said []string
			store, err := Open(path, Retention{}, func(err error) { mu.Lock(); said = append(said, err.Error()); mu.Unlock() })
			must(t, err)
			s := on(t, store)
			s.Add(one(1))
			must(t, change(path))
			s.Add(one(2))
			s.Add(one(3))
			shown := s.List(Query{}).Total
			mu.Lock()
			all := strings.Join(said, "\n")
			mu.Unlock()
			if shown < 2 || shown > 3 || shown == 2 && all == "" {
				t.Errorf("%d sessions are shown, %s", shown, all)
			}
			s.Close()
			s = openStore(t, path)
			defer s.Close()
			if l := s.List(Query{}); l.Total != shown {
				t.Errorf("%d sessions are there after a restart", l.Total)
			}
			if err := Integrity(path); err != nil {
				t.Error(err)
			}
			if _, found := s.Session(idOf(span(2, 1, 0, "", 0, 0))); !found {
				t.Error("what was acknowledged is gone")
			}
		})
	}
}

// A change that was made while the database was replaced is made again.
func TestReplacedWhileWritten(t *testing.T) {
	path := newPath(t)
	var said []error
	store, err := Open(path, Retention{}, func(err error) { said = append(said, err) })
	must(t, err)
	store.cancel() // what it does by itself would notice, too
	store.done.Wait()
	defer store.Close()
	times := 0
	must(t, store.update(time.Now(), func(u *update) error {
		if times++; times == 1 {
			must(t, os.Remove(path))
		}
		for _, sp := range split(encode(t, from("a", span(1, 1, 0, "invoke_agent x", 1, 2)))) {
			r, err := u.take(&sp)
			must(t, errors.Join(err, u.add(r, &sp)))
		}
		return nil
	}))
	if l := on(t, store).List(Query{}); l.Total != 1 || times != 2 || len(said) != 1 {
		t.Errorf("%d sessions, %d times, %v", l.Total, times, said)
	}
}

// When the disk is full, nothing is acknowledged, and what was stored can be read.
func TestFullDisk(t *testing.T) {
	s := openStore(t, newPath(t))
	defer s.Close()
	s.Add(from("a", span(1, 1, 0, "invoke_agent x", 1, 2)))
	if _, err := s.write.conn.ExecContext(context.Background(), fmt.Sprintf(`PRAGMA max_page_count = %d`, s.number(`SELECT page_count FROM pragma_page_count`))); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Store.Add(encode(t, from("a", span(2, 1, 0, "invoke_agent x", 1, 2, str("k", strings.Repeat("y", 1<<20)))))); err == nil || !strings.Contains(err.Error(), "full") {
		t.Error(err)
	}
	if l := s.List(Query{Limit: 9}); l.Total != 1 || l.Sessions[0].Spans != 1 {
		t.Errorf("%+v", l)
	}
	if _, err := s.write.conn.ExecContext(context.Background(), `PRAGMA max_page_count = 1000000`); err != nil {
		t.Fatal(err)
	}
	s.Add(from("a", span(2, 1, 0, "invoke_agent x", 1, 2)))
	if n := s.List(Query{}).Total; n != 2 {
		t.Errorf("%d sessions", n)
	}
}

// Many processes may open a database at once while nobody has created it yet.
func TestOpenTogether(t *testing.T) {
	for range 10 {
		path := filepath.Join(t.TempDir(), "viewer", "sessions.db")
		var opening sync.WaitGroup
		for range 8 {
			opening.Go(func() {
				s, err := Open(path, Retention{}, func(err error) { t.Error(err) })
				if err != nil {
					t.Error(err)
					return
				}
				s.Close()
			})
		}
		opening.Wait()
	}
}
