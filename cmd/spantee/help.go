package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// refuseUnknown makes help and completion fail for an unknown command, instead of
// printing help.
func refuseUnknown(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Args = func(_ *cobra.Command, args []string) error {
				_, err := commandOf(root, args)
				return err
			}
		case "completion":
			// cobra checks the arguments of runnable commands only.
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}

// commandOf returns the command that args name, root for none.
func commandOf(root *cobra.Command, args []string) (*cobra.Command, error) {
	if len(args) == 0 {
		return root, nil
	}
	found, _, err := root.Find(args)
	if err != nil || found == root {
		return nil, usageError{fmt.Errorf("unknown command %q", args[0])}
	}
	return found, nil
}

// printUsage prints how a command is used, with its flags by what people look for.
// cobra has groups for commands only.
func printUsage(cmd *cobra.Command) error {
	w := cmd.OutOrStderr()
	fmt.Fprintln(w, "Usage:")
	if cmd.Runnable() {
		fmt.Fprintf(w, "  %s\n", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(w, "  %s [command]\n\nCommands:\n", cmd.CommandPath())
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() || c.Name() == "help" {
				fmt.Fprintf(w, "  %-*s %s\n", c.NamePadding(), c.Name(), c.Short)
			}
		}
	}
	var names []string
	groups := map[string]*cobra.Command{} // which print their flags
	for _, f := range flagsOf(cmd.Flags().VisitAll) {
		name := "Flags"
		for _, group := range flagGroups {
			if slices.Contains(strings.Fields(group.flags), f.Name) {
				name = group.title
			}
		}
		if groups[name] == nil {
			names = append(names, name)
			groups[name] = new(cobra.Command)
			groups[name].Flags().SortFlags = false
		}
		groups[name].Flags().AddFlag(f)
	}
	for _, name := range names {
		fmt.Fprintf(w, "\n%s:\n%s", name, groups[name].Flags().FlagUsages())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\nUse \"%s [command] --help\" for more information about a command.\n", cmd.CommandPath())
	}
	return nil
}
