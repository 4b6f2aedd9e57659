// Package resource describes where spans come from: the service, the host, the CI job and the
// repository.
package resource

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	sdkresource "go.opentelemetry.io/otel/sdk/resource"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"

	"github.com/spantee/spantee/exporter"
)

// Sources are where the attributes of a resource come from. To find them out makes no requests,
// and reads at most a few small files.
type Sources struct {
	Host        bool // its name
	CI          bool // the job
	Repository  bool // of the working directory
	Environment bool // OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES, which take precedence
}

// New returns a resource: what the sources say, and attributes as alternating keys and values,
// of which empty ones are left out. If OTEL_RESOURCE_ATTRIBUTES is malformed, its valid part is
// returned with the error.
func New(from Sources, keysAndValues ...string) (*resourcepb.Resource, error) {
	var known []attribute.KeyValue
	set := func(key, value string) {
		if value != "" {
			known = append(known, attribute.String(key, value))
		}
	}
	if from.CI {
		detectCI(set)
	}
	if from.Repository {
		detectRepository(set)
	}
	for i := 0; i < len(keysAndValues); i += 2 {
		set(keysAndValues[i], keysAndValues[i+1])
	}
	options := []sdkresource.Option{sdkresource.WithAttributes(known...)}
	if from.Host {
		options = append(options, sdkresource.WithHost())
	}
	if from.Environment {
		options = append(options, sdkresource.WithFromEnv()) // the last one wins
	}
	res, err := sdkresource.New(context.Background(), options...)

	out := new(resourcepb.Resource)
	for _, kv := range res.Attributes() { // sorted; all values are strings
		out.Attributes = append(out.Attributes, &commonpb.KeyValue{
			Key: strings.ToValidUTF8(string(kv.Key), "\uFFFD"),
			Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{
				StringValue: strings.ToValidUTF8(kv.Value.AsString(), "\uFFFD"),
			}},
		})
	}
	if list := os.Getenv("OTEL_RESOURCE_ATTRIBUTES"); from.Environment && strings.TrimSpace(list) != "" {
		if wrong := slices.DeleteFunc(strings.Split(list, ","), isAttribute); len(wrong) > 0 {
			err = &exporter.Error{Err: fmt.Errorf("invalid $OTEL_RESOURCE_ATTRIBUTES %q", strings.Join(wrong, ",")), Hint: "want key=value,key=value"}
		}
	}
	return out, err
}

// isAttribute reports whether a pair has a key and a value. The SDK drops others, and keeps an
// invalid escape verbatim.
func isAttribute(pair string) bool {
	key, value, ok := strings.Cut(pair, "=")
	_, err := url.PathUnescape(value)
	return ok && strings.TrimSpace(key) != "" && err == nil
}
