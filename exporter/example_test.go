package exporter_test

import (
	"context"
	"fmt"
	"time"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/spool"
)

// A printer is a Client that accepts spans once it is ready.
type printer struct{ ready bool }

func (p *printer) Stop(context.Context) error { return nil }

func (p *printer) Destination() spool.Destination {
	return spool.Destination{Protocol: "printer", Endpoint: "stdout"}
}

func (p *printer) UploadTraces(_ context.Context, request []byte) error {
	if !p.ready {
		p.ready = true
		return &exporter.UploadError{
			Verdict:    exporter.Retryable,
			Err:        fmt.Errorf("not ready"),
			RetryAfter: 10 * time.Millisecond,
		}
	}
	data := new(coltracepb.ExportTraceServiceRequest)
	if err := proto.Unmarshal(request, data); err != nil {
		return err
	}
	for _, span := range data.ResourceSpans[0].ScopeSpans[0].Spans {
		fmt.Println(span.Name)
	}
	return nil
}

func Example() {
	e := exporter.New(exporter.Config{Client: new(printer)})
	for _, name := range []string{"chat GPT-5", "invoke_agent cursor-agent"} {
		span, err := proto.Marshal(&tracepb.Span{Name: name})
		if err != nil {
			panic(err)
		}
		_ = e.Export([]*spool.Span{spool.NewSpan(span, new(spool.Origin))}, nil)
	}

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	report := e.Close(ctx)
	fmt.Println(report.Delivered, "of", report.Ended, "delivered")
	// Output:
	// chat GPT-5
	// invoke_agent cursor-agent
	// 2 of 2 delivered
}
