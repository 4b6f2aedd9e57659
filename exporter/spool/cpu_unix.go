//go:build unix

package spool

import (
	"syscall"
	"time"
)

// CPUTime returns how much processor time the process has used.
func CPUTime() time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
