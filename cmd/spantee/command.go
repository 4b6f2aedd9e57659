package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/otlp"
	"github.com/spantee/spantee/exporter/spool"
	"github.com/spantee/spantee/mapping"
)

// options are the filter's flags, by what people look for.
type options struct {
	destinationOptions
	contentOptions
	deltaOptions
	streamOptions
	reportOptions
	diskOptions
	limitOptions
	show bool
	view viewOptions
}

const usage = `spantee is tee for traces. It sits in the pipe behind a coding agent, passes the
agent's stream through unchanged, and turns each session into a trace:

  cursor-agent -p --output-format stream-json "fix the test" | spantee | jq -r .type

Spans go to http://localhost:4317 over OTLP/gRPC, unless the standard
OTEL_EXPORTER_OTLP_* variables or the flags below name another endpoint. A
collector that is missing, slow or broken never delays the stream; spantee waits
for it only at exit, at most --flush-timeout. Undelivered spans are spooled on disk
and sent by a later run.`

// rootCommand returns the filter with all subcommands.
func rootCommand() *cobra.Command {
	cmd := filterCommand()
	cmd.Version = versionLine()
	cmd.AddCommand(execCommand(), flushCommand(), spoolCommand(), doctorCommand(), viewCommand(), lsCommand(), showCommand(), rmCommand(), replayCommand(), manCommand())
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
		Args: func(_ *cobra.Command, args []string) error {
			return unexpected(args)
		},
		RunE: func(*cobra.Command, []string) error { return filter(&o, os.Stdin, os.Stdout, os.Stderr) },
	}
	o.addFlags(cmd.Flags())
	o.addViewFlags(cmd.Flags())
	add(cmd.Flags(), groupStream, func(f *pflag.FlagSet) {
		f.BoolVar(&o.now, "now", false, "shift the times of a recording so that it ends now")
	})
	cmd.SetUsageFunc(printUsage)
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if c == cmd && c.Flags().NArg() > 0 { // the flag belongs to the command before it, as in: spantee claude -p
			return unexpected(c.Flags().Args())
		}
		return flagError(err)
	})
	return cmd
}

// unexpected returns an error for arguments of the filter, which has none: a command
// to run, or a recording.
func unexpected(args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "to run and trace a command: spantee exec -- " + printable(args[0]) + " ..., or " + printable(args[0]) + " ... | spantee"
	if _, err := os.Stat(args[0]); err == nil || filepath.Ext(args[0]) != "" {
		hint = "to trace a recording: spantee replay FILE"
	}
	return &exporter.Error{Err: usageError{fmt.Errorf("unexpected argument %q", args[0])}, Hint: hint}
}

// flagError rewrites an error of pflag in the form of all other errors.
func flagError(err error) error {
	e, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return usageError{err}
	}
	want := map[string]string{
		"size": "a size such as 256MiB", "duration": "a duration such as 2s", "bool": "true or false",
		"int": "a whole number", "int64": "a whole number", "float64": "a number",
		"stringToString": "NAME=VALUE",
	}[e.GetFlag().Value.Type()]
	return invalid("--"+e.GetFlag().Name, e.GetValue(), cmp.Or(want, e.Unwrap().Error()))
}

// Groups of flags in --help, by what people look for.
const (
	groupDestination = "Where spans go"
	groupContent     = "What spans contain"
	groupStream      = "What the stream is"
	groupMessages    = "What is reported"
	groupPage        = "The page in the browser"
	groupDisk        = "What is kept on disk"
	groupLimits      = "Limits for the agent"
)

// add adds flags to f, which --help shows in a group.
func add(f *pflag.FlagSet, group string, flags func(f *pflag.FlagSet)) {
	grouped := pflag.NewFlagSet("", pflag.ContinueOnError)
	grouped.SortFlags = false
	flags(grouped)
	grouped.VisitAll(func(flag *pflag.Flag) {
		flag.Annotations = map[string][]string{groupKey: {group}}
		f.AddFlag(flag)
	})
	f.SortFlags = false
}

// groupKey is the annotation that names a flag's group.
const groupKey = "group"

// addFlags adds the flags of every command that traces a stream.
func (o *options) addFlags(f *pflag.FlagSet) {
	add(f, groupDestination, o.destinationOptions.addFlags)
	add(f, groupContent, o.contentOptions.addFlags)
	add(f, groupContent, o.deltaOptions.addFlags)
	add(f, groupStream, o.streamOptions.addFlags)
	add(f, groupMessages, o.reportOptions.addFlags)
	add(f, groupDisk, o.diskOptions.addFlags)
}

