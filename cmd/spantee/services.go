package main

import (
	"context"

	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/mapping/agent"
)

// services are the resources of agents by their names: the agent is the service.
type services map[string]*resourcepb.Resource

// of returns the resource of an agent. What is wrong with the environment is the
// same for all of them.
func (s services) of(name string) (*resourcepb.Resource, error) {
	if r := s[name]; r != nil {
		return r, nil
	}
	r, err := exporter.Resource(context.Background(), name, "")
	s[name] = r
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
