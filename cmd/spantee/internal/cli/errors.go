// Package cli adds to cobra what spantee's commands need: errors in one form, help whose flags
// are in groups, completion of flags' values, and types of flags.
package cli

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/spantee/spantee/exporter"
)

// A UsageError is an invalid flag or argument.
type UsageError struct{ error }

// Usage returns err as a UsageError.
func Usage(err error) error { return UsageError{err} }

func (e UsageError) Unwrap() error { return e.error }

// Invalid returns a UsageError about a value.
func Invalid(what, value, want string) error {
	return Usage(fmt.Errorf("invalid %s %q (want %s)", what, value, want))
}

// FlagError rewrites an error about a flag in the form of all other errors.
func FlagError(cmd *cobra.Command, err error) error {
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return Usage(unknownFlag(cmd, err))
	}
	flag := invalid.GetFlag()
	want := map[string]string{
		"duration": "a duration such as 2s", "bool": "true or false",
		"int": "a whole number", "int64": "a whole number", "float64": "a number",
		"stringToString": "NAME=VALUE",
	}[flag.Value.Type()]
	return Invalid("--"+flag.Name, invalid.GetValue(), cmp.Or(want, errors.Unwrap(err).Error()))
}

// FlagsOf returns the flags that a method of a flag set visits.
func FlagsOf(visit func(func(*pflag.Flag))) (flags []*pflag.Flag) {
	visit(func(flag *pflag.Flag) { flags = append(flags, flag) })
	return flags
}

// CheckNotNegative returns an error for a negative number or time: no flag may be one.
func CheckNotNegative(cmd *cobra.Command) error {
	for _, flag := range FlagsOf(cmd.Flags().Visit) {
		switch v := flag.Value.String(); flag.Value.Type() {
		case "duration", "int", "int64", "float64":
			if v == "NaN" || strings.HasPrefix(v, "-") {
				return Invalid("--"+flag.Name, v, "0 or more")
			}
		}
	}
	return nil
}

// UnknownCommand returns an error for what looks like a command's name with a typing error,
// nil otherwise. A name that is far from all others, such as an agent's, is no typing error.
func UnknownCommand(root *cobra.Command, typed string) error {
	root.SuggestionsMinimumDistance = min(2, len(typed)/2)
	meant := root.SuggestionsFor(typed)
	if len(meant) == 0 {
		return nil
	}
	return &exporter.Error{Err: Usage(fmt.Errorf("unknown command %q", typed)), Hint: "did you mean " + root.Name() + " " + meant[0] + "?"}
}

// unknownFlag adds to the error for an unknown flag whose it is.
func unknownFlag(cmd *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return err
	}
	name := unknown.GetSpecifiedName()
	var owners []string
	for _, c := range append([]*cobra.Command{cmd.Root()}, cmd.Root().Commands()...) {
		if c.Flags().Lookup(name) != nil {
			owners = append(owners, c.CommandPath())
		}
	}
	if len(owners) == 0 {
		return err
	}
	return &exporter.Error{Err: err, Hint: "a flag of " + strings.Join(owners, ", ")}
}
