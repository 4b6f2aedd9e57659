package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/spantee/spantee/mapping"
)

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
