package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// CompleteFlags makes the shell complete the values of all flags: the words of a OneOf, the
// given words of other flags, or files where the value is a FILE.
func CompleteFlags(root *cobra.Command, words map[string][]string) {
	for _, cmd := range append(root.Commands(), root) {
		for _, f := range FlagsOf(cmd.Flags().VisitAll) {
			if strings.Contains(f.Usage, "`FILE`") {
				continue // without a function, the shell completes files
			}
			values := words[f.Name]
			if o, ok := f.Value.(OneOf); ok {
				values = o.Words
			}
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
		}
	}
}
