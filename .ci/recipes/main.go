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
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	var errs []error
	for _, file := range os.Args[1:] {
		b, err := os.ReadFile(file)
		if err == nil {
			err = check(b)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", file, err))
			continue
		}
		fmt.Println(file, "is valid")
	}
	if err := errors.Join(errs...); err != nil || len(os.Args) == 1 {
		fmt.Fprintln(os.Stderr, "recipes:", err)
		os.Exit(1)
	}
}

// check checks each document of a file.
func check(file []byte) error {
	claims := map[string]bool{}
	for _, document := range bytes.Split(file, []byte("\n---\n")) {
		var object struct {
			metav1.TypeMeta
			Metadata metav1.ObjectMeta
		}
		if err := yaml.Unmarshal(document, &object); err != nil {
			return err
		}
		if object.Metadata.Name == "" || object.Metadata.Namespace == "" {
			return fmt.Errorf("a %s without a name or a namespace", object.Kind)
		}
		if err := checkObject(object.APIVersion+" "+object.Kind, document, claims); err != nil {
			return fmt.Errorf("%s %s: %w", object.Kind, object.Metadata.Name, err)
		}
	}
	return nil
}

// checkObject checks a document, and adds the claims that it makes.
func checkObject(kind string, document []byte, claims map[string]bool) error {
	switch kind {
	case "v1 PersistentVolumeClaim":
		var claim corev1.PersistentVolumeClaim
		err := yaml.UnmarshalStrict(document, &claim)
		if !slices.Equal(claim.Spec.AccessModes, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}) {
			err = errors.Join(err, errors.New("pods on several nodes share the claim: it must be ReadWriteMany"))
		}
		claims[claim.Name] = true
		return err
	case "v1 Service":
		return yaml.UnmarshalStrict(document, new(corev1.Service))
	case "batch/v1 Job":
		var job batchv1.Job
		if err := yaml.UnmarshalStrict(document, &job); err != nil {
			return err
		}
		return checkPod(job.Spec.Template.Spec, claims)
	case "apps/v1 DaemonSet":
		var set appsv1.DaemonSet
		if err := yaml.UnmarshalStrict(document, &set); err != nil {
			return err
		}
		return checkPod(set.Spec.Template.Spec, claims)
	case "apps/v1 StatefulSet":
		var set appsv1.StatefulSet
		if err := yaml.UnmarshalStrict(document, &set); err != nil {
			return err
		}
		pod := set.Spec.Template.Spec
		for _, claim := range set.Spec.VolumeClaimTemplates {
			claims[claim.Name] = true
			pod.Volumes = append(pod.Volumes, corev1.Volume{Name: claim.Name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
			}})
		}
		return checkPod(pod, claims)
	}
	return fmt.Errorf("no check for %s", kind)
}

func checkPod(pod corev1.PodSpec, claims map[string]bool) error {
	switch {
	case pod.TerminationGracePeriodSeconds == nil || *pod.TerminationGracePeriodSeconds < 6:
		return errors.New("the grace period leaves no time for --flush-timeout")
	case pod.SecurityContext == nil || !isTrue(pod.SecurityContext.RunAsNonRoot) || pod.SecurityContext.SeccompProfile == nil:
		return errors.New("the pod may run as root, or without a seccomp profile")
	}
	persistent := map[string]bool{} // by volume
	for _, v := range pod.Volumes {
		claim := v.PersistentVolumeClaim
		persistent[v.Name] = claim != nil
		if claim != nil && !claims[claim.ClaimName] {
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
	case c.Resources.Limits.Memory().IsZero():
		return errors.New("no memory limit")
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
