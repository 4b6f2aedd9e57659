package follow

import "golang.org/x/sys/unix"

// isRemote reports whether other machines may change the files in a folder, of which there
// are no events. A FUSE file system may be one of these.
func isRemote(path string) bool {
	var s unix.Statfs_t
	if unix.Statfs(path, &s) != nil {
		return false
	}
	switch s.Type {
	case unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.V9FS_MAGIC, unix.AFS_FS_MAGIC, unix.FUSE_SUPER_MAGIC:
		return true
	}
	return false
}
