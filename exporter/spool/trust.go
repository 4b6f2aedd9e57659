package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// An Untrusted error says why a file or directory is not used: somebody else
// may have written it.
type Untrusted struct {
	Path string
	Why  string
	Hint string // how to fix it, if the user can
}

func (e *Untrusted) Error() string {
	if e.Hint != "" {
		return fmt.Sprintf("%s %s (%s)", e.Path, e.Why, e.Hint)
	}
	return e.Path + " " + e.Why
}

func isUntrusted(err error) bool {
	_, ok := errors.AsType[*Untrusted](err)
	return ok
}

// PrivateDir makes sure that path is a directory of this user in which nobody
// else can write, and creates it if it is missing. A symbolic link is refused:
// its target is named by whoever made the link.
func PrivateDir(path string) error {
	err := checkDir(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return checkDir(path) // another process may have been first
}

func checkDir(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	return trust(path, info, fs.ModeDir)
}

// OpenFile opens a file of this user that nobody else can write to. It neither
// follows a symbolic link nor waits for the other end of a pipe.
func OpenFile(path string, flag int) (*os.File, fs.FileInfo, error) {
	dir, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, nil, err
	}
	defer closeFolder(dir)
	return openIn(dir, filepath.Base(path), flag)
}

// openIn is OpenFile for a file of a folder. On Windows, others may rename or remove the file
// while it is open.
func openIn(dir *os.Root, name string, flag int) (*os.File, fs.FileInfo, error) {
	path := filepath.Join(dir.Name(), name)
	if info, err := dir.Lstat(name); err == nil { // opening a device may have effects
		if err := trust(path, info, 0); err != nil {
			return nil, nil, err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	f, err := dir.OpenFile(name, flag|openFlags, 0o600)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = trust(path, info, 0)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// trust returns an *Untrusted error unless info is of the wanted type, belongs
// to this user, and nobody else may write to it.
func trust(path string, info fs.FileInfo, want fs.FileMode) error {
	if got := info.Mode().Type(); got != want {
		return &Untrusted{Path: path, Why: "is " + typeName(got)}
	}
	if uid, ok := owner(info); ok && uid != os.Geteuid() {
		return &Untrusted{Path: path, Why: fmt.Sprintf("belongs to user %d", uid)}
	}
	if checksMode && info.Mode().Perm()&0o022 != 0 {
		return &Untrusted{Path: path, Why: "can be written by other users", Hint: "chmod go-w " + path}
	}
	return nil
}

func typeName(mode fs.FileMode) string {
	switch mode {
	case 0:
		return "a file"
	case fs.ModeDir:
		return "a directory"
	case fs.ModeSymlink:
		return "a symbolic link"
	case fs.ModeNamedPipe:
		return "a named pipe"
	case fs.ModeSocket:
		return "a socket"
	}
	return "a device"
}

// EnterDir checks a directory in the state folder, and the state folder itself. If
// they are missing, EnterDir creates them if create is set, and otherwise returns
// fs.ErrNotExist.
func EnterDir(path string, create bool) error {
	state, enter := filepath.Dir(path), checkDir
	if create {
		enter = PrivateDir
		if err := os.MkdirAll(state, 0o700); err != nil {
			return err
		}
	}
	if err := checkDir(state); err != nil {
		return err
	}
	return enter(path)
}

// ignore returns nil for an error that is expected.
func ignore(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}
