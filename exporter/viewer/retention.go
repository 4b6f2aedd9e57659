package viewer

import (
	"fmt"
	"slices"
	"time"
)

// Kept says how much a store holds, what its limits are, and what is removed next.
type Kept struct {
	Bytes  int64 `json:"bytes"`
	Limit  int64 `json:"limit,omitempty"`  // bytes
	Memory bool  `json:"memory,omitempty"` // nothing is on disk
	Going  Going `json:"going"`
}

// Going are sessions that are to be removed.
type Going struct {
	Sessions int   `json:"sessions"`
	Before   int64 `json:"before,omitempty"` // the last change of the newest of them, in microseconds since 1970
	Days     int   `json:"days"`             // since that

	rows []int64
}

const (
	// sweepInterval is how long after the start sessions are removed at the earliest, and how
	// often from then on.
	sweepInterval = time.Minute

	// notice is how long before its removal by age a session is announced.
	notice = 24 * time.Hour
)

// kept returns what the store has, and what it will remove before long.
func (s *Store) kept(from querier, now time.Time) (k Kept, err error) {
	k = Kept{Limit: s.retain.Bytes, Memory: s.path == ""}
	if k.Bytes, err = bytesUsed(from); err != nil {
		return k, err
	}
	soon := s.retain
	soon.Bytes -= soon.Bytes / 10
	until := now
	if soon.Age > 0 {
		until = now.Add(notice)
	}
	k.Going, err = going(from, soon, k.Bytes, until)
	k.Going.Days = days(now, k.Going.Before)
	return k, err
}

// bytesUsed returns how much of the database is in use.
func bytesUsed(from querier) (n int64, err error) {
	err = one(from, `SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size`)(&n)
	return n, err
}

// going returns the sessions that exceed a retention: the least recently changed of those
// that are not pinned.
func going(from querier, retain Retention, bytes int64, now time.Time) (g Going, err error) {
	excess, oldest := int64(0), int64(0)
	if retain.Bytes > 0 {
		excess = bytes - retain.Bytes
	}
	if retain.Age > 0 {
		oldest = now.Add(-retain.Age).UnixMicro()
	}
	if excess > 0 { // a session takes its share of the indexes, too
		var spans int64
		if err := one(from, `SELECT coalesce(sum(bytes), 0) FROM session`)(&spans); err != nil {
			return g, err
		}
		excess = int64(float64(excess) * float64(spans) / float64(bytes))
	}
	var candidates [][3]int64 // last change, row, bytes
	err = each(from, func(scan func(...any) error) error {
		var c [3]int64
		err := scan(&c[0], &c[1], &c[2])
		candidates = append(candidates, c)
		return err
	}, `SELECT updated, row, bytes FROM session INDEXED BY session_changed WHERE pinned = 0 AND (updated < ?1 OR ?2)`, oldest, excess > 0)
	slices.SortFunc(candidates, func(a, b [3]int64) int { return slices.Compare(a[:], b[:]) })
	for _, c := range candidates {
		if excess > 0 || c[0] < oldest {
			g.rows, g.Before = append(g.rows, c[1]), c[0]
			g.Sessions++
			excess -= c[2]
		}
	}
	return g, err
}

// sweep removes what exceeds the retention.
func (s *Store) sweep(now time.Time) error {
	bytes, err := bytesUsed(s.read)
	if err != nil {
		return err
	}
	g, err := going(s.read, s.retain, bytes, now)
	const atOnce = 100 // meanwhile nothing can be received
	for rows := g.rows; err == nil && len(rows) > 0; rows = rows[min(len(rows), atOnce):] {
		err = s.update(now, func(*update) error {
			for _, row := range rows[:min(len(rows), atOnce)] {
				if err := s.removeRun(row); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err == nil && g.Sessions > 0 {
		s.problem(fmt.Errorf("removed %s unchanged %s (--keep)", sessionCount(g.Sessions), forDays(days(now, g.Before))))
		err = s.vacuum()
	}
	return err
}

// vacuum gives the room of removed sessions back to the file system.
func (s *Store) vacuum() error {
	s.write.mu.Lock()
	defer s.write.mu.Unlock()
	return each(s.write, func(func(...any) error) error { return nil }, `PRAGMA incremental_vacuum`)
}

func sessionCount(n int) string {
	if n == 1 {
		return "1 session"
	}
	return fmt.Sprintf("%d sessions", n)
}

func forDays(n int) string {
	switch n {
	case 0:
		return "for less than a day"
	case 1:
		return "for a day"
	}
	return fmt.Sprintf("for %d days", n)
}

// days returns how many days ago an instant was, in microseconds since 1970.
func days(now time.Time, at int64) int {
	return int(now.Sub(time.UnixMicro(at)) / (24 * time.Hour))
}

// announce says what will be removed before long, once.
func (s *Store) announce(said bool, now time.Time) (bool, error) {
	k, err := s.kept(s.read, now)
	if err != nil || k.Going.Sessions == 0 || said {
		return said && k.Going.Sessions > 0, err
	}
	limits := ""
	if k.Limit > 0 {
		limits = fmt.Sprintf("%d of %d MiB are in use; ", k.Bytes>>20, k.Limit>>20)
	}
	s.problem(fmt.Errorf("%s%s unchanged %s will be removed next: pin what should stay, or raise --keep", limits, sessionCount(k.Going.Sessions), forDays(k.Going.Days)))
	return true, nil
}

// Delete removes a session, and reports whether it was there.
func (s *Store) Delete(id traceID) (found bool, err error) {
	return s.alter(id, s.removeRun)
}

// removeRun removes a session with its poorer copies, which would take its place.
func (s *Store) removeRun(row int64) error {
	rows, err := all[int64](s.write, `SELECT row FROM session WHERE richer > 0 AND richer = ?`, row)
	for _, row := range append(rows, row) {
		if err == nil {
			err = s.remove(row)
		}
	}
	return err
}

// Pin protects a session from being removed to make room.
func (s *Store) Pin(id traceID, pinned bool) (found bool, err error) {
	return s.alter(id, func(row int64) error {
		return s.write.exec(`UPDATE session SET pinned = ?1, seq = (SELECT seq FROM clock) WHERE row = ?2 OR richer > 0 AND richer = ?2`, pinned, row)
	})
}

func (s *Store) alter(id traceID, do func(row int64) error) (found bool, err error) {
	err = s.update(time.Now(), func(*update) error {
		row, _, err := s.find(s.write, id)
		if found = row > 0; err != nil || !found {
			return err
		}
		return do(row)
	})
	return found, err
}
