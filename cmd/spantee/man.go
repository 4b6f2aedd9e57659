package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
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
			of := cmd.Root()
			if len(args) > 0 {
				found, _, err := of.Find(args)
				if err != nil || found == of {
					return usageError{fmt.Errorf("unknown command %q", args[0])}
				}
				of = found
			}
			return printManual(os.Stdout, of)
		},
	}
}

func printManual(w io.Writer, of *cobra.Command) error {
	of.DisableAutoGenTag = true
	header := &doc.GenManHeader{
		Title: strings.ToUpper(strings.ReplaceAll(of.CommandPath(), " ", "-")), Section: "1",
		Source: "spantee " + version(), Manual: "spantee",
	}
	return doc.GenMan(of, header, w)
}
