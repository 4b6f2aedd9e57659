// Spantee is tee for traces: it passes the output of a coding agent through
// unchanged and turns each of its sessions into an OpenTelemetry trace.
//
//	cursor-agent -p --output-format stream-json "fix the test" | spantee | jq -r .type
//
// filter.go shows the path of the data.
package main

import (
	"bytes"
	"errors"
	"io"
	"log"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel"
	"google.golang.org/grpc/grpclog"

	"github.com/spantee/spantee/cmd/spantee/internal/cli"
	"github.com/spantee/spantee/cmd/spantee/internal/proc"
	"github.com/spantee/spantee/mapping"
)

func main() {
	proc.QuitQuietly()
	limitMemory(memoryLimit)
	silenceLibraries()
	cmd := filterCommand()
	if len(os.Args) > 1 { // otherwise preparing the subcommands would only delay the filter
		cmd = rootCommand()
		help.AddTo(cmd)
		if strings.HasPrefix(os.Args[1], cobra.ShellCompRequestCmd) {
			cli.CompleteFlags(cmd, map[string][]string{"agent": mapping.Agents, "protocol": {"grpc", "http/protobuf", "http/json"}})
		}
	}
	var printed bytes.Buffer // cobra ignores errors of writing
	cmd.SetOut(&printed)
	running := false
	cmd.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		running = true
		return cli.CheckNotNegative(cmd)
	}
	err := cmd.Execute()
	if err == nil && printed.Len() > 0 {
		running = true
		_, err = os.Stdout.Write(printed.Bytes())
	}
	var s proc.Status
	switch {
	case err == nil:
	case errors.As(err, &s):
		s.Exit()
	default:
		stderr := newPlainReporter(os.Stderr)
		stderr.failed(err)
		stderr.w.Flush()
		if !running || errors.As(err, new(cli.UsageError)) {
			os.Exit(proc.StatusUsage)
		}
		os.Exit(proc.StatusFailed)
	}
}

// silenceLibraries keeps OpenTelemetry, grpc-go and net/http from writing to stderr,
// where the agent writes, too. Everything that matters is also returned as an
// error.
func silenceLibraries() {
	log.SetOutput(io.Discard) // net/http: "Unsolicited response received on idle HTTP channel"
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
	discardLogs(otel.SetLogger)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {}))
}

// discardLogs sets the zero logger, which discards everything. Naming its type would
// make the logger's module a dependency.
func discardLogs[Logger any](set func(Logger)) {
	var discard Logger
	set(discard)
}

// limitMemory makes the garbage collector run rarely, because tracing allocates much and
// retains little: the heap may grow fivefold instead of twofold between collections,
// up to limit. $GOGC and $GOMEMLIMIT take precedence.
func limitMemory(limit int64) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit)
	}
}

const (
	// memoryLimit is the limit of most commands. The program's own pages and a line of the
	// parse limit, which is copied as it grows, come on top: all of it stays below 80 MB.
	memoryLimit = 48 << 20

	// largeMemoryLimit is the limit of a viewer, without its database's own memory, and of a
	// command that reads folders of session logs, which takes remembering their rows.
	largeMemoryLimit = 80 << 20
)
