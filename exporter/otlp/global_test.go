package otlp

import (
	"errors"
	"log"
	"os"
	"testing"

	"go.opentelemetry.io/otel"
)

var stderr = os.Stderr // before go test -json makes it stdout

// A program that imports this package keeps its own loggers and error handlers.
func TestNothingGlobalIsChanged(t *testing.T) {
	if log.Writer() != stderr {
		t.Error("the standard logger writes elsewhere")
	}
	var handled error
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { handled = err }))
	newClient(t, Config{})
	want := errors.New("an error")
	if otel.Handle(want); !errors.Is(handled, want) {
		t.Error("OpenTelemetry's error handler was replaced")
	}
}
