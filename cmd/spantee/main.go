// Spantee is tee for traces: it passes the output of a coding agent through
// unchanged and turns each of its sessions into an OpenTelemetry trace.
//
//	cursor-agent -p --output-format stream-json "fix the test" | spantee | jq -r .type
//
// filter.go shows the path of the data.
package main

import (
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel"
)

func main() {
	quitQuietly()
	collectRarely()
	silenceLibraries()
	cmd := filterCommand()
	if len(os.Args) > 1 { // otherwise preparing the subcommands would only delay the filter
		cmd = rootCommand()
		refuseUnknown(cmd)
	}
	stdout := &helpWriter{w: os.Stdout}
	cmd.SetOut(stdout)
	running := false
	cmd.PersistentPreRun = func(*cobra.Command, []string) { running = true }
	err := cmd.Execute()
	if err == nil && stdout.err != nil {
		running, err = true, stdout.err
	}
	var s exitStatus
	switch {
	case err == nil:
	case errors.As(err, &s):
		s.exit()
	default:
		printFinal(os.Stderr, lastPatience, fmt.Sprintf("spantee: %s\n", withHint(err)))
		if !running || errors.As(err, new(usageError)) {
			os.Exit(statusUsage)
		}
		os.Exit(statusFailed)
	}
}

// silenceLibraries keeps OpenTelemetry and net/http from writing to stderr,
// where the agent writes, too. Everything that matters is also returned as an
// error.
func silenceLibraries() {
	log.SetOutput(io.Discard) // net/http: "Unsolicited response received on idle HTTP channel"
	otel.SetLogger(logr.Discard())
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {}))
}
