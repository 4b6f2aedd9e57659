package follow

import "golang.org/x/sys/unix"

// isRemote reports whether other machines may change the files in a folder, of which there
// are no events.
func isRemote(path string) bool {
	var s unix.Statfs_t
	return unix.Statfs(path, &s) == nil && s.Flags&unix.MNT_LOCAL == 0
}
