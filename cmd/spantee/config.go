package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"

	"github.com/spantee/spantee/cmd/spantee/internal/cli"
	"github.com/spantee/spantee/cmd/spantee/internal/sampler"
	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/file"
	"github.com/spantee/spantee/exporter/otlp"
	"github.com/spantee/spantee/exporter/resource"
	"github.com/spantee/spantee/exporter/spool"
	"github.com/spantee/spantee/exporter/viewer"
	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/content"
	"github.com/spantee/spantee/mapping/redact"
)

// A config is the configuration that the flags and the environment result in. Flags
// take precedence. Beside it, the command reads the environment for Go's memory limit, the
// agents' folders and GitHub's files. The packages beneath read their own variables.
type config struct {
	destination destination
	metrics     *otlp.Settings // nil if they go nowhere
	sampler     sampler.Sampler
	spool       *spool.Spool // nil for a recording, with --no-spool, or without a state directory
	parent      trace.SpanContext
	traceURL    string
	display     display
	content     contentConfig

	nowhere error // why no spans are sent, if that is one of the problems
}

// A contentConfig says which content is recorded.
type contentConfig struct {
	mapping.Options      // those of content
	maxIsDefault    bool // no variable sets MaxAttributeBytes
}

// A variableError is an invalid environment variable.
type variableError struct{ error }

func (e variableError) Unwrap() error { return e.error }

// resolve returns the configuration of a command that traces a stream. An invalid variable
// is a problem, because it must not break a pipe.
func (o *options) resolve(live bool, problem func(error)) (*config, error) {
	if !isTraceURL(o.traceURL) {
		return nil, cli.Invalid("--trace-url", o.traceURL, placeholder+" in it")
	}
	if err := mapping.CheckAgent(o.agent); err != nil {
		return nil, cli.Usage(err)
	}
	c := &config{
		traceURL: cmp.Or(o.traceURL, os.Getenv("SPANTEE_TRACE_URL")),
		display:  resolveDisplay(),
	}
	if live { // a recording can be sent again
		c.spool = o.spool()
	}
	var err error
	if c.content, err = o.contentOptions.resolve(problem); err != nil {
		return nil, err
	}
	if o.traceURL == "" && !isTraceURL(c.traceURL) {
		problem(fmt.Errorf("invalid $SPANTEE_TRACE_URL %q (want %s in it)", c.traceURL, placeholder))
		c.traceURL = ""
	}
	if c.parent, err = parentFromEnvironment(); err != nil {
		problem(err)
	}
	if os.Getenv("OTEL_CONFIG_FILE") != "" {
		problem(errors.New("$OTEL_CONFIG_FILE is not supported: set flags or OTEL_* variables"))
	}
	switch v := os.Getenv("OTEL_SDK_DISABLED"); strings.ToLower(v) {
	case "", "true", "false":
	default:
		problem(fmt.Errorf("invalid $OTEL_SDK_DISABLED %q (want true or false)", v))
	}
	c.destination, err = o.destination()
	if errors.As(err, new(variableError)) {
		c.goNowhere(err, problem)
		err = nil
	}
	if c.destination.otlp != nil {
		for _, err := range c.destination.otlp.Ignored() {
			problem(err)
		}
	}
	c.metrics = o.resolveMetrics(c.destination, live, problem) // metrics count all runs, sampled or not
	c.sampler = sampler.New(c.parent, problem)
	if why := c.sampler.Never; c.destination.isSet() && why != nil {
		c.goNowhere(why, problem)
	}
	return c, err
}

func (c *config) goNowhere(why error, problem func(error)) {
	c.destination, c.nowhere = destination{}, why
	problem(fmt.Errorf("no spans are sent: %w", why))
}

// placeholder stands for the trace id in a trace URL.
const placeholder = "{trace_id}"

// isTraceURL reports whether url is empty or has a placeholder.
func isTraceURL(url string) bool { return url == "" || strings.Contains(url, placeholder) }

// resourceSources returns where resource attributes come from. The repository of the working
// directory counts as content, and is that of an agent in the same pipe only.
func (c *config) resourceSources(piped bool) resource.Sources {
	return resource.Sources{Host: true, CI: true, Repository: piped && c.content.Content != content.None, Environment: true}
}

