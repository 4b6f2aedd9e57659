package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

// A helpWriter writes what cobra prints, and keeps the first error, because cobra
// ignores write errors.
type helpWriter struct {
	w   *os.File
	err error
}

func (h *helpWriter) Write(p []byte) (int, error) {
	if h.err == nil {
		_, h.err = h.w.Write(p)
	}
	return len(p), nil
}

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
