package spantee

import (
	"context"
	"maps"
	"path/filepath"

	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"

	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/otlp"
	"github.com/spantee/spantee/exporter/resource"
	"github.com/spantee/spantee/exporter/spool"
)

// ExporterOptions say where spans go. The zero ExporterOptions send them to
// http://localhost:4317 over OTLP/gRPC.
type ExporterOptions struct {
	Endpoint string            // such as http://collector:4317; https turns TLS on
	Protocol string            // grpc, http/protobuf or http/json; "" means grpc
	Headers  map[string]string // sent with every request
	CACert   string            // a PEM file

	// Environment makes the standard OTEL_EXPORTER_OTLP_* variables apply to fields that are
	// not set, and OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES to the resource.
	Environment bool

	// Resource has attributes of all spans. service.name is the agent's name unless it is
	// one of them.
	Resource map[string]string

	// SpoolDir, if set, is a folder for undelivered spans, and for a log from which the
	// spans of a killed process are recovered. Later Tracers and "spantee flush" send them.
	// The folder belongs to spantee alone; it is created if it is missing.
	SpoolDir string
}

// An Exporter sends the spans of any number of Tracers over one connection.
type Exporter struct {
	client   exporter.Client // nil if no spans are sent
	spool    *spool.Spool    // nil without one
	resource func(agent string) *resourcepb.Resource
}

// NewExporter returns an Exporter, which connects once there is a span to send. The error
// may be an *[OptionError].
func NewExporter(o ExporterOptions) (*Exporter, error) {
	client, err := otlp.New(otlp.Config{
		Endpoint: o.Endpoint, Protocol: o.Protocol, Headers: o.Headers, CACert: o.CACert,
		UserAgent: tracer.UserAgent(), IgnoreEnvironment: !o.Environment,
	})
	if err != nil {
		return nil, &OptionError{"ExporterOptions", err}
	}
	e := &Exporter{client: client, resource: tracer.PerAgent(o.describe)}
	if o.SpoolDir != "" {
		dir, err := filepath.Abs(o.SpoolDir)
		if err != nil {
			return nil, &OptionError{"ExporterOptions.SpoolDir", err}
		}
		e.spool = &spool.Spool{Dir: dir, Max: spool.DefaultMax}
	}
	return e, nil
}

// Close closes the connection. Close all Tracers first.
func (e *Exporter) Close(ctx context.Context) error { return e.client.Stop(ctx) }

// start starts the delivery of one stream's spans, which has an account of its own.
func (e *Exporter) start() *exporter.Exporter {
	return exporter.New(exporter.Config{Client: shared{e.client}, Spool: e.spool})
}

// shared is a client that one of its users cannot stop.
type shared struct{ exporter.Client }

func (shared) Stop(context.Context) error { return nil }

// describe returns an agent as a service. Only the valid part of the environment counts.
func (o ExporterOptions) describe(agent string) *resourcepb.Resource {
	attributes := map[string]string{"service.name": agent}
	maps.Copy(attributes, o.Resource)
	var list []string
	for key, value := range attributes {
		list = append(list, key, value)
	}
	r, _ := resource.New(resource.Sources{Environment: o.Environment}, list...)
	return r
}
