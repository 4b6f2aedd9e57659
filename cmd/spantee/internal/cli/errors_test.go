package cli

import (
	"errors"
	"testing"

	"github.com/spf13/cobra"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/mapping"
)

// A name that is far from all others, such as an agent's, is no typing error.
func TestUnknownCommand(t *testing.T) {
	root := &cobra.Command{Use: "root"}
	for _, name := range []string{"completion", "doctor", "exec", "flush", "follow", "help", "ls", "replay", "rm", "show", "spool", "view"} {
		root.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	for typed, want := range map[string]string{
		"rplay": "replay", "veiw": "view", "doc": "doctor", "shwo": "show", "exce": "exec", "flow": "follow", "lss": "ls",
		"pi": "", "cursor-agent": "", "npx": "", "x": "",
	} {
		got := ""
		if hinted, ok := errors.AsType[*exporter.Error](UnknownCommand(root, typed)); ok {
			got = hinted.Hint
		}
		if want != "" {
			want = "did you mean root " + want + "?"
		}
		if got != want {
			t.Errorf("%s: %q, want %q", typed, got, want)
		}
	}
	for _, agent := range mapping.Agents {
		if err := UnknownCommand(root, agent); err != nil {
			t.Errorf("%s: %v", agent, err)
		}
	}
}

func TestFlagErrors(t *testing.T) {
	for arg, want := range map[string]string{
		"--keep=x":   `invalid --keep "x" (want one or two)`,
		"--wait=x":   `invalid --wait "x" (want a duration such as 2s)`,
		"--kep=one":  "unknown flag: --kep",
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
