//go:build !linux && !darwin

package follow

func isRemote(string) bool { return false }
