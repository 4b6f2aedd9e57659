package main

import "golang.org/x/sys/unix"

// lowerPriority makes the calling thread yield to the process's other threads, and
// to the other processes in the pipe.
func lowerPriority() { _ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), 19) }
