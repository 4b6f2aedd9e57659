package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"

	"github.com/spantee/spantee/exporter/metrics"
	"github.com/spantee/spantee/exporter/otlp"
)

// A metricsConfig says where metrics go.
type metricsConfig struct {
	to         *otlp.Settings // nil if they go nowhere
	recordings bool           // those of recordings, too
}

// resolveMetrics finds out where metrics go: where the variables of their own say,
// or else where spans go.
//
// Unless $OTEL_METRICS_EXPORTER is set, they go where spans go by OTLP, and only
// those of a live stream do: a recording that is sent twice would count twice.
func (o *options) resolveMetrics(spans destination, problem func(error)) (c metricsConfig) {
	switch chosen := os.Getenv("OTEL_METRICS_EXPORTER"); {
	case strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true"), chosen == "none", chosen == "" && spans.otlp == nil:
		return metricsConfig{}
	case chosen != "" && chosen != "otlp":
		problem(fmt.Errorf("no metrics are sent: invalid $OTEL_METRICS_EXPORTER %q (want otlp or none)", chosen))
		return metricsConfig{}
	case chosen == "otlp":
		c.recordings = true
	}
	cfg := o.otlp
	cfg.Signal = otlp.Metrics
	settings, err := resolveOTLP(cfg)
	if err != nil {
		problem(fmt.Errorf("no metrics are sent: %w", err))
		return metricsConfig{}
	}
	c.to = settings
	return c
}

// startMetrics returns nil if metrics go nowhere.
func (c *config) startMetrics(resource *resourcepb.Resource, recording bool) (*metrics.Recorder, error) {
	if c.metrics.to == nil || recording && !c.metrics.recordings {
		return nil, nil
	}
	exporter, err := c.metrics.to.MetricExporter(context.Background())
	if err != nil {
		return nil, err
	}
	return metrics.New(metrics.Config{Exporter: exporter, Version: version(), Resource: metrics.Resource(resource, os.Getenv("OTEL_RESOURCE_ATTRIBUTES"), newUUID())})
}

// endMetrics sends the last values, with what became of the spans.
func (t *tracing) endMetrics(ctx context.Context) {
	if t.metrics == nil {
		return
	}
	d := t.say.delivery
	t.metrics.Spans(d.Delivered, d.Spooled, d.Rejected+d.Dropped)
	t.say.metrics = t.metrics.Close(ctx)
}

// lostMetrics says that metrics did not arrive.
func (r *reporter) lostMetrics() string {
	m := r.metrics
	if m.Lost == 0 {
		return ""
	}
	cause := m.Cause
	if cause == nil {
		cause = errors.New("there was no time left to send them")
	}
	return fmt.Sprintf("%s of metrics lost: %s", count(m.Lost, "data point"), withHint(cause))
}
