package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra/doc"

	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
)

// markdown makes a command's description what cobra takes it for: examples are indented by
// four columns, and the name of a group of variables has no emphasis.
var markdown = strings.NewReplacer("\n  ", "\n    ", "_*", `\_\*`)

// init writes a manual page for each command into $SPANTEE_MANUAL, and exits.
func init() {
	cmd := rootCommand()
	cmd.DisableAutoGenTag = true
	for _, c := range append(cmd.Commands(), cmd) {
		c.Long = markdown.Replace(c.Long)
	}
	header := &doc.GenManHeader{Section: "1", Source: "spantee " + tracer.Version(), Manual: "spantee"}
	if err := doc.GenManTree(cmd, header, os.Getenv("SPANTEE_MANUAL")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
