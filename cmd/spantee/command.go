package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/spantee/spantee/cmd/spantee/internal/cli"
	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/tree"
)

const usage = `spantee is tee for traces. It sits in the pipe behind a coding agent, passes the
agent's stream through unchanged, and turns each run into a trace:

  cursor-agent -p --output-format stream-json "fix the test" | spantee | jq .

Spans go to http://localhost:4317 over OTLP/gRPC, unless the standard
OTEL_EXPORTER_OTLP_* variables or the flags below name another endpoint. A
collector that is missing, slow or broken does not delay the stream; spantee
waits for it only at exit, at most --flush-timeout. Undelivered spans are
spooled on disk and sent by a later run.`

// rootCommand returns the filter with all subcommands.
func rootCommand() *cobra.Command {
	cmd := filterCommand()
	cmd.Version = tracer.Version() + " (" + runtime.Version() + ")" // without a tag, the version is the commit
	cmd.AddCommand(execCommand(), flushCommand(), spoolCommand(), doctorCommand(), viewCommand(), lsCommand(), showCommand(), rmCommand(), replayCommand(), followCommand())
	for _, c := range append(cmd.Commands(), cmd) {
		c.Flags().SortFlags = false
	}
	return cmd
}

func filterCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:           "spantee",
		Short:         "tee for traces",
		Long:          usage,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          unexpected,

		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(*cobra.Command, []string) error { return filter(&o, os.Stdin, os.Stdout, os.Stderr) },
	}
	o.addFlags(cmd)
	o.addLogFlag(cmd)
	o.addBaselineFlag(cmd)
	o.addViewFlags(cmd)
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if c == cmd && c.Flags().NArg() > 0 { // the flag belongs to the command before it, as in: spantee claude -p
			return unexpected(c, c.Flags().Args())
		}
		return cli.FlagError(c, err)
	})
	return cmd
}

// unexpected returns an error for arguments of the filter, which has none: a command
// to run, or a recording.
func unexpected(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if args[0] == "version" {
		return &exporter.Error{Err: cli.Usage(fmt.Errorf("unexpected argument %q", args[0])), Hint: "for the version: spantee --version"}
	}
	hint := "to run and trace a command: spantee exec -- " + tree.Printable(args[0]) + " ..., or " + tree.Printable(args[0]) + " ... | spantee"
	if _, err := os.Stat(args[0]); err == nil || filepath.Ext(args[0]) != "" {
		hint = "to trace a recording: spantee replay FILE"
	} else if err := cli.UnknownCommand(cmd.Root(), args[0]); err != nil {
		return err
	}
	return &exporter.Error{Err: cli.Usage(fmt.Errorf("unexpected argument %q", args[0])), Hint: hint}
}
