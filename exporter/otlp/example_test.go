package otlp_test

import (
	"context"
	"fmt"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/otlp"
	"github.com/spantee/spantee/exporter/receiver"
	"github.com/spantee/spantee/exporter/spool"
)

func Example() {
	// Any collector would do. This one accepts everything.
	collector, err := receiver.Start(receiver.Config{
		Handle: func(_ context.Context, request []byte) (none receiver.Rejected, err error) {
			var data tracepb.TracesData
			if err := proto.Unmarshal(request, &data); err != nil {
				return none, err
			}
			for _, span := range data.ResourceSpans[0].ScopeSpans[0].Spans {
				fmt.Println("received", span.Name)
			}
			return none, nil
		},
	})
	if err != nil {
		panic(err)
	}
	defer collector.Close()

	client, err := otlp.New(otlp.Config{Endpoint: collector.GRPCEndpoint(), UserAgent: "example/1.0"})
	if err != nil {
		panic(err)
	}
	e := exporter.New(exporter.Config{Client: client})
	span, err := proto.Marshal(&tracepb.Span{Name: "invoke_agent cursor-agent"})
	if err != nil {
		panic(err)
	}
	_ = e.Export([]*spool.Span{spool.NewSpan(span, new(spool.Origin))}, nil)

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	report := e.Close(ctx)
	fmt.Println(report.Delivered, "of", report.Ended, "delivered")
	// Output:
	// received invoke_agent cursor-agent
	// 1 of 1 delivered
}