// destinationOptions say where spans go.
type destinationOptions struct {
	otlp         otlp.Config
	toFile       string
	flushTimeout time.Duration
}

func (o *destinationOptions) addFlags(f *pflag.FlagSet) {
	addOTLPFlags(f, &o.otlp)
	f.StringVar(&o.toFile, "to", "", "append spans to `FILE` as OTLP JSON lines instead of sending them (default $SPANTEE_TO)")
	f.DurationVar(&o.flushTimeout, "flush-timeout", defaultFlushTimeout, "at the end, wait at most `TIME` for the collector")
}

// deltaOptions say how deltas are recorded.
type deltaOptions struct {
	deltas        string
	maxSpanEvents int
}

func (o *deltaOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.deltas, "deltas", "each", "record deltas as events on chat spans: `WHAT` is each, message (one event per message) or off")
	f.IntVar(&o.maxSpanEvents, "max-span-events", 512, "record at most `N` events on a chat span, and the rest on child spans")
}

// streamOptions say what the stream is.
type streamOptions struct {
	agent string
	now   bool // not a flag of exec, whose stream is live
}

func (o *streamOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.agent, "agent", "", "skip agent detection: `NAME` is one of "+strings.Join(mapping.Agents, ", "))
}

// reportOptions say what is reported about the traces, and when.
type reportOptions struct {
	tree           bool
	receipt        string
	failIf         string
	summary, quiet bool
	traceURL       string
	stallAfter     time.Duration
}

func (o *reportOptions) addFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.tree, "tree", false, "also print each trace as a waterfall on stderr")
	f.StringVar(&o.receipt, "receipt", "", "at the end, replace `FILE` by a JSON document that says what was done, used and failed")
	f.StringVar(&o.failIf, "fail-if", "", "exit with status 1 instead of 0 if `CONDITION` is true at the end, such as 'cost > 2 or not succeeded'")
	f.BoolVar(&o.summary, "summary", false, "report on stderr what was traced, even if stderr is not a terminal")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "report nothing about traces on stderr, even if spans were lost")
	f.StringVar(&o.traceURL, "trace-url", "", "link to traces at `URL`, such as http://localhost:16686/trace/{trace_id} (default $SPANTEE_TRACE_URL)")
	f.DurationVar(&o.stallAfter, "stall-after", 10*time.Minute, "report an agent that prints nothing for `TIME` while no tool is running; 0s turns this off")
}

// diskOptions say what is kept on disk.
type diskOptions struct {
	noSpool  bool
	spoolMax size
	spillMax size
}

func (o *diskOptions) addFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.noSpool, "no-spool", false, "keep nothing on disk: undelivered spans and metrics are lost")
	o.spoolMax = size{spool.DefaultMax}
	f.Var(&o.spoolMax, "spool-max", "keep at most `SIZE` of undelivered spans and metrics on disk, across all runs")
	o.spillMax = size{1 << 30}
	f.Var(&o.spillMax, "spill-max", "buffer at most `SIZE` of untraced input on disk if the stream outpaces tracing; 0 delays the stream instead")
}

// addOTLPFlags adds the flags for where to send spans, and how. Other settings have
// only a standard variable.
func addOTLPFlags(f *pflag.FlagSet, o *otlp.Config) {
	f.StringVar(&o.Endpoint, "endpoint", "", "send spans to `URL` (default $OTEL_EXPORTER_OTLP_ENDPOINT or http://localhost:4317)")
	f.StringVar(&o.Protocol, "protocol", "", "OTLP protocol: `NAME` is grpc, http/protobuf or http/json (default $OTEL_EXPORTER_OTLP_PROTOCOL or grpc)")
	f.StringToStringVar(&o.Headers, "header", nil, "add the header `NAME=VALUE` to each request; may be repeated")
	f.Lookup("header").DefValue = "" // pflag would show it as []
	f.StringVar(&o.CACert, "certificate", "", "trust the certificate authority in this PEM `FILE`")
}

// version returns the version of the module the binary was built from.
func version() string {
	if info, ok := buildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// buildInfo parses the build information once: several parts of a run need it.
var buildInfo = sync.OnceValues(debug.ReadBuildInfo)

// scope returns the instrumentation scope of spantee's spans.
func scope() *commonpb.InstrumentationScope {
	return &commonpb.InstrumentationScope{Name: "github.com/spantee/spantee", Version: version()}
}
