package metrics

import (
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	sdkresource "go.opentelemetry.io/otel/sdk/resource"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
)

// unbounded are attributes whose value differs in every run. With them, every
// metric would have as many series as there are runs.
var unbounded = []string{
	"cicd.pipeline.run.", "cicd.pipeline.task.run.", "cicd.worker.", "vcs.ref.", "vcs.change.", "process.", "container.id",
	"host.", "k8s.pod.", "k8s.node.", "k8s.job.",
}

// Resource returns the resource of metrics: that of spans, without attributes that
// differ in every run unless asked, the value of $OTEL_RESOURCE_ATTRIBUTES, sets
// them. instance is the service.instance.id if the resource has none, because a
// series must have one writer.
func Resource(of *resourcepb.Resource, asked, instance string) *sdkresource.Resource {
	attributes := []attribute.KeyValue{attribute.String("service.instance.id", instance)} // of two, the later one wins
	for _, kv := range of.GetAttributes() {
		many := slices.ContainsFunc(unbounded, func(prefix string) bool { return strings.HasPrefix(kv.Key, prefix) })
		if !many || strings.Contains(asked, kv.Key+"=") {
			attributes = append(attributes, attribute.String(kv.Key, kv.Value.GetStringValue()))
		}
	}
	return sdkresource.NewSchemaless(attributes...)
}
