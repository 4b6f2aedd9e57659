package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/tree"
	"github.com/spantee/spantee/exporter/viewer"
	"github.com/spantee/spantee/mapping"
)

// completeFlags makes the shell complete the values of all flags. Without a function for a flag,
// it completes files.
func completeFlags(root *cobra.Command) {
	for _, cmd := range append(root.Commands(), root) {
		completeFlagsOf(cmd)
	}
}

func completeFlagsOf(cmd *cobra.Command) {
	words := map[string][]string{"agent": mapping.Agents, "protocol": {"grpc", "http/protobuf", "http/json"}}
	for _, f := range flagsOf(cmd.Flags().VisitAll) {
		if _, value, _ := describe(f.Name, f.Shorthand, f.Usage, f.DefValue); value == "FILE" {
			continue
		}
		if o, ok := f.Value.(oneOf); ok {
			words[f.Name] = o.words
		}
		_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(words[f.Name], cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	}
}

// completeIDs completes the ids of kept sessions, the latest first, as ls shows them.
func completeIDs(cmd *cobra.Command, given []string, begun string) (ids []string, _ cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	path, err := sessionsPath()
	if err == nil {
		_, err = os.Lstat(path) // opening would create it
	}
	if err != nil || cmd.Args != nil && cmd.Args(cmd, append(given, begun)) != nil {
		return nil, directive
	}
	store, err := openKept(viewer.Retention{}, func(error) {})
	if err != nil {
		return nil, directive
	}
	defer store.Close()
	list, err := store.List(cmd.Context(), viewer.Query{Limit: maxKeptListed})
	if err != nil {
		return nil, directive
	}
	for _, s := range list.Sessions {
		id := s.ID[:min(max(shownID, len(begun)), len(s.ID))]
		if strings.HasPrefix(id, begun) && !slices.Contains(given, id) {
			ids = append(ids, cobra.CompletionWithDesc(id, tree.Line(headline(s), helpWidth-shownID)))
		}
	}
	return ids, directive
}

// didYouMean adds a hint to an error, unless meant is empty.
func didYouMean(err error, meant string) error {
	if meant == "" {
		return err
	}
	return &exporter.Error{Err: err, Hint: "did you mean " + meant + "?"}
}

// unknownFlag adds to the error for an unknown flag which one may be meant, or whose it is.
func unknownFlag(cmd *cobra.Command, err error) error {
	name, ok := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !ok {
		return err
	}
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

// nearest returns the name that was meant by one with a typing error, or of which somebody
// typed the beginning, "" if there is none.
func nearest(typed string, names []string) (best string) {
	least := len(typed)
	for _, name := range names {
		d := distance(typed, name)
		if len(typed) > 2 && strings.HasPrefix(name, typed) {
			d = 0
		}
		if d < least && d <= max(1, min(len(typed), len(name))/2) {
			best, least = name, d
		}
	}
	return best
}

// distance returns how many bytes to insert, delete, replace or swap with the next to make b
// of a.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		for j := range rows[i] {
			if i == 0 || j == 0 {
				rows[i][j] = i + j
				continue
			}
			same := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				same++
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, same)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

// unknownCommand returns an error for what looks like a command's name with a typing error,
// nil otherwise.
func unknownCommand(root *cobra.Command, typed string) error {
	meant := nearest(typed, commandNames(root))
	if meant == "" {
		return nil
	}
	return usageError{didYouMean(fmt.Errorf("unknown command %q", typed), root.Name()+" "+meant)}
}
