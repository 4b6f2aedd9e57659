// Recipes checks Kubernetes manifests as the API server does: against the API's own
// types, with no field that they do not have.
//
// It is a module of its own so that spantee does not depend on Kubernetes.
package main

import (
	"errors"
	"fmt"
	"os"

	batchv1 "k8s.io/api/batch/v1"
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
	var job batchv1.Job
	if err := yaml.UnmarshalStrict(b, &job); err != nil {
		return err
	}
	pod := job.Spec.Template.Spec
	switch {
	case job.APIVersion != "batch/v1" || job.Kind != "Job" || job.Name == "":
		return errors.New("not a Job of batch/v1 with a name")
	case pod.RestartPolicy != "Never" && pod.RestartPolicy != "OnFailure":
		return errors.New("a Job's restartPolicy is Never or OnFailure")
	case pod.TerminationGracePeriodSeconds == nil || *pod.TerminationGracePeriodSeconds < 6:
		return errors.New("the grace period leaves no time for --flush-timeout")
	}
	volumes := map[string]bool{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
	}
	for _, c := range append(pod.InitContainers, pod.Containers...) {
		if c.Name == "" || c.Image == "" {
			return errors.New("a container without a name or an image")
		}
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] {
				return fmt.Errorf("%s: no volume %q", c.Name, m.Name)
			}
		}
	}
	fmt.Printf("%s: %s/%s is valid\n", file, job.Kind, job.Name)
	return nil
}
