package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/spantee/spantee/cmd/spantee/internal/cli"
	"github.com/spantee/spantee/cmd/spantee/internal/proc"
	"github.com/spantee/spantee/exporter/cilog"
	"github.com/spantee/spantee/exporter/tree"
	"github.com/spantee/spantee/exporter/viewer"
)

// shownID is how much of an id ls shows.
const shownID = 8

// maxKeptListed is how many sessions ls shows.
const maxKeptListed = 50

func lsCommand() *cobra.Command {
	return keptCommand(&cobra.Command{
		Use:   "ls [WORD...]",
		Short: "List the sessions that the viewer kept",
		Long: `ls lists the sessions that view and --view kept on disk, the latest first. With
WORDs, it lists only sessions that have all of them, in the prompt, commands,
output, errors or ids. A WORD may be the beginning of a word, a "phrase in
quotes", or a field such as tool:shell, agent:codex, model:gpt, file:main.go or
failed:yes.`,

		ValidArgsFunction: cobra.NoFileCompletions,
	}, listKept)
}

func showCommand() *cobra.Command {
	return keptCommand(&cobra.Command{
		Use:   "show [ID]",
		Short: "Print a kept session as a text waterfall",
		Long: `show prints the latest session that the viewer kept, or the one whose trace id
begins with ID.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cli.Usage(fmt.Errorf("unexpected argument %q (want one ID: spantee show ID)", args[1]))
			}
			return nil
		},

		ValidArgsFunction: completeIDs,
	}, func(ctx context.Context, store *viewer.Store, args []string, _ *reporter) error {
		spans, err := store.Find(ctx, strings.Join(args, ""))
		if err != nil {
			return err
		}
		w := tree.NewWriter(os.Stdout, resolveDisplay().treeStyle(os.Stdout))
		for _, span := range spans {
			w.Export(span)
		}
		return w.Close()
	})
}

func rmCommand() *cobra.Command {
	return keptCommand(&cobra.Command{
		Use:   "rm ID...",
		Short: "Delete kept sessions",
		Long:  "rm deletes kept sessions. Each ID is the beginning of one session's trace id.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usage(errors.New("no session to delete (spantee rm ID; spantee ls lists the ids)"))
			}
			return nil
		},

		ValidArgsFunction: completeIDs,
	}, func(ctx context.Context, store *viewer.Store, ids []string, _ *reporter) error {
		for _, id := range ids {
			if err := store.DeletePrefix(ctx, id); err != nil {
				return err
			}
		}
		return nil
	})
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
			ids = append(ids, cobra.CompletionWithDesc(id, tree.Line(headline(s), cli.Width-shownID)))
		}
	}
	return ids, directive
}

// keptCommand completes a command that works on the sessions that were kept.
func keptCommand(cmd *cobra.Command, run func(ctx context.Context, store *viewer.Store, args []string, reporter *reporter) error) *cobra.Command {
	cmd.DisableFlagsInUseLine = true // it has none
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		reporter := newPlainReporter(os.Stderr)
		defer reporter.w.Flush()
		store, err := openKept(viewer.Retention{}, reporter.now)
		reporter.w.Flush() // before anything is printed on stdout
		if err != nil {
			return err
		}
		defer store.Close()
		return run(cmd.Context(), store, args, reporter)
	}
	return cmd
}

func listKept(ctx context.Context, store *viewer.Store, words []string, reporter *reporter) error {
	if len(words) > 0 { // a viewer that was killed leaves text that no search finds
		if err := store.Index(ctx); err != nil {
			return err
		}
	}
	l, err := store.List(ctx, viewer.Query{Search: strings.Join(words, " "), Limit: maxKeptListed})
	switch {
	case err != nil:
		return err
	case l.Total == 0:
		reporter.say("no sessions are kept yet: spantee view and --view keep what they receive")
		return nil
	case l.Matching == 0:
		reporter.say("no match among %s", count(l.Total, "session"))
		return nil
	}
	if err := writeSessions(os.Stdout, l.Sessions); err != nil {
		return err
	}
	if l.Matching > len(l.Sessions) {
		reporter.say("the latest %d of %d sessions", len(l.Sessions), l.Matching)
	}
	return nil
}

// Widths of a list of sessions, in columns.
const (
	anyWidth    = 80 // where stdout is no terminal
	narrowList  = 60 // below it there is no room for tools and outcome
	minHeadline = 12
)

// writeSessions writes one line a session, as wide as the terminal.
func writeSessions(stdout *os.File, sessions []viewer.Session) error {
	width, terminal := proc.TerminalWidth(stdout)
	if !terminal {
		width = anyWidth
	}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	narrow := width < narrowList
	columns, headlines := "ID\tAGE\tTOOK\t", []string{"SESSION"}
	if !narrow {
		columns += "TOOLS\tOUTCOME\t"
	}
	fmt.Fprintln(w, columns)
	for _, s := range sessions {
		took := tree.Duration(time.Duration(s.End-s.Start) * time.Microsecond)
		if s.Timeless {
			took = "–"
		}
		row, last := fmt.Sprintf("%s\t%s\t%s\t", s.ID[:shownID], age(time.UnixMicro(s.Start)), took), headline(s)
		switch {
		case !narrow:
			row += fmt.Sprintf("%d\t%s\t", s.Tools, outcome(s))
		case outcome(s) != "ok":
			last = "✗ " + last
		}
		fmt.Fprintln(w, row)
		headlines = append(headlines, last)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for i, line := range strings.Split(table.String(), "\n")[:len(headlines)] {
		left := max(minHeadline, width-utf8.RuneCountInString(line))
		if _, err := fmt.Fprintln(stdout, cilog.Break(line+tree.Line(headlines[i], left))); err != nil {
			return err
		}
	}
	return nil
}

func outcome(s viewer.Session) string {
	switch {
	case s.Failure != "":
		return tree.Line(s.Failure, 20)
	case !s.Ended:
		return "no end"
	case s.ToolErrors > 0:
		return count(s.ToolErrors, "error")
	}
	return "ok"
}

// headline is the agent and what tells the session from others: its prompt, first command
// or answer, or its model without content.
func headline(s viewer.Session) string {
	parts := []string{s.Agent, cmp.Or(s.Prompt, s.First, s.Model)}
	parts = slices.DeleteFunc(parts, func(p string) bool { return p == "" })
	return strings.Join(parts, " · ")
}
