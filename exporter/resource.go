package exporter

import (
	"context"
	"fmt"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
)

// Resource describes where spans come from: service and, if known, its version,
// on this host. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence.
// If the latter is malformed, the valid part of it is returned with the error.
func Resource(ctx context.Context, service, version string) (*resourcepb.Resource, error) {
	defaults := []attribute.KeyValue{attribute.String("service.name", service)}
	if version != "" {
		defaults = append(defaults, attribute.String("service.version", version))
	}
	res, err := resource.New(ctx,
		resource.WithAttributes(defaults...),
		resource.WithHost(),
		resource.WithFromEnv(), // the last one wins
	)

	out := new(resourcepb.Resource)
	for _, kv := range res.Attributes() { // sorted, and strings all of them
		out.Attributes = append(out.Attributes, &commonpb.KeyValue{
			Key: strings.ToValidUTF8(string(kv.Key), "\uFFFD"),
			Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{
				StringValue: strings.ToValidUTF8(kv.Value.AsString(), "\uFFFD"),
			}},
		})
	}
	if _, what, ok := strings.Cut(fmt.Sprint(err), resource.ErrPartialResource.Error()+": "); ok {
		err = &Error{fmt.Errorf("invalid $OTEL_RESOURCE_ATTRIBUTES: %s", what), "write it as key=value,key=value"}
	}
	return out, err
}
