package exporter

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
		semconv.K8SClusterNameKey, semconv.K8SNamespaceNameKey, semconv.K8SNodeNameKey, semconv.K8SPodNameKey, semconv.K8SPodUIDKey,
		semconv.K8SContainerNameKey, semconv.K8SJobNameKey, semconv.K8SCronJobNameKey, semconv.ContainerIDKey,
	} {
		known[string(key)] = true
	}
	for _, ci := range ciSystems {
		if len(ci.attributes) < 9 {
			t.Errorf("%s: %d attributes", ci.marker, len(ci.attributes))
		}
		for _, a := range ci.attributes {
			if !known[a[0]] {
				t.Errorf("%s: the conventions have no %s", ci.marker, a[0])
			}
		}
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
	for _, variable := range []string{"K8S_CLUSTER_NAME", "POD_NAMESPACE", "NODE_NAME", "POD_NAME", "POD_UID", "K8S_CONTAINER_NAME", "K8S_JOB_NAME", "K8S_CRONJOB_NAME"} {
		t.Setenv(variable, "x")
	}
	pods := 0
	for _, kv := range detect([]string{"k8s"}) {
		pods++
		if !known[kv[0]] {
			t.Errorf("the conventions have no %s", kv[0])
		}
	}
	if pods != 8 {
		t.Errorf("%d attributes of a pod", pods)
	}
}
