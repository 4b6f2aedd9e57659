package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync/atomic"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/exporter/receiver"
)

// A collector is a process of its own, as everywhere: inside this process, it would
// hold up the goroutines that write to a command and read from it.
type collector struct {
	endpoint string
	ask      io.Writer
	answers  *bufio.Scanner
}

func startCollector() *collector {
	own, err := os.Executable()
	check(err)
	cmd := exec.Command(own, "-collector")
	cmd.Stderr = os.Stderr
	ask, err := cmd.StdinPipe()
	check(err)
	out, err := cmd.StdoutPipe()
	check(err)
	check(cmd.Start())
	c := &collector{ask: ask, answers: bufio.NewScanner(out)}
	c.answer(&c.endpoint)
	return c
}

// received returns how many spans the collector has received.
func (c *collector) received() (n int64) {
	_, err := fmt.Fprintln(c.ask)
	check(err)
	c.answer(&n)
	return n
}

func (c *collector) answer(to any) {
	c.answers.Scan()
	_, err := fmt.Sscan(c.answers.Text(), to)
	check(err)
}

// collect is what the collector's process does, until its stdin ends. It prints its
// endpoint, and for each line of stdin how many spans it has received.
func collect() {
	var received atomic.Int64
	r, err := receiver.Start(receiver.Config{GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0",
		Handle: func(_ context.Context, spans []*tracepb.ResourceSpans) (receiver.Rejected, error) {
			for _, rs := range spans {
				for _, ss := range rs.ScopeSpans {
					received.Add(int64(len(ss.Spans)))
				}
			}
			return receiver.Rejected{}, nil
		}})
	check(err)
	defer r.Close()
	fmt.Println(r.GRPCEndpoint())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Println(received.Load())
	}
}
