package spantee

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/exporter/spool"
	"github.com/spantee/spantee/mapping"
)

func bug(*tracer.Span) { panic("boom") }

const lines = `{"type":"system","subtype":"init","model":"GPT-5","session_id":"s"}
{"type":"result","subtype":"success","is_error":false,"duration_ms":500,"session_id":"s"}
`

func TestABugStopsOnlyTracing(t *testing.T) {
	tr, err := New(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := new(Exporter)
	tr.stream, err = tracer.New(tracer.Config{Mapping: mapping.Options{Agent: "cursor"}, Resources: e.resource, Consumers: []tracer.Consumer{tracer.Func(bug)}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if n, err := tr.Write([]byte(lines)); n != len(lines) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	receipt, err := tr.Close(t.Context())
	if stopped, ok := errors.AsType[*StoppedError](err); !ok || stopped.Panic != "boom" || receipt.Complete || receipt.Succeeded {
		t.Errorf("%v, %+v", err, receipt)
	}
}

// What a killed process would lose is in the spool folder.
func TestOpenSpansAreSaved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	e, err := NewExporter(ExporterOptions{Endpoint: "http://127.0.0.1:1", SpoolDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(t.Context())
	tr, err := New(t.Context(), Options{Exporter: e, Command: "agent"})
	if err != nil {
		t.Fatal(err)
	}
	tr.saveOpen()
	for kept := 0; kept == 0; {
		entries, err := spool.Spool{Dir: dir}.List()
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			kept += entry.Spans
		}
	}
	if env := tr.Environ(); len(env) != 1 {
		t.Errorf("environment %q", env)
	}
	if receipt, err := tr.Close(t.Context()); err == nil || receipt.Spooled != 1 {
		t.Errorf("%v, %+v", err, receipt)
	}
}