// services returns the resources of a stream's spans and metrics. Spans have no instance id,
// because sending a stream again must produce the same bytes.
func services(from resource.Sources, process *mapping.Process, problem func(error)) func(agent string) *resourcepb.Resource {
	var facts []string
	if process != nil {
		facts = append(facts, "process.executable.name", process.Executable, "process.parent_pid", fmt.Sprint(os.Getpid()))
	}
	var reported sync.Once // an error in the environment is the same for all agents
	return tracer.PerAgent(func(agent string) *resourcepb.Resource {
		r, err := resource.New(from, append([]string{"service.name", agent}, facts...)...)
		if err != nil {
			reported.Do(func() { problem(err) })
		}
		return r
	})
}

// traceLink returns the URL of a trace, "" if there is none.
func (c *config) traceLink(id string) string {
	trace, err := trace.TraceIDFromHex(id)
	if c.traceURL == "" || err != nil || !c.sampler.Keeps(trace) {
		return ""
	}
	return strings.ReplaceAll(c.traceURL, placeholder, id)
}

// A destination is where spans go: a file, an OTLP endpoint, or nowhere.
type destination struct {
	file   string
	otlp   *otlp.Settings
	source string // what decided: a --flag, a $VARIABLE, or empty
}

func (d destination) isSet() bool { return d.file != "" || d.otlp != nil }

// open returns a client, nil if spans go nowhere.
func (d destination) open() (exporter.Client, error) {
	switch {
	case d.file != "":
		client, err := file.New(d.file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.source, err)
		}
		return client, nil
	case d.otlp != nil:
		return d.otlp.Client(), nil
	}
	return nil, nil
}

var errBothTo = cli.Usage(errors.New("--to and --endpoint are mutually exclusive"))

// destination determines where spans go. Its error is a cli.UsageError, a
// variableError, or an error about a file that cannot be read.
func (o *options) destination() (destination, error) {
	switch {
	case o.toFile != "" && o.otlp.Endpoint != "":
		return destination{}, errBothTo
	case cli.IsStdout(o.toFile):
		return destination{}, invalidTo(o.toFile)
	case o.toFile != "":
		return destination{file: o.toFile, source: "--to"}, nil
	case o.otlp.Endpoint != "":
		settings, err := resolveOTLP(o.otlp)
		return destination{otlp: settings, source: "--endpoint"}, err
	}

	to, chosen := os.Getenv("SPANTEE_TO"), os.Getenv("OTEL_TRACES_EXPORTER")
	switch {
	case cli.IsStdout(to):
		return destination{}, variableError{fmt.Errorf("invalid $SPANTEE_TO %q (want %s)", to, cli.WantFile)}
	case to != "":
		return destination{file: to, source: "$SPANTEE_TO"}, nil
	case strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true"):
		return destination{source: "$OTEL_SDK_DISABLED"}, nil
	case chosen == "none":
		return destination{source: "$OTEL_TRACES_EXPORTER"}, nil
	case chosen == "file":
		return destination{}, variableError{errors.New("$OTEL_TRACES_EXPORTER is file, but neither --to nor $SPANTEE_TO names one")}
	case chosen != "" && chosen != "otlp":
		return destination{}, variableError{fmt.Errorf("invalid $OTEL_TRACES_EXPORTER %q (want otlp, file or none)", chosen)}
	case chosen == "" && unsetSecret() != "":
		return destination{source: "an empty $" + unsetSecret()}, nil
	case o.viewing && chosen == "" && !o.saysOTLP():
		return destination{source: "--view"}, nil // the page needs no collector
	}
	settings, err := resolveOTLP(o.otlp)
	return destination{otlp: settings}, err
}

// unsetSecret returns the name of an endpoint's variable that is empty because a secret of
// GitHub Actions is not set, as in a fork; "" if there is none. Elsewhere, empty is unset.
func unsetSecret() (name string) {
	if os.Getenv("GITHUB_ACTIONS") != "true" {
		return ""
	}
	for _, variable := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		switch value, set := os.LookupEnv(variable); {
		case value != "":
			return ""
		case set && name == "":
			name = variable
		}
	}
	return name
}

// resolveMetrics determines where metrics go: where their own variables say, or else
// where spans go. It returns nil if they go nowhere.
//
// Unless $OTEL_METRICS_EXPORTER is set, metrics are sent only if spans are sent by
// OTLP, and only for a live stream: a recording that is sent twice would count
// twice.
func (o *options) resolveMetrics(spans destination, live bool, problem func(error)) *otlp.Settings {
	switch chosen := os.Getenv("OTEL_METRICS_EXPORTER"); {
	case strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true"), chosen == "none", chosen == "" && (spans.otlp == nil || !live):
		return nil
	case chosen != "" && chosen != "otlp":
		problem(fmt.Errorf("no metrics are sent: invalid $OTEL_METRICS_EXPORTER %q (want otlp or none)", chosen))
		return nil
	}
	cfg := o.otlp
	cfg.Signal = otlp.Metrics
	settings, err := resolveOTLP(cfg)
	if err != nil {
		problem(fmt.Errorf("no metrics are sent: %w", err))
		return nil
	}
	return settings
}

