package cli

import "os"

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
