package main

import (
	"os"
	"runtime/debug"
)

// limitMemory makes the garbage collector run rarely, because tracing allocates much and
// retains little: the heap may grow fivefold instead of twofold between collections,
// up to limit. $GOGC and $GOMEMLIMIT take precedence.
func limitMemory(limit int64) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit)
	}
}

const (
	// memoryLimit is the limit of a command without a viewer.
	memoryLimit = 32 << 20

	// memoryForLogs is the limit of a command that reads folders of session logs, which
	// takes remembering their rows.
	memoryForLogs = 80 << 20

	// memoryForPage is the limit of a viewer, without its database's own memory.
	memoryForPage = 80 << 20
)
