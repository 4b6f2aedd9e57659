package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"

	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/content"
)

// services are the resources of agents by their names: the agent is the service.
type services struct {
	detectors []string // detectors of the shared attributes
	facts     []string // the shared attributes: alternating keys and values

	mu   sync.Mutex // the end, which counts spans, does not wait for a mapper that hangs
	list map[string]*resourcepb.Resource
}

// services returns the resources of a stream's spans and metrics. A recording has
// no instance id, because sending it again must produce the same bytes.
func (c *config) services(live bool, process *mapping.Process) *services {
	var facts []string
	if live {
		facts = append(facts, "service.instance.id", newUUID())
	}
	if process != nil {
		facts = append(facts, "process.executable.name", process.Executable, "process.parent_pid", fmt.Sprint(os.Getpid()))
	}
	return &services{detectors: c.detectors, facts: facts}
}

// of returns the resource of an agent. An error in the environment is the same for
// all agents.
func (s *services) of(name string) (*resourcepb.Resource, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.list[name]; r != nil {
		return r, nil
	}
	r, err := exporter.ResourceFrom(context.Background(), s.detectors, append([]string{"service.name", name}, s.facts...)...)
	if s.list == nil {
		s.list = map[string]*resourcepb.Resource{}
	}
	s.list[name] = r
	return r, err
}

// known returns the resource of an agent. Its error was reported for the first agent.
func (s *services) known(name string) *resourcepb.Resource {
	r, _ := s.of(name)
	return r
}

// presumed returns the name of the stream's agent to use while the agent is
// unknown.
func presumed(flag string) string {
	if a := agent.Find(flag); a != nil {
		return a.Name
	}
	return agent.Agents[0].Name
}

// detectors returns the names of the resource detectors to run. The repository of the
// working directory counts as content.
func detectors(level content.Level) []string {
	return slices.DeleteFunc(exporter.DetectorNames(), func(name string) bool { return name == "vcs" && level == content.None })
}

// newUUID returns a random UUID.
func newUUID() string {
	id := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, rand.Uint64()), rand.Uint64())
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
