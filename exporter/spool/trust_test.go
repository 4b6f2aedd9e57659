//go:build unix

package spool

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// chown gives a file to another user, if the test may.
func chown(t testing.TB, path string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of other users")
	}
	must(t, os.Lchown(path, 12345, 12345))
}

// forgeries replace a file by what its owner never wrote.
var forgeries = map[string]struct {
	forge func(t testing.TB, path string)
	why   string
}{
	"a symbolic link": {func(t testing.TB, path string) {
		elsewhere := filepath.Join(t.TempDir(), "file")
		must(t, os.Rename(path, elsewhere))
		must(t, os.Symlink(elsewhere, path))
	}, "is a symbolic link"},
	"a link within the folder": {func(t testing.TB, path string) {
		must(t, os.Rename(path, filepath.Join(filepath.Dir(path), "other")))
		must(t, os.Symlink("other", path))
	}, "is a symbolic link"},
	"a link to a device": {func(t testing.TB, path string) {
		must(t, os.Remove(path))
		must(t, os.Symlink("/dev/zero", path))
	}, "is a symbolic link"},
	"a named pipe": {func(t testing.TB, path string) {
		must(t, os.Remove(path))
		must(t, syscall.Mkfifo(path, 0o600))
	}, "is a named pipe"},
	"a folder": {func(t testing.TB, path string) {
		must(t, os.Remove(path))
		must(t, os.Mkdir(path, 0o700))
	}, "is a directory"},
	"a device": {func(t testing.TB, path string) {
		must(t, os.Remove(path))
		if err := syscall.Mknod(path, syscall.S_IFCHR|0o600, 1<<8|5); err != nil { // /dev/zero
			t.Skip(err)
		}
	}, "is a device"},
	"another user's":    {chown, "belongs to user 12345"},
	"writable by group": {func(t testing.TB, path string) { must(t, os.Chmod(path, 0o620)) }, "can be written by other users"},
	"writable by all":   {func(t testing.TB, path string) { must(t, os.Chmod(path, 0o602)) }, "can be written by other users"},
}

// A forged log is set aside unread, reported once, and stops nothing.
func TestAForgedLogIsNotRead(t *testing.T) {
	for name, forgery := range forgeries {
		t.Run(name, func(t *testing.T) {
			s := newSpool(t, 1<<20)
			var told []string
			s.SetAside = func(u *Untrusted) { told = append(told, u.Why) }
			forged := filepath.Join(s.Dir, leave(t, s, "forged"))
			forgery.forge(t, forged)
			leave(t, s, "honest")
			want(t, states(t, s), "corrupt 0", "waiting 1")
			want(t, take(t, s), "honest")
			want(t, take(t, s))
			want(t, told, forgery.why)
			entries, err := s.List()
			if must(t, err); len(entries) != 1 || entries[0].State != Corrupt || !strings.HasSuffix(entries[0].Reason, forgery.why) && !strings.Contains(entries[0].Reason, forgery.why) || filepath.Ext(entries[0].Path) != corruptExt {
				t.Errorf("%+v", entries)
			}
		})
	}
}

// What lies at the name of a log's own files is not followed.
func TestAForgedRejectedFileIsNotWritten(t *testing.T) {
	s := newSpool(t, 1<<20)
	l := s.NewLog(here, nil)
	spans := spansOf(t, "a")
	must(t, l.Append(spans, nil))
	victim := filepath.Join(t.TempDir(), "victim")
	must(t, os.WriteFile(victim, nil, 0o600))
	must(t, os.Symlink(victim, filepath.Join(s.Dir, strings.TrimSuffix(l.name, logExt)+RejectedExt)))
	if l.Reject(spans, "400") {
		t.Error("it says that the span was kept")
	}
	if b, err := os.ReadFile(victim); err != nil || len(b) > 0 {
		t.Errorf("written: %q, %v", b, err)
	}
	l.Close("", nil)
}

// A folder that others can write to is refused.
func TestAForgedFolderIsRefused(t *testing.T) {
	for name, forge := range map[string]func(t *testing.T, dir string){
		"writable by all": func(t *testing.T, dir string) { must(t, os.Chmod(dir, 0o777)) },
		"another user's":  func(t *testing.T, dir string) { chown(t, dir) },
		"a symbolic link": func(t *testing.T, dir string) {
			must(t, os.Rename(dir, dir+"2"))
			must(t, os.Symlink(dir+"2", dir))
		},
	} {
		for _, folder := range []string{"spool", "state"} {
			t.Run(name+" "+folder, func(t *testing.T) {
				s := newSpool(t, 1<<20)
				leave(t, s, "a")
				dir := s.Dir
				if folder == "state" {
					dir = filepath.Dir(dir)
				}
				forge(t, dir)
				l := s.NewLog(here, nil)
				for what, err := range map[string]error{"Append": l.Append(spansOf(t, "b"), nil), "Check": s.Check()} {
					if !errors.As(err, new(*Untrusted)) {
						t.Errorf("%s: %v", what, err)
					}
				}
				for c, err := range s.Claims(10) {
					if c != nil || !errors.As(err, new(*Untrusted)) {
						t.Errorf("claimed %+v, %v", c, err)
					}
				}
			})
		}
	}
}

func TestPermissions(t *testing.T) {
	s := newSpool(t, 1<<20)
	l := s.NewLog(here, nil)
	spans := spansOf(t, "a", "b")
	must(t, l.Append(spans, nil))
	l.Reject(spans[:1], "400")
	for _, name := range filesOf(t, s) {
		info, err := os.Stat(filepath.Join(s.Dir, name))
		if must(t, err); info.Mode() != 0o600 {
			t.Errorf("%s has the mode %v", name, info.Mode())
		}
	}
	if info, err := os.Stat(s.Dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	l.Close("", nil)
}
