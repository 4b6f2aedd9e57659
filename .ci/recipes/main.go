// Recipes checks Kubernetes manifests as the API server does: against the API's own
// types, with no field that they do not have. Its own rules are those of a careful
// cluster: images by digest, no root, nothing writable that is not a volume.
//
// It is a module of its own so that spantee does not depend on Kubernetes.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	var errs []error
	for _, file := range os.Args[1:] {
		if err := check(file); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", file, err))
		}
	}
	if err := errors.Join(errs...); err != nil || len(os.Args) == 1 {
		fmt.Fprintln(os.Stderr, "recipes:", err)
		os.Exit(1)
	}
}

func check(file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	claims := map[string]bool{}
	var jobs []batchv1.Job
	for _, document := range bytes.Split(b, []byte("\n---\n")) {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal(document, &kind); err != nil {
			return err
		}
		switch kind.Kind {
		case "PersistentVolumeClaim":
			var claim corev1.PersistentVolumeClaim
			if err := yaml.UnmarshalStrict(document, &claim); err != nil {
				return err
			}
			claims[claim.Namespace+"/"+claim.Name] = true
		case "Job":
			var job batchv1.Job
			if err := yaml.UnmarshalStrict(document, &job); err != nil {
				return err
			}
			jobs = append(jobs, job)
		default:
			return fmt.Errorf("a %q", kind.Kind)
		}
	}
	if len(jobs) == 0 {
		return errors.New("no Job")
	}
	for _, job := range jobs {
		if err := checkJob(job, claims); err != nil {
			return fmt.Errorf("%s: %w", job.Name, err)
		}
		fmt.Printf("%s: %s/%s is valid\n", file, job.Kind, job.Name)
	}
	return nil
}

func checkJob(job batchv1.Job, claims map[string]bool) error {
	pod := job.Spec.Template.Spec
	switch {
	case job.APIVersion != "batch/v1" || job.Name == "":
		return errors.New("not a Job of batch/v1 with a name")
	case pod.RestartPolicy != "Never" && pod.RestartPolicy != "OnFailure":
		return errors.New("a Job's restartPolicy is Never or OnFailure")
	case pod.TerminationGracePeriodSeconds == nil || *pod.TerminationGracePeriodSeconds < 6:
		return errors.New("the grace period leaves no time for --flush-timeout")
	case pod.SecurityContext == nil || !isTrue(pod.SecurityContext.RunAsNonRoot) || pod.SecurityContext.SeccompProfile == nil:
		return errors.New("the pod may run as root, or without a seccomp profile")
	}
	persistent := map[string]bool{} // by volume
	for _, v := range pod.Volumes {
		claim := v.PersistentVolumeClaim
		persistent[v.Name] = claim != nil
		if claim != nil && !claims[job.Namespace+"/"+claim.ClaimName] {
			return fmt.Errorf("no claim %q", claim.ClaimName)
		}
	}
	for _, c := range append(pod.InitContainers, pod.Containers...) {
		if err := checkContainer(c, persistent); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	return nil
}

var byDigest = regexp.MustCompile(`^[^@]+@sha256:[0-9a-f]{64}$`)

func checkContainer(c corev1.Container, persistent map[string]bool) error {
	security := c.SecurityContext
	switch {
	case c.Name == "" || !byDigest.MatchString(c.Image):
		return fmt.Errorf("image %q has no digest", c.Image)
	case security == nil || !isTrue(security.ReadOnlyRootFilesystem) || security.AllowPrivilegeEscalation == nil || *security.AllowPrivilegeEscalation:
		return errors.New("a writable root file system, or privileges may grow")
	case security.Capabilities == nil || len(security.Capabilities.Drop) != 1 || security.Capabilities.Drop[0] != "ALL":
		return errors.New("capabilities are not dropped")
	}
	kept := map[string]bool{} // paths that outlive the pod
	for _, m := range c.VolumeMounts {
		claim, ok := persistent[m.Name]
		if !ok {
			return fmt.Errorf("no volume %q", m.Name)
		}
		kept[m.MountPath] = claim
	}
	for _, e := range c.Env {
		if e.Name == "XDG_STATE_HOME" && !kept[e.Value] {
			return fmt.Errorf("undelivered spans in %s end with the pod", e.Value)
		}
	}
	return nil
}

func isTrue(b *bool) bool { return b != nil && *b }
