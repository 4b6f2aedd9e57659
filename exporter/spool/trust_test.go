//go:build unix

package spool

import (
	"errors"
	"fmt"
	"io/fs"
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
	if err := os.Lchown(path, 12345, 12345); err != nil {
		t.Fatal(err)
	}
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
	"a link to a device": {func(t testing.TB, path string) {
		must(t, os.Remove(path))
		must(t, os.Symlink("/dev/zero", path))
	}, "is a symbolic link"},
	"a named pipe": {func(t testing.TB, path string) {
		must(t, os.Remove(path))
		must(t, syscall.Mkfifo(path, 0o600))
	}, "is a named pipe"},
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

// noticing is a spool that notes what was set aside.
func noticing(s Spool) (Spool, *[]string) {
	told := new([]string)
	s.SetAside = func(u *Untrusted) { *told = append(*told, u.Why) }
	return s, told
}

func wantTold(t testing.TB, told *[]string, why string) {
	t.Helper()
	if got := strings.Join(*told, ", "); got != why {
		t.Errorf("told %q, want %q", got, why)
	}
}

func TestAForgedJournalIsNotRead(t *testing.T) {
	for name, forgery := range forgeries {
		t.Run(name, func(t *testing.T) {
			s, told := noticing(newSpool(t, 1<<20))
			base := dead(t, s, "", here, "forged")
			forgery.forge(t, base+waitingExt)
			dead(t, s, "", here, "honest")
			wantEntry(t, s, base+waitingExt, forgery.why)
			wantRecovered(t, s, 1)
			wantRecovered(t, s, 0)
			wantTold(t, told, forgery.why)
			want(t, drained(t, s, here), "honest")
			wantEntry(t, s, filepath.Join(s.Dir, journalDir, corruptDir, filepath.Base(base)+waitingExt), forgery.why)
		})
	}
}

// wantEntry fails unless the list says why a file was not read.
func wantEntry(t testing.TB, s Spool, path, why string) {
	t.Helper()
	entries, err := s.List(background)
	must(t, err)
	for _, e := range entries {
		if e.Path != path {
			continue
		}
		if e.State != Corrupt || e.Reason != why || e.Endpoint != "" || e.Spans != 0 {
			t.Errorf("%+v, want %q", e, why)
		}
		return
	}
	t.Errorf("%s is not in the list", path)
}

func TestAForgedRequestIsNotRead(t *testing.T) {
	for name, forgery := range forgeries {
		t.Run(name, func(t *testing.T) {
			s, told := noticing(newSpool(t, 1<<20))
			put(t, s, here, "forged")
			path := filepath.Join(s.Dir, filesOf(t, s.Dir)[0])
			forgery.forge(t, path)
			put(t, s, here, "honest")
			wantEntry(t, s, path, forgery.why)
			to, err := s.Destinations(background)
			if len(to) != 1 || to[0] != here || err != nil {
				t.Errorf("destinations %v, %v", to, err)
			}
			want(t, drained(t, s, here), "honest")
			want(t, drained(t, s, here))
			wantTold(t, told, forgery.why)
		})
	}
}

// The totals are of the files that there are, not of what their names claim.
func TestANameCannotClaimRoom(t *testing.T) {
	s := newSpool(t, 1<<20)
	put(t, s, here, "a")
	for i, name := range []string{"1-1-99999999999-a.otlp", "2-2147483647-4-a.otlp", fmt.Sprintf("%d-1-4-a.otlp", 1<<62)} {
		must(t, os.WriteFile(filepath.Join(s.Dir, here.dir(), name), make([]byte, 4), os.FileMode(0o600|i/2*0o20)))
	}
	if evicted, err := tryPut(s, here, Request{Body: make([]byte, 1<<19), Spans: 1}, ""); evicted != (Losses{}) || err != nil {
		t.Errorf("evicted %+v, %v", evicted, err)
	}
}

// A file in one endpoint's directory that names another is no request to it.
func TestARequestOfAnotherDestinationIsNotSent(t *testing.T) {
	s := newSpool(t, 1<<20)
	put(t, s, here, "a")
	put(t, s, there, "b")
	for _, f := range filesOf(t, s.Dir) {
		if dir := filepath.Dir(f); dir == there.dir() {
			must(t, os.Rename(filepath.Join(s.Dir, f), filepath.Join(s.Dir, here.dir(), filepath.Base(f))))
		}
	}
	want(t, drained(t, s, here), "a")
	want(t, states(t, s), "corrupt 1")
}

func TestAForgedLockIsReplaced(t *testing.T) {
	for name, forgery := range forgeries {
		t.Run(name, func(t *testing.T) {
			s := newSpool(t, 1<<20)
			put(t, s, here, "a")
			openBox(t, s, here).Close()
			base := dead(t, s, "", here, "b")
			for _, path := range []string{filepath.Join(s.Dir, here.dir(), lockFile), base + lockExt} {
				forgery.forge(t, path)
			}
			_, err := s.Recover(background)
			must(t, err)
			want(t, drained(t, s, here), "a", "b")
			put(t, s, here, "c")
			want(t, drained(t, s, here), "c")
		})
	}
}

// A spool that another user created, or that is a link, is reported. Nothing is read from
// it or written to it.
func TestAForeignFolderIsRefused(t *testing.T) {
	for name, forge := range map[string]func(t *testing.T, dir string){
		"another user's": func(t *testing.T, dir string) { chown(t, dir) },
		"a link": func(t *testing.T, dir string) {
			elsewhere := filepath.Join(t.TempDir(), "elsewhere")
			must(t, os.Rename(dir, elsewhere))
			must(t, os.Symlink(elsewhere, dir))
		},
		"writable by group": func(t *testing.T, dir string) { must(t, os.Chmod(dir, 0o770)) },
		"writable by all":   func(t *testing.T, dir string) { must(t, os.Chmod(dir, 0o707)) },
		"sticky":            func(t *testing.T, dir string) { must(t, os.Chmod(dir, 0o777|fs.ModeSticky)) },
	} {
		for _, which := range []string{"state", "spool"} {
			t.Run(name+", "+which, func(t *testing.T) {
				s := newSpool(t, 1<<20)
				put(t, s, here, "a")
				dead(t, s, "", here, "b")
				dir := s.Dir
				if which == "state" {
					dir = filepath.Dir(dir)
				}
				forge(t, dir)
				putErr := s.Put(background, here, requestOf(t, "c"), "")
				_, recoverErr := s.Recover(background)
				_, listErr := s.List(background)
				_, boxErr := s.Outbox(background, here)
				_, toErr := s.Destinations(background)
				j := newJournal(t, s)
				end(t, j, spanOf("d"))
				journalErr := j.save(nil)
				j.Close(background, "the collector hangs")
				for i, err := range []error{putErr, recoverErr, listErr, boxErr, toErr, journalErr, s.Check(background)} {
					u, ok := errors.AsType[*Untrusted](err)
					if !ok || u.Path != dir {
						t.Errorf("call %d: %v", i, err)
					}
				}
			})
		}
	}
}

// Directories within the spool are looked at, too.
func TestAForeignDirectoryIsPassedOver(t *testing.T) {
	s := newSpool(t, 1<<20)
	put(t, s, here, "a")
	put(t, s, there, "b")
	must(t, os.Chmod(filepath.Join(s.Dir, there.dir()), 0o777))
	want(t, states(t, s), "waiting 1")
	if err := s.Put(background, there, requestOf(t, "c"), ""); !isUntrusted(err) {
		t.Errorf("Put: %v", err)
	}
	if to, err := s.Destinations(background); len(to) != 1 || !isUntrusted(err) {
		t.Errorf("destinations %v, %v", to, err)
	}
	want(t, drained(t, s, here), "a")
}

// A sparse journal may claim to be longer than memory.
func TestAHugeJournalIsNotRead(t *testing.T) {
	s := newSpool(t, 1<<20)
	base := dead(t, s, "", here, "a")
	must(t, os.Truncate(base+waitingExt, maxLog)) // zeros are no frame
	wantRecovered(t, s, 1)
	base = dead(t, s, "", here, "a")
	must(t, os.Truncate(base+waitingExt, maxLog+1))
	wantRecovered(t, s, 0)
	if files := filesOf(t, filepath.Join(s.Dir, journalDir)); len(files) != 1 || !strings.HasPrefix(files[0], corruptDir) {
		t.Errorf("files %q", files)
	}
}

// Text from the spool is printed: it must not steer a terminal.
func TestNotesHoldNoControlCharacters(t *testing.T) {
	s := newSpool(t, 1<<20)
	if err := s.Put(background, Destination{Protocol: "file", Endpoint: "/a\x1b[2Jb"}, requestOf(t, "a"), ""); !errors.Is(err, errControl) {
		t.Errorf("Put: %v", err)
	}
	if err := s.Put(background, here, requestOf(t, "a"), "\x1b]0;owned\a\u009b2J"); err != nil {
		t.Fatal(err)
	}
	entries, err := s.List(background)
	if err != nil || len(entries) != 1 || entries[0].Reason != " ]0;owned  2J" {
		t.Errorf("%+v, %v", entries, err)
	}
}
