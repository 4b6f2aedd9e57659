package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// minLimit is the smallest memory limit. Like every limit here, it includes
	// stacks and the runtime's own memory.
	minLimit = 18 << 20

	// extraRoom is how far the limit is above one and a quarter times the live heap.
	extraRoom = 8 << 20
)

// collectRarely lets the heap grow fivefold, instead of twofold, between garbage
// collections: tracing keeps little and throws much away. $GOGC wins.
func collectRarely() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}

// limitHeap keeps the heap small all the same. The limit follows the memory in use:
// at a limit below that, the collector would run all the time. $GOMEMLIMIT wins.
func limitHeap() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(minLimit)
		afterCollections(&cycle{limit: minLimit})
	}
}

// A cycle becomes garbage at every collection, so its finalizer runs after each
// one. It has 16 bytes, because smaller objects share memory: with one that lives on,
// the finalizer would never run.
type cycle struct {
	limit uint64
	_     uint64
}

func afterCollections(c *cycle) {
	runtime.SetFinalizer(c, func(c *cycle) {
		// Not the heap as it is now: the finalizer may run when it has grown again.
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		kept := live[0].Value.Uint64()
		if limit := max(minLimit, kept+kept/4+extraRoom); limit > c.limit || limit < c.limit/4*3 {
			c.limit = limit
			debug.SetMemoryLimit(int64(limit))
		}
		afterCollections(c)
	})
}

// limitMemory keeps the heap close to the size of the store: with collectRarely, it
// would grow to five times what is in use.
func limitMemory(store int64) { debug.SetMemoryLimit(store + 64<<20) }
