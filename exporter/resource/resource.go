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

// New returns a resource: what the named detectors find, and attributes
// as alternating keys and values, of which empty ones are left out. With environment,
// OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence. If the latter is malformed,
// its valid part is returned with the error.
func New(ctx context.Context, environment bool, detectors []string, keysAndValues ...string) (*resourcepb.Resource, error) {
	var known []attribute.KeyValue
	for _, found := range detect(detectors) {
		known = append(known, attribute.String(found[0], found[1]))
	}
	for i := 0; i < len(keysAndValues); i += 2 {
		if keysAndValues[i+1] != "" {
			known = append(known, attribute.String(keysAndValues[i], keysAndValues[i+1]))
		}
	}
	options := []sdkresource.Option{sdkresource.WithAttributes(known...)}
	if slices.Contains(detectors, Host) {
		options = append(options, sdkresource.WithHost())
	}
	if environment {
		options = append(options, sdkresource.WithFromEnv()) // the last one wins
	}
	res, err := sdkresource.New(ctx, options...)

	out := new(resourcepb.Resource)
	for _, kv := range res.Attributes() { // sorted; all values are strings
		out.Attributes = append(out.Attributes, &commonpb.KeyValue{
			Key: strings.ToValidUTF8(string(kv.Key), "\uFFFD"),
			Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{
				StringValue: strings.ToValidUTF8(kv.Value.AsString(), "\uFFFD"),
			}},
		})
	}
	wrong := malformedAttributes(os.Getenv("OTEL_RESOURCE_ATTRIBUTES"))
	if environment && len(wrong) > 0 {
		err = &exporter.Error{Err: fmt.Errorf("invalid $OTEL_RESOURCE_ATTRIBUTES: %s", strings.Join(wrong, ", ")), Hint: "want key=value,key=value"}
	}
	return out, err
}

// malformedAttributes returns what is wrong with a list. The SDK drops a pair without a
// key or a value, and keeps an invalid escape verbatim.
func malformedAttributes(list string) (wrong []string) {
	if strings.TrimSpace(list) == "" {
		return nil
	}
	for pair := range strings.SplitSeq(list, ",") {
		key, value, ok := strings.Cut(pair, "=")
		_, err := url.PathUnescape(value)
		switch {
		case !ok:
			wrong = append(wrong, "missing value: ["+pair+"]")
		case strings.TrimSpace(key) == "":
			wrong = append(wrong, "missing key: ["+pair+"]")
		case err != nil:
			wrong = append(wrong, "invalid escape: ["+pair+"]")
		}
	}
	return wrong
}
