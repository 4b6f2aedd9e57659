package main

import (
	"errors"

	"github.com/spantee/spantee/cmd/spantee/internal/proc"
	"github.com/spantee/spantee/cmd/spantee/internal/tee"
)

// endOfCopy returns how to end after a copy that returned err.
func endOfCopy(err error) proc.Status {
	var out tee.OutputError
	switch {
	case err == nil:
		return proc.Status{}
	case errors.As(err, &out) && proc.IsBrokenPipe(err):
		return proc.Status{Signal: proc.BrokenPipe}
	}
	return proc.Status{Code: proc.StatusFailed}
}
