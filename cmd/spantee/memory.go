package main

import (
	"os"
	"runtime"
	"runtime/debug"
)

// heapLimit is how large the heap may grow before the garbage collector runs, if half
// of it is garbage.
const heapLimit = 32 << 20

// collectRarely makes the garbage collector run when the heap has grown fivefold, and
// not when it has doubled: tracing keeps little and throws much away. A limit keeps
// the heap small all the same. It follows what is in use, because at a limit that is
// in use the collector would run all the time. $GOGC and $GOMEMLIMIT win.
func collectRarely() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(heapLimit)
		afterCollections(&cycle{limit: heapLimit})
	}
}

// A cycle is garbage at every collection.
type cycle struct{ limit uint64 }

func afterCollections(c *cycle) {
	runtime.SetFinalizer(c, func(c *cycle) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if limit := max(heapLimit, 2*m.HeapAlloc); limit > c.limit || limit < c.limit/2 {
			c.limit = limit
			debug.SetMemoryLimit(int64(limit))
		}
		afterCollections(c)
	})
}

// limitMemory has the garbage of a store that is full collected while it is
// small: by itself Go would let the heap grow to twice what is in use.
func limitMemory(store int64) { debug.SetMemoryLimit(store + 64<<20) }
