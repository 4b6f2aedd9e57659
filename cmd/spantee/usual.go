package main

import (
	"context"
	"fmt"

	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"

	"github.com/spantee/spantee/cmd/spantee/internal/cli"
	"github.com/spantee/spantee/exporter/receipt"
	"github.com/spantee/spantee/exporter/receipt/baseline"
)

// A usual compares runs with those in the file of --baseline.
type usual struct {
	file      string
	earlier   *baseline.History // as the command started
	receipt   *receiptSink
	resources func(agent string) *resourcepb.Resource
}

// openBaseline returns nil without --baseline.
func (o *options) openBaseline(receipt *receiptSink, resources func(agent string) *resourcepb.Resource) (*usual, error) {
	if o.baseline == "" {
		return nil, nil
	}
	file, err := fileToReplace("--baseline", o.baseline)
	if err != nil {
		return nil, err
	}
	u := &usual{file: file, receipt: receipt, resources: resources}
	if u.earlier, err = baseline.Open(file); err != nil {
		return nil, cli.Usage(fmt.Errorf("--baseline %s: %w", o.baseline, err))
	}
	return u, nil
}

// service returns the service that an agent is.
func (u *usual) service(agent string) string {
	for _, kv := range u.resources(agent).GetAttributes() {
		if kv.GetKey() == "service.name" {
			return kv.GetValue().GetStringValue()
		}
	}
	return ""
}

// sentence says how a run that has ended exceeds the usual, "" if it does not.
func (u *usual) sentence(trace string) string {
	if u == nil {
		return ""
	}
	run, known := u.receipt.recorder.Run(trace)
	if !known {
		return ""
	}
	_, sentence := u.earlier.Compare(u.service(run.Agent), &run)
	return sentence
}

// compare adds what is usual to a receipt of one run, and returns a sentence about the first
// run that exceeds it.
func (u *usual) compare(r *receipt.Receipt) (sentence string) {
	for i := range r.Runs {
		run := &r.Runs[i]
		usual, s := u.earlier.Compare(u.service(run.Agent), run)
		if r.RunsTotal == 1 {
			r.Baseline = usual
			return s
		}
		if s != "" && sentence == "" {
			sentence = fmt.Sprintf("run %d of %d: %s", i+1, r.RunsTotal, s)
		}
	}
	return sentence
}

// add adds the runs of a receipt to the file. It waits for other processes until ctx ends.
func (u *usual) add(ctx context.Context, r *receipt.Receipt) (setAside string, err error) {
	var entries []baseline.Entry
	for _, run := range r.Runs {
		run.Succeeded = run.Succeeded && r.Complete
		entries = append(entries, baseline.NewEntry(u.service(run.Agent), run))
	}
	if len(entries) == 0 {
		return "", nil
	}
	return baseline.Add(ctx, u.file, entries)
}
