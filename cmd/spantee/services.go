package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"

	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"

	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/mapping"
)

// services returns the resources of a stream's spans and metrics. A recording has
// no instance id, because sending it again must produce the same bytes.
func (c *config) services(live bool, process *mapping.Process, problem func(error)) func(agent string) *resourcepb.Resource {
	var facts []string
	if live {
		facts = append(facts, "service.instance.id", newUUID())
	}
	if process != nil {
		facts = append(facts, "process.executable.name", process.Executable, "process.parent_pid", fmt.Sprint(os.Getpid()))
	}
	var reported sync.Once // an error in the environment is the same for all agents
	return tracer.PerAgent(func(agent string) *resourcepb.Resource {
		r, err := exporter.ResourceFrom(context.Background(), c.detectors, append([]string{"service.name", agent}, facts...)...)
		if err != nil {
			reported.Do(func() { problem(err) })
		}
		return r
	})
}

// newUUID returns a random UUID.
func newUUID() string {
	id := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, rand.Uint64()), rand.Uint64())
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
