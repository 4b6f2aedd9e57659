package viewer

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/otlp"
)

// Received spans are there after a restart, even if the file's last line was cut short,
// and so are spans received after that.
func TestFileIsReadBack(t *testing.T) {
	file := filepath.Join(t.TempDir(), "traces.jsonl")
	send := func(v *Viewer, n int) {
		t.Helper()
		client, err := otlp.New(otlp.Config{Endpoint: v.GRPCEndpoint(), Protocol: "grpc"})
		if err != nil {
			t.Fatal(err)
		}
		if err := client.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer client.Stop(context.Background())
		spans := from("a", span(n, 1, 0, "invoke_agent x", uint64(n), uint64(n)+1))
		request, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
		if err != nil {
			t.Fatal(err)
		}
		if err := client.UploadTraces(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	run := func(problems int, n int) (sessions int) {
		t.Helper()
		var told []error
		v, err := Start(Config{
			Page: "127.0.0.1:0", GRPC: "127.0.0.1:0", MaxMemory: 1e6, File: file,
			Problem: func(err error) { told = append(told, err) },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		if len(told) != problems {
			t.Errorf("problems: %v", told)
		}
		send(v, n)
		return v.Store.List(Query{Limit: 10}).Total
	}
	if got := run(0, 1); got != 1 {
		t.Errorf("%d sessions", got)
	}
	if got := run(0, 2); got != 2 {
		t.Errorf("%d sessions", got)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append([]byte("\ufeff"), b...), 0); err != nil { // as some editors do
		t.Fatal(err)
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString(`{"resourceSpans":[{"sco`)
	f.Close()
	if got := run(1, 3); got != 3 {
		t.Errorf("%d sessions", got)
	}
	if got := run(1, 4); got != 4 {
		t.Errorf("%d sessions", got)
	}
}
