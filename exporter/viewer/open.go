package viewer

import (
	"context"
	"sync"
	"time"
)

// Open opens the database of a file, and creates it if it is not there. The file and its
// folder are used only if nobody else can write to them. A database that cannot be read, or
// that another version wrote, is set aside. problem is called with what was set aside, and
// later with whatever fails in the background.
func Open(path string, retain Retention, problem func(error)) (*Store, error) {
	s := &Store{path: path, retain: retain, problem: problem, source: newSource(), write: new(writer), moved: make(map[traceID]traceID)}
	s.read = reader{&pool{mu: new(sync.RWMutex)}, context.Background()}
	if path == "" {
		s.read.mu = &s.write.mu
	}
	if err := s.open(); err != nil {
		return nil, err
	}
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(context.Background())
	s.done.Go(func() { s.maintain(ctx) })
	return s, nil
}

// NewStore returns a store in memory.
func NewStore(retain Retention, problem func(error)) (*Store, error) {
	return Open("", retain, problem)
}

// Close waits for what is being written.
func (s *Store) Close() {
	s.cancel()
	s.done.Wait()
	s.closeFiles()
}

// maintain does the background work: expiring open spans, indexing, removing sessions.
func (s *Store) maintain(ctx context.Context) {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	said := false
	swept := time.Now()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case now := <-second.C:
			s.write.mu.Lock()
			err = s.reopen()
			s.write.mu.Unlock()
			if err == nil {
				err = s.expire(now)
			}
			if err == nil {
				err = s.checkpoint()
			}
			if err == nil {
				err = s.index(func() bool { return s.adders.Load() > 0 || ctx.Err() != nil })
			}
			if err == nil {
				said, err = s.announce(said, now)
			}
			if err == nil && (now.Sub(swept) > sweepInterval || s.retain.Bytes > 0 && s.grown.Load() > s.retain.Bytes/16) {
				swept = now
				s.grown.Store(0)
				err = s.sweep(now)
			}
		}
		if err != nil {
			s.write.mu.Lock()
			s.noteDamage(err)
			s.write.mu.Unlock()
		}
		s.failed(err)
	}
}

// checkpoint moves what was written from the log to the database, which the writer would
// wait for once the log has grown.
func (s *Store) checkpoint() error {
	return each(s.read, func(func(...any) error) error { return nil }, `PRAGMA wal_checkpoint(passive)`)
}
