// Package cli adds to cobra what spantee's commands need: errors in one form, suggestions for
// typing errors, help whose flags are in groups, completion of flags' values, and types of
// flags.
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
// nil otherwise.
func UnknownCommand(root *cobra.Command, typed string) error {
	meant := nearest(typed, commandNames(root))
	if meant == "" {
		return nil
	}
	return Usage(didYouMean(fmt.Errorf("unknown command %q", typed), root.Name()+" "+meant))
}

// unknownFlag adds to the error for an unknown flag which one may be meant, or whose it is.
func unknownFlag(cmd *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || unknown.GetSpecifiedShortnames() != "" {
		return err
	}
	name := unknown.GetSpecifiedName()
	var owners []string
	for _, c := range append([]*cobra.Command{cmd.Root()}, cmd.Root().Commands()...) {
		if c.Flags().Lookup(name) != nil {
			owners = append(owners, c.CommandPath())
		}
	}
	if len(owners) > 0 {
		return &exporter.Error{Err: err, Hint: "a flag of " + strings.Join(owners, ", ")}
	}
	if meant := nearest(name, flagNames(cmd)); meant != "" {
		return didYouMean(err, "--"+meant)
	}
	return err
}

// didYouMean adds a hint to an error, unless meant is empty.
func didYouMean(err error, meant string) error {
	if meant == "" {
		return err
	}
	return &exporter.Error{Err: err, Hint: "did you mean " + meant + "?"}
}

// nearest returns the name that was meant by one with a typing error, or of which somebody
// typed the beginning, "" if there is none. It lets cobra compare them as commands.
func nearest(typed string, names []string) string {
	for distance := 1; distance <= max(1, len(typed)/2); distance++ {
		all := &cobra.Command{SuggestionsMinimumDistance: distance}
		for _, name := range names {
			if distance <= max(1, len(name)/2) {
				all.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
			}
		}
		if found := all.SuggestionsFor(typed); len(found) > 0 {
			return found[0]
		}
	}
	return ""
}

// commandNames returns the names of what help describes.
func commandNames(root *cobra.Command) (names []string) {
	for _, cmd := range root.Commands() {
		if !cmd.Hidden {
			names = append(names, cmd.Name())
		}
	}
	return names
}

func flagNames(cmd *cobra.Command) (names []string) {
	for _, f := range FlagsOf(cmd.Flags().VisitAll) {
		names = append(names, f.Name)
	}
	return names
}

// commandOf returns the command that args name, root for none.
func commandOf(root *cobra.Command, args []string) (*cobra.Command, error) {
	if len(args) == 0 {
		return root, nil
	}
	found, _, err := root.Find(args)
	if err != nil || found == root {
		return nil, Usage(didYouMean(fmt.Errorf("unknown command %q", args[0]), nearest(args[0], commandNames(root))))
	}
	return found, nil
}
