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

	"github.com/spf13/pflag"
)

// A usageError is an invalid flag or argument.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func invalid(what, value, want string) error {
	return usageError{fmt.Errorf("invalid %s %q (want %s)", what, value, want)}
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

// notNegative returns an error for a negative number or time: no flag may be one.
func notNegative(f *pflag.FlagSet) (err error) {
	f.Visit(func(flag *pflag.Flag) {
		switch v := flag.Value.String(); flag.Value.Type() {
		case "duration", "int", "int64", "float64":
			if v == "NaN" || strings.HasPrefix(v, "-") {
				err = invalid("--"+flag.Name, v, "0 or more")
			}
		}
	})
	return err
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

// group makes --help show the flags that were added since the last call in a group.
func group(f *pflag.FlagSet, name string) {
	f.SortFlags = false
	f.VisitAll(func(flag *pflag.Flag) {
		if flag.Annotations == nil {
			flag.Annotations = map[string][]string{groupKey: {name}}
		}
	})
}

// groupKey is the annotation that names a flag's group.
const groupKey = "group"

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

// A size is a flag value in bytes, such as 256MiB.
type size struct{ bytes int64 }

func (s *size) String() string { return strings.ReplaceAll(bytesText(s.bytes), " ", "") }
func (s *size) Type() string   { return "size" }

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

// A sinceFlag is a time: a date, or a duration before now.
type sinceFlag struct {
	time.Time
	text string
}

// Set implements [pflag.Value].
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

// String implements [pflag.Value].
func (f *sinceFlag) String() string { return f.text }

// Type implements [pflag.Value].
func (f *sinceFlag) Type() string { return "TIME" }
