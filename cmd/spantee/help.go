package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// helpWidth is how wide all help is, in columns.
const helpWidth = 80

// flagsTopic is the help about all flags of the filter: spantee help flags.
const flagsTopic = "flags"

// basicFlags are the filter's flags that most people need. They fit on a screen.
const basicFlags = "endpoint to content view tree log summary quiet receipt fail-if"

// collapseFlags is how many of the filter's flags the help of another command describes. If it
// has more, they are only listed.
const collapseFlags = 8

const variablesHelp = `
Variables without a flag (cmd/spantee/README.md has all of them):
  OTEL_EXPORTER_OTLP_CERTIFICATE           trust this authority, in a PEM file
  OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE, OTEL_EXPORTER_OTLP_CLIENT_KEY
  OTEL_EXPORTER_OTLP_COMPRESSION           gzip or none
  OTEL_EXPORTER_OTLP_TIMEOUT               of a request, in milliseconds
  OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES
  OTEL_TRACES_EXPORTER                     otlp, file or none
  OTEL_METRICS_EXPORTER                    otlp or none
  OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG
  OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT        truncate strings to so many bytes
  OTEL_SPAN_EVENT_COUNT_LIMIT              events on a span; others on a child
  OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT
                                           true: --content=full is the default
  OTEL_SDK_DISABLED                        true: send nothing
`

// flagsCommand is a topic of help, not a command: it does not run.
func flagsCommand() *cobra.Command { return &cobra.Command{Use: flagsTopic, Short: "All flags"} }

// completeHelp adds what cobra's help and completion lack: an error for an unknown command, and
// the topics in their completion.
func completeHelp(root *cobra.Command) {
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

// commandNames returns the names of what help describes.
func commandNames(root *cobra.Command) (names []string) {
	for _, cmd := range root.Commands() {
		if !cmd.Hidden {
			names = append(names, cmd.Name())
		}
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
		return nil, usageError{didYouMean(fmt.Errorf("unknown command %q", args[0]), nearest(args[0], commandNames(root)))}
	}
	return found, nil
}

// printHelp describes a command, with its flags by what people look for.
func printHelp(cmd *cobra.Command, _ []string) {
	w, root := cmd.OutOrStdout(), cmd.Root()
	if cmd.Name() == flagsTopic {
		fmt.Fprint(w, "Flags of the filter. exec, follow and replay have most of them, too.\n")
		root.InitDefaultVersionFlag()
		printFlags(w, root, titleOf, func(string) bool { return true })
		fmt.Fprint(w, variablesHelp)
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
		title := func(string) string { return otherFlags }
		printFlags(w, cmd, title, func(name string) bool { return slices.Contains(strings.Fields(basicFlags), name) })
		names := slices.DeleteFunc(flagNames(root), func(name string) bool { return name == "help" })
		fmt.Fprintf(w, "\nspantee help flags describes all flags:\n%s\n", indented(names))
		return
	}
	var shared []string
	for _, f := range flagsOf(cmd.Flags().VisitAll) {
		if of := root.Flags().Lookup(f.Name); of != nil && of.Usage == f.Usage {
			shared = append(shared, f.Name)
		}
	}
	if len(shared) <= collapseFlags {
		shared = nil
	}
	printFlags(w, cmd, titleOf, func(name string) bool { return !slices.Contains(shared, name) })
	if len(shared) > 0 {
		fmt.Fprintf(w, "\nFlags of the filter (spantee help flags describes them):\n%s\n", indented(shared))
	}
}

// titleOf returns the title of the group that a flag is in.
func titleOf(name string) string {
	for _, group := range flagGroups {
		if slices.Contains(strings.Fields(group.flags), name) {
			return group.title
		}
	}
	return otherFlags
}

const otherFlags = "Flags"

// printFlags prints the flags of a command that are wanted, by their titles.
func printFlags(w io.Writer, cmd *cobra.Command, titleOf func(name string) string, wanted func(name string) bool) {
	var titles []string
	groups := map[string][]flagLine{}
	for _, f := range flagsOf(cmd.Flags().VisitAll) {
		if f.Name == "help" || f.Hidden || !wanted(f.Name) {
			continue
		}
		title := titleOf(f.Name)
		if groups[title] == nil {
			titles = append(titles, title)
		}
		name, _, text := describe(f.Name, f.Shorthand, f.Usage, f.DefValue)
		groups[title] = append(groups[title], flagLine{name, text})
	}
	for _, title := range titles {
		fmt.Fprintf(w, "\n%s:\n", title)
		printColumns(w, groups[title])
	}
}

// A flagLine is how help shows a flag, and what it does.
type flagLine struct{ name, text string }

func printColumns(w io.Writer, lines []flagLine) {
	column := 0
	for _, line := range lines {
		column = max(column, len(line.name))
	}
	for _, line := range lines {
		text := fillWidth(line.text, helpWidth-column-4)
		fmt.Fprintf(w, "  %-*s  %s\n", column, line.name, strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", column+4)))
	}
}

// describe returns how help shows a flag: its name with that of its value, the latter alone,
// and what it does. In a flag's usage, the name of the value has backquotes.
func describe(name, shorthand, usage, byDefault string) (shown, value, text string) {
	shown, text = "--"+name, usage
	if shorthand != "" {
		shown = "-" + shorthand + ", " + shown
	}
	if parts := strings.Split(usage, "`"); len(parts) == 3 {
		value, text = parts[1], strings.Join(parts, "")
		shown += " " + value
	}
	switch byDefault {
	case "", "0", "0s", "false", "[]":
	default:
		text += " (default " + byDefault + ")"
	}
	return shown, value, text
}

func flagNames(cmd *cobra.Command) (names []string) {
	for _, f := range flagsOf(cmd.Flags().VisitAll) {
		names = append(names, f.Name)
	}
	return names
}

// indented returns the names of flags in indented lines.
func indented(flags []string) string {
	lines := fillWidth("--"+strings.Join(flags, " --"), helpWidth-2)
	return "  " + strings.ReplaceAll(lines, "\n", "\n  ")
}

// fill makes the lines of paragraphs as long as they may be. Indented lines are left as they
// are, but a tab takes two columns.
func fill(text string) string {
	var filled []string
	paragraph := ""
	end := func() {
		if paragraph != "" {
			filled = append(filled, fillWidth(paragraph, helpWidth))
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
