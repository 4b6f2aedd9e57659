package main

import (
	"runtime/debug"
	"strings"
	"sync"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
)

// versionLine is what --version prints after the program's name.
func versionLine() string {
	info, ok := buildInfo()
	if !ok {
		return version()
	}
	return version() + " " + built(info)
}

// built returns the commit and the Go release a binary was built from. A binary
// that "go install" built does not know its commit, because the module proxy serves
// no repository.
func built(info *debug.BuildInfo) string {
	var facts []string
	modified := false
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			facts = append(facts, "commit "+setting.Value)
		case "vcs.modified":
			modified = setting.Value == "true"
		}
	}
	if modified {
		facts = append(facts, "modified")
	}
	return "(" + strings.Join(append(facts, info.GoVersion), ", ") + ")"
}

// version returns the version of the module the binary was built from.
func version() string {
	if info, ok := buildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// buildInfo parses the build information once: several parts of a run need it.
var buildInfo = sync.OnceValues(debug.ReadBuildInfo)

// scope returns the instrumentation scope of spantee's spans.
func scope() *commonpb.InstrumentationScope {
	return &commonpb.InstrumentationScope{Name: "github.com/spantee/spantee", Version: version()}
}
