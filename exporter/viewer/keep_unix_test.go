//go:build unix

package viewer

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spantee/spantee/exporter/spool"
)

// chown gives a file to another user, if the test may.
func chown(t *testing.T, path string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of other users")
	}
	must(t, os.Lchown(path, 12345, 12345))
}

// link puts a symbolic link in the place of a file or folder.
func link(t *testing.T, path string) {
	t.Helper()
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	must(t, os.Rename(path, elsewhere))
	must(t, os.Symlink(elsewhere, path))
}

// Files that somebody else can write to are neither read nor written.
func TestFilesOfOthersKeepNothing(t *testing.T) {
	folder := filepath.Dir
	same := func(path string) string { return path }
	for name, c := range map[string]struct {
		of    func(path string) string
		forge func(t *testing.T, path string)
		why   string
	}{
		"linked folder":   {folder, link, "is a symbolic link"},
		"linked state":    {func(path string) string { return folder(folder(path)) }, link, "is a symbolic link"},
		"another user's":  {folder, chown, "belongs to user 12345"},
		"writable":        {folder, func(t *testing.T, path string) { must(t, os.Chmod(path, 0o777)) }, "can be written by other users"},
		"linked":          {same, link, "is a symbolic link"},
		"file of another": {same, chown, "belongs to user 12345"},
		"writable file":   {same, func(t *testing.T, path string) { must(t, os.Chmod(path, 0o666)) }, "can be written by other users"},
		"pipe": {same, func(t *testing.T, path string) {
			must(t, os.Remove(path))
			must(t, syscall.Mkfifo(path, 0o600))
		}, "is a named pipe"},
		"linked log": {func(path string) string { return path + "-wal" }, func(t *testing.T, path string) {
			must(t, os.Symlink(filepath.Join(t.TempDir(), "elsewhere"), path))
		}, "is a symbolic link"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "spantee", "viewer", "sessions.db")
			s := openStore(t, path)
			s.Add(from("a", span(1, 1, 0, "invoke_agent x", 1, 2)))
			s.Close()
			c.forge(t, c.of(path))
			_, err := Open(path, Retention{}, func(err error) { t.Error(err) })
			for _, err := range []error{err, Check(path), Integrity(path)} {
				if _, ok := errors.AsType[*spool.Untrusted](err); !ok || !strings.Contains(err.Error(), c.why) {
					t.Errorf("%v, want %s", err, c.why)
				}
			}
		})
	}
}
