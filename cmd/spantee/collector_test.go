package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/receiver"
)

// collectorMain is a collector as a process of its own, which can be killed. It
// appends what it takes to a file before it answers, and says on stdout that it
// listens and then how many spans each request had.
func collectorMain() {
	mode, file, grpcAddr, httpAddr := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	out, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var mu sync.Mutex
	take := func(req *coltracepb.ExportTraceServiceRequest) error {
		b, err := proto.Marshal(req)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if _, err := out.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)); err != nil {
			return err
		}
		fmt.Println(len(spansOf(req)))
		return nil
	}
	_, err = receiver.Start(receiver.Config{
		GRPC: grpcAddr, HTTP: httpAddr,
		Handle: func(ctx context.Context, request []byte) (none receiver.Rejected, err error) {
			req := new(coltracepb.ExportTraceServiceRequest)
			if err := proto.Unmarshal(request, req); err != nil {
				return none, err
			}
			switch mode {
			case "hung":
				<-ctx.Done()
				return none, ctx.Err()
			case "slow":
				select {
				case <-time.After(200 * time.Millisecond):
				case <-ctx.Done():
					return none, ctx.Err()
				}
			case "unauthenticated":
				return none, status.Error(codes.Unauthenticated, "no token")
			case "picky": // as a server with a limit of 4 MiB, but for smaller ones
				if n := proto.Size(req); n > 4<<10 {
					return none, status.Errorf(codes.ResourceExhausted, "grpc: received message larger than max (%d vs. %d)", n, 4<<10)
				}
			}
			return none, take(req)
		},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("listening")
	select {}
}

func spansOf(req *coltracepb.ExportTraceServiceRequest) (spans []*tracepb.Span) {
	for _, rs := range req.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			spans = append(spans, ss.Spans...)
		}
	}
	return spans
}

// A collector is such a process, and its successors at the same addresses.
type collector struct {
	t          *testing.T
	file       string
	grpc, http string
	process    *exec.Cmd
	requests   *bufio.Scanner // a line for each
}

// newCollector finds addresses where nothing listens yet.
func newCollector(t *testing.T) *collector {
	t.Helper()
	addresses := freeAddresses(t, 2)
	return &collector{t: t, file: filepath.Join(t.TempDir(), "taken"), grpc: addresses[0], http: addresses[1]}
}

func (c *collector) start(mode string) {
	c.t.Helper()
	path, err := exec.LookPath("collector")
	if err != nil {
		c.t.Fatal(err)
	}
	c.process = exec.Command(path, mode, c.file, c.grpc, c.http)
	c.process.Stderr = os.Stderr
	out, err := c.process.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := c.process.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(c.kill)
	c.requests = bufio.NewScanner(out)
	if !c.requests.Scan() {
		c.t.Fatal("the collector did not start")
	}
}

// await returns when a request was taken.
func (c *collector) await() {
	c.t.Helper()
	if !c.requests.Scan() {
		c.t.Fatal("the collector took nothing")
	}
}

// kill is by SIGKILL.
func (c *collector) kill() {
	if c.process != nil {
		c.process.Process.Kill()
		c.process.Wait()
		c.process = nil
	}
}

// environment makes spantee send there.
func (c *collector) environment(protocol string) []string {
	endpoint := "http://" + c.grpc
	if protocol != "grpc" {
		endpoint = "http://" + c.http
	}
	return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL=" + protocol}
}

// taken returns the spans that arrived, by their ids, and how many came twice:
// the answer to a request may be lost, but then both have to be the same.
func (c *collector) taken() (spans map[string]*tracepb.Span, again int) {
	c.t.Helper()
	b, err := os.ReadFile(c.file)
	if err != nil && !os.IsNotExist(err) {
		c.t.Fatal(err)
	}
	spans = map[string]*tracepb.Span{}
	for r := bytes.NewReader(b); ; {
		var size uint32
		if binary.Read(r, binary.BigEndian, &size) != nil {
			return spans, again
		}
		body := make([]byte, size)
		if n, _ := r.Read(body); n < int(size) && size > 0 {
			return spans, again // killed while it wrote
		}
		req := new(coltracepb.ExportTraceServiceRequest)
		if err := proto.Unmarshal(body, req); err != nil {
			c.t.Fatal(err)
		}
		for _, span := range spansOf(req) {
			id := spanKey(span)
			if before := spans[id]; before != nil {
				again++
				if !proto.Equal(before, span) {
					c.t.Errorf("%s came twice, and not the same:\n%v\n%v", span.Name, before, span)
				}
			}
			spans[id] = span
		}
	}
}

func spanKey(span *tracepb.Span) string { return fmt.Sprintf("%x-%x", span.TraceId, span.SpanId) }
