package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/spantee/spantee/exporter/tree"
	"github.com/spantee/spantee/exporter/viewer"
)

// maxKeptListed is how many sessions ls shows.
const maxKeptListed = 50

func lsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "ls [WORD...]",
		Short: "List the sessions that viewers kept",
		Long: `ls lists the sessions that view and --view kept on disk, the latest first. All
WORDs must occur in a session: in its prompt, commands, output, errors, ids.`,
		RunE: func(_ *cobra.Command, words []string) error { return listKept(words, os.Stdout, os.Stderr) },
	}
}

func showCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show [ID]",
		Short: "Draw a session that a viewer kept, as a text waterfall",
		Long:  "show draws the latest session that was kept, or the one whose id begins with ID.",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return showKept(strings.Join(args, ""), os.Stdout, os.Stderr)
		},
	}
}

// loadKept reads what was kept. Files that cannot be read are named.
func loadKept(stderr io.Writer) (*viewer.Store, error) {
	kept, err := keptSessions(defaultKept)
	if err != nil {
		return nil, err
	}
	store, problems := kept.Load(2 * defaultMemory)
	for _, problem := range problems {
		fmt.Fprintf(stderr, "spantee: %v (skipped)\n", problem)
	}
	return store, nil
}

func listKept(words []string, stdout *os.File, stderr io.Writer) error {
	store, err := loadKept(stderr)
	if err != nil {
		return err
	}
	for i := range words {
		words[i] = strings.ToLower(words[i])
	}
	l := store.List(viewer.Query{Words: words, Limit: maxKeptListed})
	if l.Total == 0 {
		fmt.Fprintln(stderr, "spantee: no sessions are kept yet: run spantee view, or an agent with --view")
		return nil
	}
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tSTARTED\tTOOK\tTOOLS\tOUTCOME\tSESSION")
	for _, s := range l.Sessions {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\n", s.ID[:8], humanize.Time(time.UnixMicro(s.Start)),
			(time.Duration(s.End-s.Start) * time.Microsecond).Round(10*time.Millisecond), s.Tools, outcome(s), plainText(headline(s), 60))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if l.Matching > len(l.Sessions) {
		fmt.Fprintf(stderr, "spantee: the latest %d of %d sessions\n", len(l.Sessions), l.Matching)
	}
	return nil
}

func outcome(s viewer.Session) string {
	switch {
	case s.Failure != "":
		return plainText(s.Failure, 20)
	case !s.Ended:
		return "no end"
	case s.Errors > 0:
		return count(s.Errors, "error")
	}
	return "ok"
}

// headline is the prompt, or what the session is called without content.
func headline(s viewer.Session) string {
	if s.Prompt != "" {
		return s.Prompt
	}
	return strings.TrimSpace(s.Agent + " " + s.Model)
}

// plainText is safe for a terminal: senders may put anything into a span.
func plainText(s string, most int) string {
	clean := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
	if r := []rune(clean); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return clean
}

func showKept(prefix string, stdout *os.File, stderr io.Writer) error {
	store, err := loadKept(stderr)
	if err != nil {
		return err
	}
	spans, err := store.Find(prefix)
	if err != nil {
		return err
	}
	style := tree.Style{Color: isTerminal(stdout) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
	if width, _, err := term.GetSize(int(stdout.Fd())); err == nil {
		style.Width = width
	}
	_, err = io.WriteString(stdout, style.Render(spans))
	return err
}
