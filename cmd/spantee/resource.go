package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/content"
)

// services returns the resources of a stream's spans and metrics. A recording has
// no instance id, because sending it again must produce the same bytes.
func (c *config) services(live bool, process *mapping.Process) services {
	var facts []string
	if live {
		facts = append(facts, "service.instance.id", newUUID())
	}
	if process != nil {
		facts = append(facts, "process.executable.name", process.Executable, "process.parent_pid", fmt.Sprint(os.Getpid()))
	}
	return services{detectors: c.detectors, facts: facts}
}

// resolveDetectors returns the detectors to run. The repository of the working
// directory counts as content.
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
	id := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, rand.Uint64()), rand.Uint64())
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
