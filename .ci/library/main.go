// Library traces an agent from a module of its own: library AGENT [ARGUMENT...].
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"

	spantee "github.com/spantee/spantee/cmd/spantee/lib"
)

func main() {
	ctx := context.Background()
	exporter, err := spantee.NewExporter(spantee.ExporterOptions{Environment: true})
	if err != nil {
		log.Fatal(err)
	}
	t, err := spantee.New(ctx, spantee.Options{Exporter: exporter, Command: os.Args[1]})
	if err != nil {
		log.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, os.Args[1], os.Args[2:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), t.Environ()...), t.Tee(os.Stdout), os.Stderr
	failed := cmd.Run()
	t.Exited(cmd.ProcessState)
	receipt, err := t.Close(ctx)
	fmt.Fprintln(os.Stderr, receipt.Tools, "tools,", receipt.Delivered, "of", receipt.Spans, "spans delivered", failed, err)
	if failed != nil || exporter.Close(ctx) != nil {
		os.Exit(1)
	}
}
