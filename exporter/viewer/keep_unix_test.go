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

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// link puts a symbolic link in the place of a file or folder.
func link(t *testing.T, path string) {
	t.Helper()
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	must(t, os.Rename(path, elsewhere))
	must(t, os.Symlink(elsewhere, path))
}

// keptIn returns a folder with one session.
func keptIn(t *testing.T) *Kept {
	t.Helper()
	k := &Kept{Dir: filepath.Join(t.TempDir(), "spantee", "sessions"), Max: 1e6}
	keeper := k.keeper()
	defer keeper.close()
	must(t, keeper.write(from("a", span(1, 1, 0, "invoke_agent x", 1, 2))))
	return k
}

// A folder that somebody else can write to is neither read nor written.
func TestAFolderOfOthersKeepsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		forge func(t *testing.T, k *Kept)
		why   string
	}{
		"link":            {func(t *testing.T, k *Kept) { link(t, k.Dir) }, "is a symbolic link"},
		"linked state":    {func(t *testing.T, k *Kept) { link(t, filepath.Dir(k.Dir)) }, "is a symbolic link"},
		"another user's":  {func(t *testing.T, k *Kept) { chown(t, k.Dir) }, "belongs to user 12345"},
		"writable":        {func(t *testing.T, k *Kept) { must(t, os.Chmod(k.Dir, 0o777)) }, "can be written by other users"},
		"writable by all": {func(t *testing.T, k *Kept) { must(t, os.Chmod(filepath.Dir(k.Dir), 0o777)) }, "can be written by other users"},
	} {
		t.Run(name, func(t *testing.T) {
			k := keptIn(t)
			c.forge(t, k)
			before, err := os.ReadDir(k.Dir)
			must(t, err)
			if n, _, problems := count(t, k); n != 0 || problems != 1 {
				t.Errorf("%d sessions, %d problems", n, problems)
			}
			keeper := k.keeper()
			defer keeper.close()
			for _, err := range []error{k.Check(), keeper.write(from("a", span(2, 1, 0, "invoke_agent x", 1, 2)))} {
				if _, ok := errors.AsType[*spool.Untrusted](err); !ok || !strings.Contains(err.Error(), c.why) {
					t.Errorf("%v, want %s", err, c.why)
				}
			}
			if after, err := os.ReadDir(k.Dir); err != nil || len(after) != len(before) {
				t.Errorf("%v %v", after, err)
			}
		})
	}
}

// A file that somebody else may have written is not shown.
func TestAFileOfOthersIsNotShown(t *testing.T) {
	for name, c := range map[string]struct {
		forge func(t *testing.T, path string)
		why   string
	}{
		"link":           {link, "is a symbolic link"},
		"another user's": {chown, "belongs to user 12345"},
		"writable":       {func(t *testing.T, path string) { must(t, os.Chmod(path, 0o666)) }, "can be written by other users"},
		"pipe": {func(t *testing.T, path string) {
			must(t, os.Remove(path))
			must(t, syscall.Mkfifo(path, 0o600))
		}, "is a named pipe"},
	} {
		t.Run(name, func(t *testing.T) {
			k := keptIn(t)
			files, err := k.files()
			must(t, err)
			c.forge(t, filepath.Join(k.Dir, files[0].Name()))
			s, problems := k.Load(1e6)
			if n := s.List(Query{}).Total; n != 0 || len(problems) != 1 || !strings.Contains(problems[0].Error(), c.why) {
				t.Errorf("%d sessions, %v", n, problems)
			}
		})
	}
}
