package spantee_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"time"

	spantee "github.com/spantee/spantee/cmd/spantee/lib"
)

// An agent is run as a process: its output goes to stdout, and its trace to a collector.
func Example() {
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer collector.Close()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	exporter, err := spantee.NewExporter(spantee.ExporterOptions{Endpoint: collector.URL, Protocol: "http/protobuf"})
	if err != nil {
		panic(err)
	}
	defer exporter.Close(ctx)

	cmd := exec.CommandContext(ctx, "cat", "../../../testdata/cursor/parallel-tools.jsonl") // stands for an agent
	t, err := spantee.New(ctx, spantee.Options{Exporter: exporter, Command: cmd.Path})
	if err != nil {
		panic(err)
	}
	cmd.Env = append(os.Environ(), t.Environ()...)
	var output bytes.Buffer
	cmd.Stdout = t.Tee(&output)
	failed := cmd.Run()
	t.Exited(cmd.ProcessState)
	receipt, err := t.Close(ctx)
	fmt.Println(receipt.Runs[0].Agent, "exited with", receipt.ExitStatus, failed)
	fmt.Println(receipt.Tools, "tools,", receipt.Delivered, "of", receipt.Spans, "spans delivered", err)
	// Output:
	// cursor-agent exited with 0 <nil>
	// 2 tools, 5 of 5 spans delivered <nil>
}
