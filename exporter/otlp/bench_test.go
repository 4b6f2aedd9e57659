//go:build unix

package otlp

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter"
)

// BenchmarkExport sends spans with 40 kB of events to a receiver in another
// process, and reports what a second of CPU moves in this one.
func BenchmarkExport(b *testing.B) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "OTLP_TEST_CHILD=sink")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer cmd.Wait()
	defer stdin.Close()
	endpoint, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	client, err := New(Config{Endpoint: strings.TrimSpace(endpoint)})
	if err != nil {
		b.Fatal(err)
	}

	span := &tracepb.Span{TraceId: []byte("0123456789abcdef"), SpanId: []byte("01234567"), Name: "chat GPT-5"}
	for proto.Size(span) < 40_000 {
		span.Events = append(span.Events, &tracepb.Span_Event{TimeUnixNano: 1, Name: "text.delta"})
	}
	wire := encode(span)
	b.SetBytes(int64(len(wire)))
	b.ReportAllocs()
	e := exporter.New(exporter.Config{Client: client, Patience: time.Minute})
	before := cpuTime(b)
	for b.Loop() {
		export(e, wire, nobody)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r := e.Close(ctx)
	if r.Dropped > 0 {
		b.Errorf("%+v", r)
	}
	b.ReportMetric(float64(r.Delivered*len(wire))/1e6/(cpuTime(b)-before).Seconds(), "MB/cpu-s")
}

// cpuTime is what this process has used, in all its threads.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
