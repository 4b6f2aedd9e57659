package cli

import (
	"errors"
	"testing"

	"github.com/spf13/cobra"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/mapping"
)

// A name that is far from all others, such as an agent's, is no typing error.
func TestNearest(t *testing.T) {
	names := []string{"completion", "doctor", "exec", "flush", "follow", "help", "ls", "replay", "rm", "show", "spool", "view"}
	for typed, want := range map[string]string{
		"rplay": "replay", "veiw": "view", "doc": "doctor", "shwo": "show", "exce": "exec", "flow": "follow", "lss": "ls",
		"pi": "", "cursor-agent": "", "npx": "", "x": "",
	} {
		if got := nearest(typed, names); got != want {
			t.Errorf("%s: %q, want %q", typed, got, want)
		}
	}
	for _, agent := range mapping.Agents {
		if got := nearest(agent, names); got != "" {
			t.Errorf("%s was taken for %s", agent, got)
		}
	}
}

func TestFlagErrors(t *testing.T) {
	for arg, want := range map[string]string{
		"--keep=x":   `invalid --keep "x" (want one or two)`,
		"--wait=x":   `invalid --wait "x" (want a duration such as 2s)`,
		"--kep=one":  "unknown flag: --kep (did you mean --keep?)",
		"--other":    "unknown flag: --other (a flag of root sub)",
		"--nonesuch": "unknown flag: --nonesuch",
		"--keep":     "flag needs an argument: --keep",
	} {
		word := "one"
		root, sub := &cobra.Command{Use: "root"}, &cobra.Command{Use: "sub"}
		root.Flags().Var(OneOf{&word, []string{"one", "two"}}, "keep", "")
		root.Flags().Duration("wait", 0, "")
		sub.Flags().Bool("other", false, "")
		root.AddCommand(sub)
		err := FlagError(root, root.ParseFlags([]string{arg}))
		got := err.Error()
		if hinted, ok := errors.AsType[*exporter.Error](err); ok {
			got += " (" + hinted.Hint + ")"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", arg, got, want)
		}
	}
}
