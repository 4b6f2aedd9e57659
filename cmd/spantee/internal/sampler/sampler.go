// Package sampler decides which runs are sent, as OTEL_TRACES_SAMPLER asks.
package sampler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// A Sampler decides by trace id, so that a run is sent whole or not at all, and so
// that every sampler with the same ratio agrees. Trace ids are derived by SHA-256,
// so they are as good as random ones. Metrics are counted before sampling.
type Sampler struct {
	ratio sdk.Sampler // nil if all are kept

	Never error // why nothing is kept; nil if something is
}

// New reads $OTEL_TRACES_SAMPLER. By default the parent's decision
// counts, and without a parent everything is sampled.
func New(parent trace.SpanContext, problem func(error)) Sampler {
	name := cmp.Or(os.Getenv("OTEL_TRACES_SAMPLER"), "parentbased_always_on")
	root, parentBased := strings.CutPrefix(name, "parentbased_")
	if !slices.Contains([]string{"always_on", "always_off", "traceidratio"}, root) {
		problem(fmt.Errorf("all runs are sampled: invalid $OTEL_TRACES_SAMPLER %q (want always_on, always_off or traceidratio, with or without parentbased_ before it)", name))
		root, parentBased = "always_on", true
	}
	if parentBased && parent.IsValid() {
		if !parent.IsSampled() {
			return Sampler{Never: errors.New("$TRACEPARENT is not sampled (env -u TRACEPARENT removes it)")}
		}
		return Sampler{}
	}
	switch root {
	case "always_off":
		return Sampler{Never: errors.New("$OTEL_TRACES_SAMPLER is " + name)}
	case "traceidratio":
		return ratioSampler(os.Getenv("OTEL_TRACES_SAMPLER_ARG"), problem)
	}
	return Sampler{}
}

// ratioSampler keeps the fraction arg of all runs, or all runs if arg is not a
// number from 0 to 1.
func ratioSampler(arg string, problem func(error)) Sampler {
	if arg == "" {
		return Sampler{}
	}
	ratio, err := strconv.ParseFloat(arg, 64)
	if err != nil || math.IsNaN(ratio) || ratio < 0 || ratio > 1 {
		problem(fmt.Errorf("all runs are sampled: invalid $OTEL_TRACES_SAMPLER_ARG %q (want a number from 0 to 1)", arg))
		return Sampler{}
	}
	return Sampler{ratio: sdk.TraceIDRatioBased(ratio)}
}

// Keeps reports whether the spans of a trace are sent.
func (s Sampler) Keeps(id trace.TraceID) bool {
	return s.ratio == nil || s.ratio.ShouldSample(sdk.SamplingParameters{ParentContext: context.Background(), TraceID: id}).Decision == sdk.RecordAndSample
}
