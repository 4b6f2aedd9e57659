package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// WantFile says which files may be named for output.
const WantFile = "a file, not stdout"

// IsStdout reports whether name is stdout under any name: what is written there would mix with
// the stream. /dev/null is allowed.
func IsStdout(name string) bool {
	if name == "-" {
		return true
	}
	file, err := os.Stat(name)
	if err != nil {
		return false
	}
	stdout, err := os.Stdout.Stat()
	if err != nil || !os.SameFile(file, stdout) {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(file, null)
}

// FileToReplace returns the file that a flag names, which need not exist. A device or a pipe
// must not be replaced by a file.
func FileToReplace(flag, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	if IsStdout(name) {
		return "", Invalid(flag, name, WantFile)
	}
	file, err := filepath.EvalSymlinks(name)
	if errors.Is(err, fs.ErrNotExist) {
		file = name
		if dir, err := os.Stat(filepath.Dir(name)); err != nil || !dir.IsDir() {
			return "", Invalid(flag, name, "a file in a folder that exists")
		}
	} else if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
		return "", Invalid(flag, name, "a regular file")
	}
	return file, nil
}
