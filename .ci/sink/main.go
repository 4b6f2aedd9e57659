package main

import (
	"context"
	"fmt"
	"os"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"

	"github.com/spantee/spantee/exporter/receiver"
)

func main() {
	r, err := receiver.Start(receiver.Config{GRPC: "127.0.0.1:24317", HTTP: "127.0.0.1:24318", Handle: func(_ context.Context, req *coltracepb.ExportTraceServiceRequest) (*coltracepb.ExportTraceServiceResponse, error) {
		return nil, nil
	}})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	_ = r
	select {}
}
