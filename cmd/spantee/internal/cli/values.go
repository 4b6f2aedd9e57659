package cli

import (
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/pflag"
)

// OneOf is a flag whose value is one of a few words.
type OneOf struct {
	Value *string
	Words []string
}

func (o OneOf) String() string { return *o.Value }

// Type makes OneOf a flag.
func (o OneOf) Type() string { return "word" }

// Set takes one of the words, or "" for the default.
func (o OneOf) Set(text string) error {
	if text != "" && !slices.Contains(o.Words, text) {
		last := len(o.Words) - 1
		return errors.New(strings.Join(o.Words[:last], ", ") + " or " + o.Words[last])
	}
	*o.Value = text
	return nil
}

// ParseSize returns the number of bytes in a text such as 256MiB.
func ParseSize(text string) (bytes int64, ok bool) {
	n, err := humanize.ParseBytes(text)
	return int64(n), err == nil && n <= math.MaxInt64
}

// AddSince adds the flag --since, whose value is a time: a date, or a duration before now.
func AddSince(flags *pflag.FlagSet, since *time.Time, usage string) {
	flags.Func("since", usage, func(text string) error {
		for _, layout := range []string{time.DateOnly, time.RFC3339, "2006-01-02T15:04:05"} {
			if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
				*since = t
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
		*since = time.Now().Add(-d * day)
		return nil
	})
}
