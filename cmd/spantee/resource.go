package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"slices"

	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/content"
)

// resource describes where the spans and metrics of a stream come from. A
// recording has no instance: sent again, its spans have to be the same bytes.
func (c *config) resource(agentFlag string, live bool, process *mapping.Process, say *reporter) *resourcepb.Resource {
	more := []string{"service.name", serviceName(agentFlag)}
	if live {
		more = append(more, "service.instance.id", newUUID())
	}
	if process != nil {
		more = append(more, "process.executable.name", process.Executable, "process.parent_pid", fmt.Sprint(os.Getpid()))
	}
	resource, err := exporter.ResourceFrom(context.Background(), c.detectors, more...)
	if err != nil {
		say.problem(err)
	}
	return resource
}

// resolveDetectors returns what is to be found out. The working directory's
// repository is content.
func (o *options) resolveDetectors(level content.Level) ([]string, error) {
	names := o.resourceDetectors
	if err := exporter.CheckDetectors(names); err != nil {
		return nil, usageError{fmt.Errorf("--resource-detectors: %w", err)}
	}
	if len(names) == 0 {
		names = exporter.DetectorNames()
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "vcs" && level == content.None }), nil
}

// newUUID returns a random UUID.
func newUUID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // it never fails
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
