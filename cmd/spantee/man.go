package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
)

const manUsage = `man prints the manual page of spantee, or of one of its commands:

  spantee man | man -l -
  spantee man exec > spantee-exec.1`

func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man [COMMAND]",
		Short: "Print the manual page",
		Long:  manUsage,
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			of, err := commandOf(cmd.Root(), args)
			if err != nil {
				return err
			}
			return printManual(os.Stdout, of)
		},
	}
}

// printManual writes the manual page of a command in the language of man(7).
// cobra can do so, too, but takes the names of variables for Markdown, and brings
// libraries along that every start of spantee would have to wait for.
func printManual(w io.Writer, of *cobra.Command) error {
	name := strings.ReplaceAll(of.CommandPath(), " ", "-")
	page := bufio.NewWriter(w)
	fmt.Fprintf(page, ".TH %q \"1\" \"\" %q %q\n", strings.ToUpper(name), "spantee "+tracer.Version(), "spantee")
	fmt.Fprintf(page, ".SH NAME\n%s \\- %s\n", roff(name), roff(strings.TrimSuffix(of.Short, ".")))
	fmt.Fprintf(page, ".SH SYNOPSIS\n.B %s\n.SH DESCRIPTION\n", roff(of.UseLine()))
	for i, paragraph := range strings.Split(cmp.Or(of.Long, of.Short), "\n\n") {
		format := "%s\n"
		if strings.HasPrefix(paragraph, "  ") {
			format = ".EX\n%s\n.EE\n"
		}
		if i > 0 {
			format = ".PP\n" + format
		}
		fmt.Fprintf(page, format, roff(paragraph))
	}
	printOptions(page, of)
	printRelated(page, of)
	return page.Flush()
}

func printOptions(w io.Writer, of *cobra.Command) {
	fmt.Fprintf(w, ".SH OPTIONS\n")
	for _, f := range flagsOf(of.LocalFlags().VisitAll) {
		value, usage := unquote(f.Usage)
		names := roff("--" + f.Name)
		if f.Shorthand != "" {
			names = roff("-"+f.Shorthand) + `\fR, \fB` + names
		}
		if value != "" {
			value = ` \fI` + roff(value) + `\fR`
		}
		fmt.Fprintf(w, ".TP\n\\fB%s\\fR%s\n%s\n", names, value, roff(usage))
	}
}

// unquote returns the name of a flag's value, which has backquotes in the flag's usage, and
// the usage without them.
func unquote(usage string) (value, plain string) {
	if parts := strings.Split(usage, "`"); len(parts) == 3 {
		return parts[1], strings.Join(parts, "")
	}
	return "", usage
}

// printRelated names the manual pages of the command above, and of those below.
func printRelated(w io.Writer, of *cobra.Command) {
	var related []string
	if of.HasParent() {
		related = append(related, of.Parent().CommandPath())
	}
	for _, c := range of.Commands() {
		if c.IsAvailableCommand() {
			related = append(related, c.CommandPath())
		}
	}
	for i, name := range related {
		related[i] = `\fB` + roff(strings.ReplaceAll(name, " ", "-")) + `\fR(1)`
	}
	fmt.Fprintf(w, ".SH SEE ALSO\n%s\n", strings.Join(related, ",\n"))
}

// roff escapes text: no line of it is a request, hyphens of options are copied as
// such, and variables are not hyphenated.
var roff = strings.NewReplacer(`\`, `\e`, "-", `\-`, "$", `\%$`, "\n.", "\n"+`\&.`, "\n'", "\n"+`\&'`).Replace
