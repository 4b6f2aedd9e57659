//go:build unix

package follow

import (
	"testing"

	"golang.org/x/sys/unix"
)

func makePipe(t *testing.T, path string) {
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
}
