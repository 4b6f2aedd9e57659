package main

import (
	"context"

	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/mapping/agent"
)

// services are the resources of agents by their names: the agent is the service.
type services struct {
	detectors []string // of what is the same for all of them
	facts     []string // the same: keys, each with its value
	known     map[string]*resourcepb.Resource
}

// of returns the resource of an agent. What is wrong with the environment is the
// same for all of them.
func (s *services) of(name string) (*resourcepb.Resource, error) {
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

// presumed is the name of the agent that a stream comes from as long as none is
// known.
func presumed(flag string) string {
	if a := agent.Find(flag); a != nil {
		return a.Name
	}
	return agent.Agents[0].Name
}
