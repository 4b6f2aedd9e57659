package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/spantee/spantee/cmd/spantee/internal/cli"
	"github.com/spantee/spantee/cmd/spantee/internal/proc"
	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/cilog"
	"github.com/spantee/spantee/exporter/file"
	"github.com/spantee/spantee/exporter/otlp"
	"github.com/spantee/spantee/exporter/otlp/endpoint"
	"github.com/spantee/spantee/exporter/spool"
	"github.com/spantee/spantee/exporter/tree"
)

const spoolUsage = `spool lists the spans and metrics that could not be delivered yet or were
refused, and why. Later runs that reach the same endpoint send those that wait;
spantee flush sends them now. Those that were refused are not sent again.`

func spoolCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "spool",
		Short: "List undelivered spans and metrics",
		Long:  spoolUsage,
		Args:  cobra.NoArgs,

		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			s, err := spool.Default()
			if err != nil {
				return err
			}
			entries, err := s.List()
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(os.Stdout, entries)
			}
			return printSpool(cilog.NewWriter(os.Stdout), s, entries)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON lines")
	return cmd
}

func printJSON(w io.Writer, entries []spool.Entry) error {
	for _, e := range entries {
		e.Endpoint = shown(e.Destination)
		if err := json.NewEncoder(w).Encode(e); err != nil {
			return err
		}
	}
	return nil
}

func printSpool(w io.Writer, s spool.Spool, entries []spool.Entry) error {
	if len(entries) == 0 {
		_, err := fmt.Fprintf(w, "no undelivered spans or metrics in %s\n", s.Dir)
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "AGE\tSIZE\tCONTENTS\tSTATE\tENDPOINT\tREASON")
	var total int64
	for _, e := range entries {
		total += e.Bytes
		holds, reason := contentsOf(e), e.Reason
		switch e.State {
		case spool.Open:
			holds, reason = "", fmt.Sprintf("process %d on %s", e.PID, tree.Printable(e.Host))
		case spool.Killed:
			reason = fmt.Sprintf("process %d was killed", e.PID)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", age(e.Since), bytesText(e.Bytes), holds, e.State, shown(e.Destination), tree.Printable(reason))
	}
	fmt.Fprintf(tw, "\n%s in %s\n", bytesText(total), s.Dir)
	return tw.Flush()
}

func contentsOf(e spool.Entry) string {
	metrics := 0
	if e.Metrics {
		metrics = 1
	}
	return enumerate(", ", part{e.Spans, count(e.Spans, "span")}, part{metrics, "metrics"})
}

const flushUsage = `flush sends the spans and metrics that could not be delivered, each to the
endpoint it was meant for. With --endpoint, all of them go to that URL; with
--to, all spans go to that file. Headers and certificates are sent only to the
endpoint that they were configured with. Without either flag, spans meant for a
file wait: flush never writes to a path that it reads from the spool.`

func flushCommand() *cobra.Command {
	var cfg otlp.Config
	var toFile string
	var quiet bool
	cmd := &cobra.Command{
		Use:   "flush",
		Short: "Send undelivered spans and metrics now",
		Long:  flushUsage,
		Args:  cobra.NoArgs,

		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			if toFile != "" && cfg.Endpoint != "" {
				return errBothTo
			}
			if cli.IsStdout(toFile) {
				return invalidTo(toFile)
			}
			s, err := spool.Default()
			if err != nil {
				return err
			}
			return flush(s, cfg, toFile, quiet, os.Stdout, os.Stderr)
		},
	}
	cmd.Flags().StringVar(&toFile, "to", "", "append all spans to `FILE` as OTLP JSON lines")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "report only what waiting does not fix")
	addOTLPFlags(cmd, &cfg)
	cmd.Flags().Lookup("endpoint").Usage = "send all spans and metrics to `URL` (default the endpoint that each was meant for)"
	return cmd
}

