package main

import (
	"runtime/debug"
	"strings"

	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
)

// versionLine is what --version prints after the program's name.
func versionLine() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return tracer.Version()
	}
	return tracer.Version() + " " + built(info)
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
