package viewer

import "sync"

// A Queue adds spans of this process to a store, several at a time and in the background:
// nothing else waits for the disk.
type Queue struct {
	store *Store
	lossy bool

	mu      sync.Mutex
	changed sync.Cond // when anything below changes
	spans   []byte    // an encoded TracesData
	queued  int       // spans in it
	open    []byte    // the same of open spans
	opened  bool      // open is to be reported
	closed  bool
	lost    int // spans

	done sync.WaitGroup
}

// maxQueue bounds what waits for the disk, in bytes.
const maxQueue = 16 << 20

// NewQueue returns a Queue. If it is full, a lossy one drops spans; another one waits.
func NewQueue(store *Store, lossy bool) *Queue {
	q := &Queue{store: store, lossy: lossy}
	q.changed.L = &q.mu
	q.done.Go(q.run)
	return q
}

// Add adds a span that ended, as an encoded TracesData.
func (q *Queue) Add(span []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.spans) > maxQueue {
		if q.lossy {
			q.lost++
			return
		}
		q.changed.Wait()
	}
	q.spans = append(q.spans, span...) // encoded messages, one after the other, are one
	q.queued++
	q.changed.Broadcast()
}

// Open sets the spans that are open, as an encoded TracesData.
func (q *Queue) Open(request []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open, q.opened = request, true
	q.changed.Broadcast()
}

// Close waits until everything was added. It returns how many spans were dropped.
func (q *Queue) Close() (lost int) {
	q.mu.Lock()
	q.closed = true
	q.changed.Broadcast()
	q.mu.Unlock()
	q.done.Wait()
	return q.lost
}

func (q *Queue) run() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		for len(q.spans) == 0 && !q.opened && !q.closed {
			q.changed.Wait()
		}
		if len(q.spans) == 0 && !q.opened {
			return
		}
		spans, queued, open, opened := q.spans, q.queued, q.open, q.opened
		q.spans, q.queued, q.open, q.opened = nil, 0, nil, false
		q.changed.Broadcast()
		q.mu.Unlock()
		_, err := q.store.Add(spans)
		q.store.failed(err)
		if opened {
			q.store.Open("", open)
		}
		q.mu.Lock()
		if err != nil {
			q.lost += queued
		}
	}
}
