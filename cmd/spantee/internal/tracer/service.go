package tracer

import (
	"crypto/rand"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"

	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/agent"
)

// PerAgent returns a function that describes each agent once: the agent is the service. It
// may be called by several goroutines.
func PerAgent(describe func(agent string) *resourcepb.Resource) func(agent string) *resourcepb.Resource {
	var mu sync.Mutex // the end, which counts spans, does not wait for a mapper that hangs
	known := map[string]*resourcepb.Resource{}
	return func(agent string) *resourcepb.Resource {
		mu.Lock()
		defer mu.Unlock()
		if known[agent] == nil {
			known[agent] = describe(agent)
		}
		return known[agent]
	}
}

// NewProcess returns the process of an agent that a command line is to start.
func NewProcess(args ...string) *mapping.Process {
	p := &mapping.Process{Agent: agent.OfCommand(args), Executable: filepath.Base(args[0])}
	p.Resumes = p.Agent.Resumes(args)
	_, _ = rand.Read(p.Key[:]) // it never fails
	return p
}

const module = "github.com/spantee/spantee"

// Version returns the version of spantee's module in this program.
var Version = sync.OnceValue(func() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range append(info.Deps, &info.Main) {
			if m.Path == module && m.Version != "" {
				return m.Version
			}
		}
	}
	return "(devel)"
})

// UserAgent returns the user agent that is sent to receivers.
func UserAgent() string { return "spantee/" + strings.Trim(Version(), "()") }

// Scope returns the instrumentation scope of spantee's spans.
func Scope() *commonpb.InstrumentationScope {
	return &commonpb.InstrumentationScope{Name: module, Version: Version()}
}
