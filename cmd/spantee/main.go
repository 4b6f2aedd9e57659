// Spantee is tee for traces: it passes the output of a coding agent through
// unchanged and turns each of its sessions into an OpenTelemetry trace.
//
//	cursor-agent -p --output-format stream-json "fix the test" | spantee | jq -r .type
//
// The way of a byte is in filter.go.
package main

import (
	"errors"
	"fmt"
	"os"
)

func main() {
	err := rootCommand().Execute()
	var s exitStatus
	switch {
	case err == nil:
	case errors.As(err, &s):
		s.exit()
	case errors.As(err, new(failure)):
		fmt.Fprintf(os.Stderr, "spantee: %s\n", withHint(err))
		os.Exit(statusFailed)
	default:
		fmt.Fprintf(os.Stderr, "spantee: %s\n", withHint(err))
		os.Exit(statusUsage)
	}
}
