//go:build !linux

package proc

// LowLimits returns nothing: the limits of Go's runtime are measured on Linux only.
func LowLimits() []string { return nil }
