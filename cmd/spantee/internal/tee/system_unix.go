//go:build unix

package tee

import (
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// cpuTime returns how much processor time the process has used.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// newBuffer returns a buffer in huge pages. The ring of a fast stream is touched within
// milliseconds, and in small pages the page faults take longer than the copy.
func newBuffer(size int) []byte {
	if runtime.GOOS != "linux" {
		return make([]byte, size)
	}
	const hugePage, adviseHugePages = 2 << 20, 14 // MADV_HUGEPAGE, which package unix has on Linux only
	buf := make([]byte, size+hugePage)
	start := int(-uintptr(unsafe.Pointer(&buf[0])) % hugePage)
	buf = buf[start : start+size]
	_ = unix.Madvise(buf, adviseHugePages)
	return buf
}
