package mapping_test

import (
	"fmt"
	"os"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/mapping"
)

// A recorded stream becomes spans.
func Example() {
	mapper, err := mapping.New(mapping.Options{
		Source: mapping.Recording, Written: time.Date(2026, 10, 2, 12, 0, 0, 0, time.UTC), // when the recording was written
	})
	if err != nil {
		panic(err)
	}
	stream, err := os.Open("../testdata/cursor/no-partial-output.jsonl")
	if err != nil {
		panic(err)
	}
	defer stream.Close()
	for out, err := range mapper.Read(stream) {
		if err != nil {
			panic(err)
		}
		var span tracepb.Span
		if err := proto.Unmarshal(out.Span, &span); err == nil && out.Span != nil {
			fmt.Println(span.Name)
		}
	}
	fmt.Println(mapper.Stats().Runs, "run")
	// Output:
	// execute_tool read
	// chat Composer 2.5
	// execute_tool edit
	// execute_tool shell go
	// chat Composer 2.5
	// chat Composer 2.5
	// invoke_agent cursor-agent
	// 1 run
}
