// Compose checks a compose file without Docker: that it loads, with every
// profile, and that what it starts is pinned and stays on this machine.
//
// It is a module of its own so that spantee does not depend on compose-go.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"go.yaml.in/yaml/v4"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: compose FILE")
		os.Exit(2)
	}
	if err := check(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func check(file string) error {
	ctx := context.Background()
	opts, err := cli.NewProjectOptions([]string{file})
	if err != nil {
		return err
	}
	alone, err := opts.LoadProject(ctx)
	if err != nil {
		return err
	}
	whole, err := alone.WithProfiles([]string{"*"})
	if err != nil {
		return err
	}
	fmt.Printf("%s: %v, with all profiles %v\n", path.Base(file), alone.ServiceNames(), whole.ServiceNames())

	var errs []error
	taken := map[string]string{}
	for _, s := range whole.Services {
		errs = append(errs, service(whole, s)...)
		for _, port := range s.Ports {
			if other, ok := taken[port.Published]; ok {
				errs = append(errs, fmt.Errorf("%s: port %s is that of %s", s.Name, port.Published, other))
			}
			taken[port.Published] = s.Name
		}
	}
	for name, c := range whole.Configs {
		var content map[string]any
		if err := yaml.Unmarshal([]byte(c.Content), &content); err != nil || len(content) == 0 {
			errs = append(errs, fmt.Errorf("config %s: not inline YAML: %v", name, err))
		}
	}
	return errors.Join(errs...)
}

var pinned = regexp.MustCompile(`^[^:@]+:v?\d+\.\d+\.\d+$`)

func service(p *types.Project, s types.ServiceConfig) (errs []error) {
	if !pinned.MatchString(s.Image) {
		errs = append(errs, fmt.Errorf("%s: image %q is not pinned to a version", s.Name, s.Image))
	}
	for _, port := range s.Ports {
		if port.HostIP != "127.0.0.1" {
			errs = append(errs, fmt.Errorf("%s: port %s is published to other machines", s.Name, port.Published))
		}
	}
	for _, c := range s.Configs {
		if _, ok := p.Configs[c.Source]; !ok {
			errs = append(errs, fmt.Errorf("%s: no config %q", s.Name, c.Source))
		}
	}
	for _, v := range s.Volumes {
		errs = append(errs, volume(p, s, v))
	}
	return errs
}

// volume checks what a service mounts. Without a profile, one file must be enough;
// whatever else is mounted lies under testdata, and cannot be written to.
func volume(p *types.Project, s types.ServiceConfig, v types.ServiceVolumeConfig) error {
	if v.Type == types.VolumeTypeVolume {
		if _, ok := p.Volumes[v.Source]; !ok {
			return fmt.Errorf("%s: no volume %q", s.Name, v.Source)
		}
		return nil
	}
	below, err := filepath.Rel(filepath.Join(p.WorkingDir, "testdata"), v.Source)
	switch {
	case len(s.Profiles) == 0:
		return fmt.Errorf("%s: mounts files; one file must be enough", s.Name)
	case err != nil || !filepath.IsLocal(below):
		return fmt.Errorf("%s: mounts %s, which is not under testdata", s.Name, v.Source)
	case !v.ReadOnly:
		return fmt.Errorf("%s: can write to %s", s.Name, v.Source)
	}
	_, err = os.Stat(v.Source)
	return err
}
