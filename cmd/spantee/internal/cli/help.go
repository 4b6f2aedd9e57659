package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Width is how wide all help is, in columns.
const Width = 80

// allFlags is the help about all flags of the root command: spantee help flags.
const allFlags = "flags"

// collapseFlags is how many of the root command's flags the help of another command describes.
// If it has more, they are only listed.
const collapseFlags = 8

// A Help says how to describe the flags.
type Help struct {
	Basic     string      // the root command's flags that most people need
	Groups    []FlagGroup // other flags come last
	Variables string      // printed below all flags
}

// A FlagGroup is flags by what people look for.
type FlagGroup struct{ Title, Flags string }

// AddTo adds what cobra's help and completion lack to a command with all its subcommands: the
// flags in groups, an error for an unknown command, and topics in their completion.
func (h Help) AddTo(root *cobra.Command) {
	root.SetHelpFunc(h.print)
	root.AddCommand(&cobra.Command{Use: allFlags, Short: "All flags"}) // a topic: it does not run
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Long = "help describes a command. spantee help flags describes all flags of the filter."
			cmd.Args = func(_ *cobra.Command, args []string) error {
				if found, _, err := root.Find(args); len(args) == 0 || err == nil && found != root {
					return nil
				}
				return cmp.Or(UnknownCommand(root, args[0]), Usage(fmt.Errorf("unknown command %q", args[0])))
			}
			cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
				for _, topic := range root.Commands() {
					if len(args) == 0 && !topic.Hidden {
						names = append(names, topic.Name())
					}
				}
				return names, cobra.ShellCompDirectiveNoFileComp
			}
		case "completion":
			// cobra checks the arguments of runnable commands only.
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}

// print describes a command.
func (h Help) print(cmd *cobra.Command, _ []string) {
	w, root := cmd.OutOrStdout(), cmd.Root()
	if cmd.Name() == allFlags {
		fmt.Fprint(w, "Flags of the filter. exec, follow and replay have most of them, too.\n")
		root.InitDefaultVersionFlag()
		h.printFlags(w, root, func(string) bool { return true })
		fmt.Fprint(w, h.Variables)
		return
	}
	fmt.Fprintf(w, "%s\n\nUsage:\n", strings.TrimSpace(cmd.Long))
	if cmd.Runnable() {
		fmt.Fprintf(w, "  %s\n", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(w, "  %s COMMAND\n\nCommands (%s help COMMAND describes one):\n", cmd.CommandPath(), root.Name())
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() || c.Name() == "help" {
				fmt.Fprintf(w, "  %-*s %s\n", c.NamePadding(), c.Name(), c.Short)
			}
		}
	}
	if cmd == root {
		basic := strings.Fields(h.Basic)
		Help{}.printFlags(w, cmd, func(name string) bool { return slices.Contains(basic, name) })
		var names []string
		for _, f := range FlagsOf(root.Flags().VisitAll) {
			if f.Name != "help" {
				names = append(names, f.Name)
			}
		}
		fmt.Fprintf(w, "\nspantee help flags describes all flags:\n%s\n", indented(names))
		return
	}
	var shared []string
	for _, f := range FlagsOf(cmd.Flags().VisitAll) {
		if of := root.Flags().Lookup(f.Name); of != nil && of.Usage == f.Usage {
			shared = append(shared, f.Name)
		}
	}
	if len(shared) <= collapseFlags {
		shared = nil
	}
	h.printFlags(w, cmd, func(name string) bool { return !slices.Contains(shared, name) })
	if len(shared) > 0 {
		fmt.Fprintf(w, "\nFlags of the filter (spantee help flags describes them):\n%s\n", indented(shared))
	}
}

// printFlags prints the flags of a command that are wanted, in their groups.
func (h Help) printFlags(w io.Writer, cmd *cobra.Command, wanted func(name string) bool) {
	var titles []string
	groups := map[string]*cobra.Command{}
	for _, f := range FlagsOf(cmd.Flags().VisitAll) {
		if f.Name == "help" || !wanted(f.Name) {
			continue
		}
		title := "Flags"
		for _, group := range h.Groups {
			if slices.Contains(strings.Fields(group.Flags), f.Name) {
				title = group.Title
			}
		}
		if groups[title] == nil {
			titles = append(titles, title)
			groups[title] = new(cobra.Command)
			groups[title].Flags().SortFlags = false
		}
		groups[title].Flags().AddFlag(f)
	}
	for _, title := range titles {
		fmt.Fprintf(w, "\n%s:\n%s", title, groups[title].Flags().FlagUsagesWrapped(Width))
	}
}

// indented returns the names of flags in indented lines.
func indented(flags []string) string {
	lines := []string{" "}
	for _, name := range flags {
		last := &lines[len(lines)-1]
		if len(*last)+len(" --")+len(name) > Width {
			lines = append(lines, " ")
			last = &lines[len(lines)-1]
		}
		*last += " --" + name
	}
	return strings.Join(lines, "\n")
}
