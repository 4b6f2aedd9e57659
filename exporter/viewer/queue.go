package viewer

import (
	"sync"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A Queue adds spans of this process to a store, several at a time and in the background:
// nothing else waits for the disk.
type Queue struct {
	store *Store
	lossy bool

	mu      sync.Mutex
	changed sync.Cond // when anything below changes
	spans   []*tracepb.ResourceSpans
	size    int // of spans, in bytes
	open    []*tracepb.ResourceSpans
	opened  bool // open is to be reported
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

// Add adds a request with spans that ended.
func (q *Queue) Add(request *tracepb.ResourceSpans) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.size > maxQueue {
		if q.lossy {
			q.lost++
			return
		}
		q.changed.Wait()
	}
	q.spans = append(q.spans, request)
	q.size += proto.Size(request)
	q.changed.Broadcast()
}

// Open sets the spans that are open. The store modifies them.
func (q *Queue) Open(request []*tracepb.ResourceSpans) {
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
		spans, open, opened := q.spans, q.open, q.opened
		q.spans, q.open, q.opened, q.size = nil, nil, false, 0
		q.changed.Broadcast()
		q.mu.Unlock()
		_, err := q.store.Add(spans)
		q.store.failed(err)
		if opened {
			q.store.Open("", open)
		}
		q.mu.Lock()
		if err != nil {
			q.lost += len(spans)
		}
	}
}
