package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

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
				_, err := commandOf(root, args)
				return err
			}
			cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
				if len(args) == 0 {
					names = commandNames(root)
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
	fmt.Fprintf(w, "%s\n\nUsage:\n", fill(cmd.Long))
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
		names := slices.DeleteFunc(flagNames(root), func(name string) bool { return name == "help" })
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
	lines := fillWidth("--"+strings.Join(flags, " --"), Width-2)
	return "  " + strings.ReplaceAll(lines, "\n", "\n  ")
}

// fill makes the lines of paragraphs as long as they may be. Indented lines are left as they
// are, but a tab takes two columns.
func fill(text string) string {
	var filled []string
	paragraph := ""
	end := func() {
		if paragraph != "" {
			filled = append(filled, fillWidth(paragraph, Width))
		}
		paragraph = ""
	}
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		if line == "" || strings.TrimLeft(line, " \t") != line {
			end()
			filled = append(filled, strings.ReplaceAll(line, "\t", "  "))
			continue
		}
		paragraph += line + "\n"
	}
	end()
	return strings.Join(filled, "\n")
}

// fillWidth breaks a text into lines of at most width columns.
func fillWidth(text string, width int) string {
	var b strings.Builder
	column := 0
	for word := range strings.FieldsSeq(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case column == 0:
		case column+1+n > width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}
