package proc

import (
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	minFiles   = 16      // Go's runtime alone dies with less than 8
	minAddress = 1 << 30 // Go's runtime reserves 800 MB of it at the start
)

// LowLimits describes the limits of the process with which it may not be able to run.
func LowLimits() (low []string) {
	var files, address unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) == nil && files.Cur < minFiles {
		low = append(low, fmt.Sprintf("%d open files (ulimit -n; want %d or more)", files.Cur, minFiles))
	}
	if unix.Getrlimit(unix.RLIMIT_AS, &address) == nil && address.Cur < minAddress {
		low = append(low, fmt.Sprintf("%d KiB of address space (ulimit -v; want %d or more)", address.Cur>>10, minAddress>>10))
	}
	return low
}
