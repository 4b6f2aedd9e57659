package main

import (
	"runtime/debug"
	"strings"
)

// versionLine is what --version prints after the program's name.
func versionLine() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version()
	}
	return version() + " " + built(info)
}

// built says from which commit and by which Go release. A binary that
// "go install" built knows no commit: the module proxy serves no repository.
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
