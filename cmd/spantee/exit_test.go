package main

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/spantee/spantee/cmd/spantee/internal/proc"
	"github.com/spantee/spantee/cmd/spantee/internal/tee"
)

// newPipe returns a pipe that the test's end closes.
func newPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		w.Close()
	})
	return r, w
}

func TestEndOfCopy(t *testing.T) {
	failed := proc.Status{Code: proc.StatusFailed}
	for _, test := range []struct {
		err  error
		want proc.Status
	}{
		{nil, proc.Status{}},
		{tee.OutputError{Err: syscall.EPIPE}, proc.Status{Signal: proc.BrokenPipe}},
		{tee.OutputError{Err: syscall.ENOSPC}, failed},
		{syscall.EPIPE, failed}, // from stdin
		{errors.New("broken"), failed},
	} {
		if got := endOfCopy(test.err); got != test.want || got.Interrupted() {
			t.Errorf("%v ends with %v", test.err, got)
		}
	}
}
