package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

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

// defaultStall is how long an agent may print nothing.
const defaultStall = 10 * time.Minute

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
	f.DurationVar(&o.stallAfter, "stall-after", defaultStall, "report an agent that prints nothing for `TIME` while no tool is running; 0s turns this off")
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

// defaultAttributeBytes is what Tempo takes unless configured otherwise.
const defaultAttributeBytes = 2048

// wholeAttributeBytes is where strings are cut that only a file or a viewer gets.
const wholeAttributeBytes = mapping.MaxAttribute

// contentOptions are --content and related flags.
type contentOptions struct {
	content           string
	redactRules       []string
	redactOff         []string
	maxAttributeBytes int
	flags             *pflag.FlagSet // to tell a default from the same value given
}

func (o *contentOptions) addFlags(f *pflag.FlagSet) {
	o.flags = f
	f.StringVar(&o.content, "content", "", "record content: `WHAT` is none, details (such as paths and commands) or full (also prompts and results) "+
		"(default $"+captureVariable+" or none)")
	f.StringArrayVar(&o.redactRules, "redact-rule", nil, "add the redaction rule `NAME=REGEX`, which redacts its first group or else the whole match; may be repeated")
	f.StringArrayVar(&o.redactOff, "redact-off", nil, "turn off the redaction rule `NAME`; may be repeated")
	f.IntVar(&o.maxAttributeBytes, "max-attribute-bytes", defaultAttributeBytes,
		fmt.Sprintf("truncate strings in spans to `N` bytes (default %d, or %d with --to or if a viewer receives them)", defaultAttributeBytes, wholeAttributeBytes))
	f.Lookup("max-attribute-bytes").DefValue = "0" // it is not shown twice
}

// A size is a flag value in bytes, such as 256MiB.
type size struct{ bytes int64 }

func (s *size) String() string { return strings.ReplaceAll(bytesText(s.bytes), " ", "") }
func (s *size) Type() string   { return "size" }

// units are the units of sizes: each is 1024 or 1000 times the one before it.
const units = "KMGTPE"

func (s *size) Set(text string) error {
	number := strings.TrimRight(text, " BIKMGTPEbikmgtpe")
	unit := strings.ToUpper(strings.TrimSpace(text[len(number):]))
	n, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return errors.New("not a size")
	}
	if unit != "" && unit != "B" {
		power := strings.IndexByte(units, unit[0]) + 1
		base := map[string]float64{"": 1000, "B": 1000, "I": 1024, "IB": 1024}[unit[1:]]
		if power == 0 || base == 0 {
			return errors.New("not a size")
		}
		n *= math.Pow(base, float64(power))
	}
	if !(n >= 0 && n < math.MaxInt64) { // NaN is neither
		return errors.New("not a size")
	}
	s.bytes = int64(n)
	return nil
}

// bytesText returns a size with two significant digits at least: 8 B, 1.5 MiB, 256 MiB.
func bytesText(n int64) string {
	size, unit := float64(n), "B"
	for i := 0; size >= 1024 && i < len(units); i++ {
		size, unit = size/1024, units[i:i+1]+"iB"
	}
	if n >= 10 && size < 9.95 {
		return fmt.Sprintf("%.1f %s", size, unit)
	}
	return fmt.Sprintf("%.0f %s", size, unit)
}
