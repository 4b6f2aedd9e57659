package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spantee/spantee/cmd/spantee/internal/cli"
	"github.com/spantee/spantee/cmd/spantee/internal/limits"
	"github.com/spantee/spantee/cmd/spantee/internal/proc"
	"github.com/spantee/spantee/exporter/otlp"
	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/mapping"
)

// options are the filter's flags: a field for each, in the groups of --help.
type options struct {
	otlp         otlp.Config
	toFile       string
	flushTimeout time.Duration

	contentOptions
	deltas string

	agent string
	now   bool // a flag of replay

	tree, log      bool
	receipt        string
	failIf         string
	prices         string
	baseline       string
	summary, quiet bool
	traceURL       string
	stallAfter     time.Duration

	noSpool bool

	limits          limits.Options // of exec
	viewing, noOpen bool
}

const (
	// defaultFlushTimeout is that of all commands that deliver.
	defaultFlushTimeout = 2 * time.Second

	// defaultStall is how long an agent may print nothing.
	defaultStall = 10 * time.Minute
)

// addFlags adds the flags of every command that traces a stream.
func (o *options) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	addOTLPFlags(cmd, &o.otlp)
	f.StringVar(&o.toFile, "to", "", "append spans to `FILE` as OTLP JSON lines instead of sending them (default $SPANTEE_TO)")
	f.DurationVar(&o.flushTimeout, "flush-timeout", defaultFlushTimeout, "at the end, wait at most `TIME` for the collector")

	o.contentOptions.addFlags(cmd)
	o.deltas = string(mapping.DeltasEach)
	f.Var(cli.OneOf{Value: &o.deltas, Words: []string{"each", "message", "off"}}, "deltas", "record deltas as events on chat spans: `WHAT` is each, message (one event per message) or off")

	f.StringVar(&o.agent, "agent", "", "skip agent detection: `NAME` is one of "+strings.Join(mapping.Agents, ", "))

	f.BoolVar(&o.tree, "tree", false, "also print each trace as a waterfall on stderr")
	f.StringVar(&o.receipt, "receipt", "", "at the end, replace `FILE` by JSON that says what was done, used and failed")
	f.StringVar(&o.failIf, "fail-if", "", "exit with 1, not 0, if `CONDITION` is true at the end, such as 'cost > 2 or not succeeded'")
	addPricesFlag(cmd, &o.prices)
	f.BoolVar(&o.summary, "summary", false, "report what was traced, even if stderr is not a terminal")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "report nothing about traces, even if spans were lost")
	f.StringVar(&o.traceURL, "trace-url", "", "link to traces at `URL`, such as http://localhost:16686/trace/{trace_id} (default $SPANTEE_TRACE_URL)")
	f.DurationVar(&o.stallAfter, "stall-after", defaultStall, "report an agent that prints nothing for `TIME` while no tool is running; 0s: never")

	f.BoolVar(&o.noSpool, "no-spool", false, "keep nothing on disk: undelivered spans and metrics are lost, and a slow collector may delay the stream")
}

// addBaselineFlag adds --baseline, which is of no use for follow: its runs are not of one job.
func (o *options) addBaselineFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.baseline, "baseline", "", "compare each run with earlier ones of the same service and agent in `FILE`, and add it")
}

// addLogFlag adds --log, which is of no use for what has ended.
func (o *options) addLogFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.log, "log", false, "also print a line on stderr when a step ends, and every minute that it takes")
}

func addPricesFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "prices", "", "compute unstated costs from `FILE`, LiteLLM's model_prices_and_context_window.json")
}

// readPrices reads the file of --prices.
func readPrices(name string) (runs.Prices, error) {
	if name == "" {
		return nil, nil
	}
	var prices runs.Prices
	err, read := proc.Unless(time.After(pricesPatience), func() error { // the file may be a pipe that nobody writes to
		f, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("--prices: %w", err)
		}
		defer f.Close()
		limited := &io.LimitedReader{R: f, N: maxPrices}
		if prices, err = runs.ReadPrices(limited); err != nil && limited.N == 0 {
			err = fmt.Errorf("it is larger than %d MiB", maxPrices>>20)
		}
		if err != nil {
			return fmt.Errorf("--prices %s: %w", name, err)
		}
		return nil
	})
	switch {
	case !read:
		return nil, cli.Usage(fmt.Errorf("--prices %s: not read after %v", name, pricesPatience))
	case err != nil:
		return nil, cli.Usage(err)
	}
	return prices, nil
}

const (
	// maxPrices is many times the size of LiteLLM's file.
	maxPrices = 64 << 20

	// pricesPatience is how long a command waits for the file of --prices, which may be the
	// output of another command.
	pricesPatience = 5 * time.Second
)

// defaultPage is the address of the page, next to OTLP's own ports, 4317 and 4318.
const defaultPage = "127.0.0.1:4319"

// addViewFlags adds --view and related flags.
func (o *options) addViewFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.viewing, "view", false, "also show each trace in the browser, until Ctrl-C")
	f.BoolVar(&o.noOpen, "no-open", false, "do not open the browser")
}

func checkAddress(flag, address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.DefaultResolver.LookupPort(context.Background(), "tcp", port)
	}
	if address != "" && err != nil {
		return cli.Invalid(flag, address, "HOST:PORT, such as "+defaultPage)
	}
	return nil
}

// addOTLPFlags adds the flags for where to send spans, and how. Other settings have
// only a standard variable.
func addOTLPFlags(cmd *cobra.Command, o *otlp.Config) {
	f := cmd.Flags()
	f.StringVar(&o.Endpoint, "endpoint", "", "send spans to `URL` (default $OTEL_EXPORTER_OTLP_ENDPOINT or http://localhost:4317)")
	f.StringVar(&o.Protocol, "protocol", "", "speak OTLP by `NAME`: grpc, http/protobuf or http/json (default $OTEL_EXPORTER_OTLP_PROTOCOL or grpc)")
	f.StringToStringVar(&o.Headers, "header", nil, "add the header `NAME=VALUE` to requests; repeatable")
	f.Lookup("header").DefValue = "" // pflag would show it as []
}

// defaultAttributeBytes is the limit of an attribute in Tempo, unless configured otherwise.
const defaultAttributeBytes = 2048

// wholeAttributeBytes limits strings that only a file or a viewer gets.
const wholeAttributeBytes = mapping.MaxAttribute

// captureVariable is the GenAI conventions' variable that turns on content.
const captureVariable = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"

// contentOptions are --content and related flags.
type contentOptions struct {
	content     string
	redactRules []string
}

func (o *contentOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Var(cli.OneOf{Value: &o.content, Words: []string{"none", "details", "full"}}, "content", "record content: `WHAT` is none, details (such as paths and commands) or full (also prompts and results) (default none)")
	f.StringArrayVar(&o.redactRules, "redact-rule", nil, "add the redaction rule `NAME=REGEX`, which redacts its first group or else the whole match; repeatable")
}
