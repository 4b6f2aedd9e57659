package main

import "github.com/spf13/pflag"

// defaultAttributeBytes is what Tempo takes unless configured otherwise.
const defaultAttributeBytes = 2048

// contentOptions are --content and related flags.
type contentOptions struct {
	content           string
	redactRules       []string
	redactOff         []string
	maxAttributeBytes int
}

func (o *contentOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.content, "content", "", "record content: `WHAT` is none, details for paths, commands and the like, or full "+
		"(default $"+captureVariable+" or none)")
	f.StringArrayVar(&o.redactRules, "redact-rule", nil, "also redact what matches `NAME=REGEX`, or its first group; may be repeated")
	f.StringArrayVar(&o.redactOff, "redact-off", nil, "turn off the redaction rule `NAME`; may be repeated")
	f.IntVar(&o.maxAttributeBytes, "max-attribute-bytes", defaultAttributeBytes, "truncate strings in spans to `N` bytes")
}
