package main

import (
	"context"
	"sync"

	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/mapping/agent"
)

// services are the resources of agents by their names: the agent is the service.
type services struct {
	detectors []string // detectors of the shared attributes
	facts     []string // the shared attributes: alternating keys and values

	mu    sync.Mutex // the end, which counts spans, does not wait for a mapper that hangs
	known map[string]*resourcepb.Resource
}

// of returns the resource of an agent. An error in the environment is the same for
// all agents.
func (s *services) of(name string) (*resourcepb.Resource, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.known[name]; r != nil {
		return r, nil
	}
	r, err := exporter.ResourceFrom(context.Background(), s.detectors, append([]string{"service.name", name}, s.facts...)...)
	if s.known == nil {
		s.known = map[string]*resourcepb.Resource{}
	}
	s.known[name] = r
	return r, err
}

// presumed returns the name of the stream's agent to use while the agent is
// unknown.
func presumed(flag string) string {
	if a := agent.Find(flag); a != nil {
		return a.Name
	}
	return agent.Agents[0].Name
}