// flush reports on stdout what became of the spans and metrics. It returns an error
// if some still wait.
func flush(s spool.Spool, cfg otlp.Config, toFile string, quiet bool, stdout, stderr *os.File) error {
	settings, err := resolveOTLP(cfg)
	if toFile == "" && (cfg.Endpoint != "" && err != nil || errors.As(err, new(cli.UsageError))) {
		return err // any other is reported per request
	}
	reporter := newPlainReporter(stderr)
	defer reporter.w.Flush()
	for _, err := range settings.Ignored() {
		reporter.now(err)
	}
	s.SetAside = func(why *spool.Untrusted) {
		reporter.say("set aside unread: %s", tree.Printable(why.Error()))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	waiting, err := s.Waiting()
	if err != nil {
		return err
	}
	sent := newProgress(stderr, reporter.w, int64(waiting), func(n int64) string { return count(int(n), "span") })
	results, err := exporter.Flush(ctx, s, dialer(cfg, settings, toFile), sent.add)
	reporter.w.Status("")
	reporter.w.Flush() // before anything is printed on stdout
	said := reportFlush(cilog.NewWriter(stdout), results, quiet, cmp.Or(tree.Printable(toFile), endpoint.Shown(cfg.Endpoint)))
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case err != nil:
		return err
	}
	return said
}

// dialer returns clients for the requests in the spool: for the file or endpoint
// that the flags name, or else for the endpoint that a request was meant for.
func dialer(cfg otlp.Config, settings *otlp.Settings, toFile string) func(spool.Destination) (exporter.Client, error) {
	return func(to spool.Destination) (exporter.Client, error) {
		switch {
		case toFile != "":
			return file.New(toFile)
		case cfg.Endpoint == "" && to.Protocol == spool.File:
			return nil, nil // the user has to name the file again
		case cfg.Endpoint == "":
			return otlp.ClientFor(to, cfg)
		}
		return settings.Client(), nil
	}
}

// reportFlush reports what became of the spans for each endpoint, and where they
// went if they were redirected. quiet leaves out what needs no person.
func reportFlush(w io.Writer, results []*exporter.Flushed, quiet bool, redirected string) error {
	left, last := false, ""
	for _, r := range results {
		for _, f := range []struct {
			spans int
			fate  string
			good  bool
		}{
			{r.Recovered, "of killed processes recovered", true},
			{r.Delivered, "delivered", true},
			{r.Rejected, "rejected (spantee spool shows why)", false},
			{r.Dropped, "dropped: the receiver rejected them", false},
		} {
			if f.spans > 0 && (!quiet || !f.good) {
				fmt.Fprintf(w, "%s%s %s\n", prefix(r.To, redirected), count(f.spans, "span"), f.fate)
			}
		}
		if r.Metrics > 0 {
			fmt.Fprintf(w, "%s%s rejected\n", prefix(r.To, redirected), count(r.Metrics, "metrics request"))
		}
		if r.Err != nil && (!quiet || !isAway(r.Err)) {
			left = true
			if why := prefix(r.To, redirected) + withHint(r.Err); why != last { // usually the same for spans and metrics
				fmt.Fprintln(w, why)
				last = why
			}
		}
	}
	if len(results) == 0 && !quiet {
		fmt.Fprintln(w, "nothing to send")
	}
	if left {
		return proc.Status{Code: proc.StatusFailed}
	}
	return nil
}

// isAway reports whether the collector may accept the same spans later, as they are.
func isAway(err error) bool {
	why, ok := errors.AsType[*exporter.UploadError](err)
	return ok && (why.Verdict == exporter.Retryable || why.Verdict == exporter.Unreachable)
}

// shown returns a destination as it may be printed.
func shown(to spool.Destination) string {
	if to.Protocol == spool.File {
		return tree.Printable(to.Endpoint)
	}
	return endpoint.Shown(to.Endpoint)
}

// prefix returns the endpoint that a line is about, "" for the spool itself.
func prefix(to spool.Destination, redirected string) string {
	switch {
	case to.Endpoint == "":
		return ""
	case redirected != "":
		return shown(to) + ", sent to " + redirected + ": "
	}
	return shown(to) + ": "
}
