package main

import (
	"os"
	"runtime/debug"
)

// collectRarely makes the garbage collector run when the heap has grown fivefold, and
// not when it has doubled: tracing keeps little and throws much away. The limit keeps
// the heap small all the same. $GOGC and $GOMEMLIMIT win.
func collectRarely() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(32 << 20)
	}
}

// limitMemory has the garbage of a store that is full collected while it is
// small: by itself Go would let the heap grow to twice what is in use.
func limitMemory(store int64) { debug.SetMemoryLimit(store + 64<<20) }
