package main

import (
	"strings"
	"testing"

	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/agent"
)

// The drift line says up to which build spantee was checked, if the agent's is newer.
func TestDriftOfNewerBuild(t *testing.T) {
	const name = "claude-code"
	checked := agent.CheckedUpTo(name)
	if checked == "" {
		t.Fatalf("no build of %s was checked", name)
	}
	for version, want := range map[string]string{
		checked + ".1": " of claude-code " + checked + ".1 are of types that spantee (devel) does not know (a, b); it was checked up to " + checked,
		checked:        " of claude-code " + checked + " are of types that spantee (devel) does not know (a, b)",
		"0.1":          " of claude-code 0.1 are of types that spantee (devel) does not know (a, b)",
		"":             " of claude-code are of types that spantee (devel) does not know (a, b)",
	} {
		got := drift([]mapping.UnknownType{{Agent: name, Version: version, Type: "a", Lines: 1}, {Agent: name, Version: version, Type: "b", Lines: 2}})
		if !strings.HasSuffix(got, want) || !strings.HasPrefix(got, "3 lines") {
			t.Errorf("%q, want %q", got, "3 lines"+want)
		}
	}
}