func invalidTo(name string) error { return cli.Invalid("--to", name, cli.WantFile) }

// saysOTLP reports whether a flag or a variable configures an OTLP endpoint.
func (o *options) saysOTLP() bool {
	c := o.otlp
	return c.Protocol != "" || len(c.Headers) > 0 ||
		os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT")+os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// resolveOTLP returns the settings for spans sent by OTLP, and an error for an
// invalid flag or variable.
func resolveOTLP(cfg otlp.Config) (*otlp.Settings, error) {
	cfg.UserAgent = tracer.UserAgent()
	s, err := otlp.Resolve(cfg)
	wrong, ok := errors.AsType[*otlp.SettingError](err)
	switch {
	case !ok:
		return s, err
	case wrong.Variable != "":
		return s, variableError{err}
	}
	return s, cli.Usage(errors.New(wrong.Describe("--" + wrong.Name)))
}

// spool returns where undelivered spans are kept, nil if nowhere.
func (o *options) spool() *spool.Spool {
	s, err := spool.Default()
	if o.noSpool || err != nil {
		return nil
	}
	return &s
}

// parentFromEnvironment returns the span context in $TRACEPARENT and $TRACESTATE. If
// $TRACEPARENT is invalid, the span context is not valid either.
func parentFromEnvironment() (trace.SpanContext, error) {
	carrier := propagation.MapCarrier{"traceparent": os.Getenv("TRACEPARENT"), "tracestate": os.Getenv("TRACESTATE")}
	parent := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
	if v := os.Getenv("TRACEPARENT"); v != "" && !parent.IsValid() {
		return parent, fmt.Errorf("invalid $TRACEPARENT %q (want 00-TRACEID-SPANID-FLAGS)", v)
	}
	return parent, nil
}

// minAttributeBytes is room for an id and for a message without its text.
const minAttributeBytes = 128

// resolve determines which content is recorded. An invalid variable is a problem,
// and turns content off.
func (o *contentOptions) resolve(problem func(error)) (contentConfig, error) {
	limit := limitVariable(minAttributeBytes, problem, "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT")
	c := contentConfig{maxIsDefault: limit == 0}
	c.Content, c.MaxAttributeBytes = content.Level(o.content), cmp.Or(limit, defaultAttributeBytes)
	c.MaxSpanEvents = limitVariable(1, problem, "OTEL_SPAN_EVENT_COUNT_LIMIT")
	var err error
	if c.Redactor, err = redact.New(o.redactRules); err != nil {
		return c, cli.Usage(err)
	}
	if c.Content != "" {
		return c, nil
	}
	// Spantee sends no log events, so content for events only means no content.
	switch v := os.Getenv(captureVariable); strings.ToUpper(v) {
	case "TRUE", "SPAN_ONLY", "SPAN_AND_EVENT":
		c.Content = content.Full
	case "", "FALSE", "NO_CONTENT", "EVENT_ONLY":
		c.Content = content.None
	default:
		c.Content = content.None
		problem(fmt.Errorf("no content is recorded: invalid $%s %q (want true, span_only, span_and_event, event_only, no_content or false)", captureVariable, v))
	}
	return c, nil
}

// limitVariable returns the limit in the first of the variables that has a valid one, and 0 if
// none has.
func limitVariable(least int, problem func(error), variables ...string) int {
	for _, variable := range variables {
		v := strings.TrimSpace(os.Getenv(variable))
		n, err := strconv.Atoi(v)
		if err == nil && n >= least {
			return n
		}
		if v != "" {
			problem(fmt.Errorf("invalid $%s %q (want %d or more)", variable, v, least))
		}
	}
	return 0
}

// keepWhole lets strings be as long as a file or a viewer can hold, unless a variable limits
// them.
func (c *contentConfig) keepWhole() {
	if c.maxIsDefault {
		c.MaxAttributeBytes = wholeAttributeBytes
	}
}

// sendsToViewer reports whether a viewer of this user gets the spans.
func (c *config) sendsToViewer() bool {
	if c.destination.otlp == nil || c.content.Content == content.None {
		return false
	}
	stateDir, err := spool.StateDir()
	return err == nil && viewer.ReceivesAt(stateDir, c.destination.otlp.Destination().Endpoint)
}
