package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

// A collector is a process of its own: inside this process, it would hold up the
// goroutines that write to a command and read from it.
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

// collect is what the collector's process does, until its stdin ends: it prints its
// endpoint, and for each line of stdin how many spans it has received. It only counts
// them, as if it were on another machine.
func collect() {
	var received atomic.Int64
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	server := grpc.NewServer(grpc.ForceServerCodecV2(encoded{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(stream)
		if !strings.HasPrefix(method, "/opentelemetry.proto.collector.") {
			return status.Error(codes.Unimplemented, method)
		}
		var request []byte
		if err := stream.RecvMsg(&request); err != nil {
			return err
		}
		if strings.Contains(method, "TraceService") {
			received.Add(countFields(request, 1, 2, 2)) // resource_spans, scope_spans, spans
		}
		return stream.SendMsg(nil)
	}))
	go server.Serve(listener)
	fmt.Println("http://" + listener.Addr().String())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Println(received.Load())
	}
}

// encoded leaves requests as they are, and encodes responses, which are all empty.
type encoded struct{}

func (encoded) Name() string                         { return "proto" }
func (encoded) Marshal(any) (mem.BufferSlice, error) { return nil, nil }

func (encoded) Unmarshal(b mem.BufferSlice, v any) error {
	*v.(*[]byte) = b.Materialize()
	return nil
}

// countFields counts the fields at a path of field numbers in a message.
func countFields(message []byte, path ...protowire.Number) (n int64) {
	if len(path) == 0 {
		return 1
	}
	for len(message) > 0 {
		number, kind, tag := protowire.ConsumeTag(message)
		size := protowire.ConsumeFieldValue(number, kind, message[tag:])
		if number == path[0] {
			field, _ := protowire.ConsumeBytes(message[tag:])
			n += countFields(field, path[1:]...)
		}
		message = message[tag+size:]
	}
	return n
}
