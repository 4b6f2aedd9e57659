package main

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/redact"
)

// contentOptions are the flags that say what content leaves the machine.
type contentOptions struct {
	content           string
	redactRules       []string
	redactOff         []string
	maxAttributeBytes int
}

// captureVariable is the GenAI conventions' own switch.
const captureVariable = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"

// defaultAttributeBytes is what Tempo takes unless configured otherwise.
const defaultAttributeBytes = 2048

// minAttributeBytes is room for an id and for a message without its text.
const minAttributeBytes = 128

func (o *contentOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.content, "content", "", "what to record of content: `WHAT` is none, details for paths, commands and the like, or full "+
		"(default $"+captureVariable+" or none)")
	f.StringArrayVar(&o.redactRules, "redact-rule", nil, "also take out of content what matches `NAME=REGEX`, or its first group; may be repeated")
	f.StringArrayVar(&o.redactOff, "redact-off", nil, "leave the redaction rule of this `NAME` out; may be repeated")
	f.IntVar(&o.maxAttributeBytes, "max-attribute-bytes", defaultAttributeBytes, "cut strings in spans to `N` bytes")
}

// applyTo sets what the flags and the environment say. Wrong flags are an
// error; a wrong variable is a problem to tell of, and means no content.
func (o *contentOptions) applyTo(opts *mapping.Options, problem func(string)) error {
	if n := o.maxAttributeBytes; n < minAttributeBytes || n > mapping.MaxAttribute {
		return fmt.Errorf("--max-attribute-bytes must be from %d to %d", minAttributeBytes, mapping.MaxAttribute)
	}
	redactor, err := redact.New(o.redactRules, o.redactOff)
	if err != nil {
		return &exporter.Error{Err: err, Hint: "rules have the names that stand in their marks, as in [redacted:jwt]"}
	}
	fromVariable, ok := captured(os.Getenv(captureVariable))
	if !ok && o.content == "" {
		problem(fmt.Sprintf("$%s is %q, which spantee does not know: no content is recorded", captureVariable, os.Getenv(captureVariable)))
	}
	opts.Content = cmp.Or(mapping.Content(o.content), fromVariable)
	opts.Redactor = redactor
	opts.MaxAttributeBytes = o.maxAttributeBytes
	return nil
}

// captured is what a value of the variable asks for. Spantee sends spans and no
// log events: content for events only is none.
func captured(v string) (mapping.Content, bool) {
	switch strings.ToUpper(v) {
	case "TRUE", "SPAN_ONLY", "SPAN_AND_EVENT":
		return mapping.ContentFull, true
	case "", "FALSE", "NO_CONTENT", "EVENT_ONLY":
		return mapping.ContentNone, true
	}
	return mapping.ContentNone, false
}
