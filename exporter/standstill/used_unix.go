//go:build unix

package standstill

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func used() time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano()+usage.Stime.Nano()) + delayed("/proc/self/task")
}

// delayed returns how long the threads of a process have waited for a processor: the second
// number of each one's schedstat. That of the process itself is only its main thread's.
func delayed(threads string) (total time.Duration) {
	files, _ := filepath.Glob(filepath.Join(threads, "*", "schedstat"))
	for _, file := range files {
		stat, _ := os.ReadFile(file) // a thread may have ended
		if fields := strings.Fields(string(stat)); len(fields) > 1 {
			nanos, _ := strconv.ParseInt(fields[1], 10, 64)
			total += time.Duration(nanos)
		}
	}
	return total
}
