package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// A usageError is an invalid flag or argument.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func invalid(what, value, want string) error {
	return usageError{fmt.Errorf("invalid %s %q (want %s)", what, value, want)}
}

// flagError rewrites an error about a flag in the form of all other errors.
func flagError(cmd *cobra.Command, err error) error {
	flag, value, ok := invalidFlag(err, cmd.Flags().Lookup)
	if !ok {
		return usageError{unknownFlag(cmd, err)}
	}
	want := map[string]string{
		"duration": "a duration such as 2s", "bool": "true or false",
		"int": "a whole number", "int64": "a whole number", "float64": "a number",
		"stringToString": "NAME=VALUE",
	}[flag.Value.Type()]
	return invalid("--"+flag.Name, value, cmp.Or(want, errors.Unwrap(err).Error()))
}

// invalidFlag returns the flag whose value is invalid, and that value. Like flagsOf, it
// infers the type of a flag, from a function that it does not call.
func invalidFlag[Flag any](err error, _ func(name string) Flag) (flag Flag, value string, ok bool) {
	var invalid interface {
		error
		GetFlag() Flag
		GetValue() string
	}
	if ok = errors.As(err, &invalid); ok {
		flag, value = invalid.GetFlag(), invalid.GetValue()
	}
	return flag, value, ok
}

// flagsOf returns the flags that a method of cobra's flag sets visits. It infers their type:
// naming the type would make the library that cobra has it from a dependency.
func flagsOf[Flag any](visit func(func(Flag))) (flags []Flag) {
	visit(func(flag Flag) { flags = append(flags, flag) })
	return flags
}

// notNegative returns an error for a negative number or time: no flag may be one.
func notNegative(cmd *cobra.Command) error {
	for _, flag := range flagsOf(cmd.Flags().Visit) {
		switch v := flag.Value.String(); flag.Value.Type() {
		case "duration", "int", "int64", "float64":
			if v == "NaN" || strings.HasPrefix(v, "-") {
				return invalid("--"+flag.Name, v, "0 or more")
			}
		}
	}
	return nil
}

// flagGroups are the flags in --help, by what people look for. Other flags come last.
var flagGroups = []struct{ title, flags string }{
	{"Where spans go", "endpoint protocol header to flush-timeout"},
	{"What spans contain", "content redact-rule deltas"},
	{"What the stream is", "agent now recursive since idle"},
	{"What is reported", "tree log receipt fail-if baseline prices summary quiet trace-url stall-after"},
	{"The page in the browser", "view listen no-open otlp-grpc otlp-http export"},
	{"What is kept on disk", "no-spool keep"},
	{"Limits for the agent", "max-duration max-idle max-tools max-tokens max-cost on-limit grace"},
}

// oneOf is a flag whose value is one of a few words.
type oneOf struct {
	value *string
	words []string
}

func (o oneOf) String() string { return *o.value }
func (o oneOf) Type() string   { return "string" }

func (o oneOf) Set(text string) error {
	if text != "" && !slices.Contains(o.words, text) { // "" is the default
		last := len(o.words) - 1
		return errors.New(strings.Join(o.words[:last], ", ") + " or " + o.words[last])
	}
	*o.value = text
	return nil
}

// parseSize returns the number of bytes in a text such as 256MiB.
func parseSize(text string) (bytes int64, ok bool) {
	number := strings.TrimRight(text, " BIKMGTPEbikmgtpe")
	unit := strings.ToUpper(strings.TrimSpace(text[len(number):]))
	n, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, false
	}
	if unit != "" && unit != "B" {
		power := strings.IndexByte(units, unit[0]) + 1
		base := map[string]float64{"": 1000, "B": 1000, "I": 1024, "IB": 1024}[unit[1:]]
		n *= math.Pow(base, float64(power))
		if power == 0 || base == 0 {
			return 0, false
		}
	}
	return int64(n), n >= 0 && n < math.MaxInt64 // NaN is neither
}

// A sinceFlag is a time: a date, or a duration before now.
type sinceFlag struct {
	time.Time
	text string
}

func (f *sinceFlag) Set(text string) error {
	f.text = text
	for _, layout := range []string{time.DateOnly, time.RFC3339, "2006-01-02T15:04:05"} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			f.Time = t
			return nil
		}
	}
	day := time.Duration(1)
	hours := text
	if days, ok := strings.CutSuffix(text, "d"); ok {
		hours, day = days+"h", 24
	}
	d, err := time.ParseDuration(hours)
	if err != nil || d < 0 {
		return errors.New("a date such as 2026-11-01, or a duration such as 7d or 12h")
	}
	f.Time = time.Now().Add(-d * day)
	return nil
}

func (f *sinceFlag) String() string { return f.text }
func (f *sinceFlag) Type() string   { return "since" }
