package main

import (
	"runtime/debug"
	"testing"
)

func TestBuilt(t *testing.T) {
	setting := func(key, value string) debug.BuildSetting { return debug.BuildSetting{Key: key, Value: value} }
	for _, test := range []struct {
		name     string
		settings []debug.BuildSetting
		want     string
	}{
		{"installed", nil, "(go1.26.8)"},
		{"released", []debug.BuildSetting{setting("vcs.revision", "0123abc"), setting("vcs.modified", "false")}, "(commit 0123abc, go1.26.8)"},
		{"with changes", []debug.BuildSetting{setting("vcs.revision", "0123abc"), setting("vcs.modified", "true")}, "(commit 0123abc, modified, go1.26.8)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := built(&debug.BuildInfo{GoVersion: "go1.26.8", Settings: test.settings}); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
