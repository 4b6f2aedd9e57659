package resource

import (
	"testing"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// TestConventions compares the names of all attributes that are detected with
// those of the conventions' newest release.
func TestConventions(t *testing.T) {
	known := map[string]bool{}
	for _, key := range []attribute.Key{
		semconv.CICDPipelineNameKey, semconv.CICDPipelineRunIDKey, semconv.CICDPipelineRunURLFullKey, semconv.CICDPipelineTaskNameKey,
		semconv.CICDPipelineTaskRunIDKey, semconv.CICDPipelineTaskRunURLFullKey, semconv.CICDWorkerIDKey, semconv.CICDWorkerNameKey,
		semconv.VCSChangeIDKey, semconv.VCSOwnerNameKey, semconv.VCSProviderNameKey, semconv.VCSRefBaseNameKey, semconv.VCSRefHeadNameKey,
		semconv.VCSRefHeadRevisionKey, semconv.VCSRefHeadTypeKey, semconv.VCSRepositoryNameKey, semconv.VCSRepositoryURLFullKey,
	} {
		known[string(key)] = true
	}
	for _, a := range ciAttributes {
		if !known[a[0]] {
			t.Errorf("the conventions have no %s", a[0])
		}
		delete(known, a[0])
	}
	for key := range known {
		t.Errorf("%s is not detected", key)
	}
}
