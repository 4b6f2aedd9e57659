package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/trace"

	"github.com/spantee/spantee/cmd/spantee/internal/cli"
	"github.com/spantee/spantee/cmd/spantee/internal/follow"
	"github.com/spantee/spantee/cmd/spantee/internal/proc"
	"github.com/spantee/spantee/exporter/spool"
	"github.com/spantee/spantee/exporter/tree"
	"github.com/spantee/spantee/mapping"
)

const followUsage = `follow traces sessions that nobody pipes into spantee, such as those in a
terminal or an editor. It reads the session logs that agents write, as they
grow, until Ctrl-C:

  spantee follow

Without a FOLDER, it follows the folders of this user's agents, which spantee
doctor lists. The first time, it traces the runs that begin from now on (see
--since); later, it resumes where it left off. Runs that the filter or exec has
traced are skipped. The logs are only read, and symbolic links in a FOLDER are
not followed.`

// followOptions are the flags of follow.
type followOptions struct {
	idle  time.Duration
	since time.Time // for folders that were not followed before
}

func followCommand() *cobra.Command {
	var o options
	var f followOptions
	cmd := &cobra.Command{
		Use:   "follow [FOLDER...]",
		Short: "Trace the session logs of agents as they grow",
		Long:  followUsage,
		RunE:  func(_ *cobra.Command, folders []string) error { return followLogs(&o, f, folders, os.Stderr) },

		ValidArgsFunction: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs),
	}
	flags := cmd.Flags()
	flags.DurationVar(&f.idle, "idle", 10*time.Minute, "end open runs as incomplete if their log did not grow for `TIME`")
	cli.AddSince(flags, &f.since, "in folders never followed, also trace runs that began after `TIME`, such as 2026-11-01, 7d or 12h (default now)")
	o.addFlags(cmd)
	o.addLogFlag(cmd)
	o.addViewFlags(cmd)
	return cmd
}

// followLogs is like filter, with the logs in folders for a stream:
//
//	follow.Follower -> tracer.Stream.Emit -> exporter
func followLogs(o *options, fo followOptions, folders []string, stderr *os.File) error {
	if fo.idle <= 0 {
		return cli.Invalid("--idle", fo.idle.String(), "more than 0s")
	}
	for _, name := range folders {
		if info, err := os.Stat(name); err == nil && !info.IsDir() {
			return cli.Invalid("FOLDER", name, "a folder; for a file use spantee replay")
		}
	}
	setup, err := setUp(o, stderr, source{Options: mapping.Options{Source: mapping.Followed}})
	if err != nil {
		return err
	}
	sinks, ending, reporter := setup.sinks, setup.ending, setup.sinks.reporter
	if !sinks.needed {
		return errors.New("no spans are sent: " + reporter.whyNowhere())
	}
	sinks.cfg.parent = trace.SpanContext{} // the sessions are not what started this process
	signals := proc.CatchSignals()
	follower, err := follow.NewFollower(follow.Config{
		Folders: folders, Since: fo.since, Agent: o.agent, Mapping: sinks.mapping(mapping.Options{}),
		Idle: fo.idle, StallAfter: o.stallAfter, NoState: sinks.cfg.spool == nil,
	}, follow.Host{
		Following: func(folder string, since time.Time) {
			reporter.note("following %s: runs that began after %s", tree.Printable(folder), since.Format(time.DateTime))
		},
		Polling: func(why error) { reporter.say("polling for changes every 2 s: %v", why) },
		Started: func(run mapping.Run, leftOut bool) {
			if ending.result.stats.Runs++; !leftOut {
				reporter.runStarted(run)
			}
		},
		Emit: func(out mapping.Output) {
			if setup.stream.Emit(out); out.Ended != nil {
				reporter.runEnded(*out.Ended)
			}
		},
		Remember: sinks.metrics.remember,
		Flush: func() error {
			setup.stream.Changed()
			return setup.stream.Flush()
		},
		Grown: sinks.metrics.received,
		Stalled: func(agent string, idle time.Duration) {
			reporter.stalled(agent, idle)
			sinks.metrics.stalled(agent)
		},
		Tick:    func(now time.Time) { setup.stream.Tick(now, sinks.watched()) },
		Skipped: reporter.skipped, Damaged: reporter.now, Problem: reporter.problem,
	})
	if err != nil {
		return err
	}
	setup.stream.Open = follower.OpenSpans
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		follower.Run(ctx)
	}()
	<-signals
	disarm := proc.DieOfNext(signals)
	stop()
	sinks.endStream()
	unknown, err := spool.Await(func() ([]mapping.UnknownType, error) {
		<-done
		return follower.Close(), nil
	})
	if err != nil {
		reporter.problem(fmt.Errorf("cannot save the position, so a restart may send spans again: %w", err))
		ending.result.hangs = true
	}
	reporter.unknownTypes(unknown)
	ending.endAll(0)
	return ending.finish(proc.Status{}, nil, disarm)
}
