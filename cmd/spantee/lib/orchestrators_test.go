package spantee_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/trace"

	spantee "github.com/spantee/spantee/cmd/spantee/lib"
	"github.com/spantee/spantee/exporter/receiver/receivertest"
)

// agent is a command that stands for an agent.
func agent(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "cat", append(args, "../../../testdata/cursor/parallel-tools.jsonl")...)
}

// A queue worker runs one agent after another. Each run is part of the trace of its job.
func TestQueueWorker(t *testing.T) {
	r := receivertest.Start(t)
	e := newExporter(t, spantee.ExporterOptions{Endpoint: r.GRPCEndpoint()})
	work := func(ctx context.Context, cmd *exec.Cmd) (*spantee.Receipt, error) {
		t, err := spantee.New(ctx, spantee.Options{Exporter: e, Command: cmd.Path})
		if err != nil {
			return nil, err
		}
		cmd.Env = append(cmd.Environ(), t.Environ()...)
		cmd.Stdout = t
		failed := cmd.Run()
		t.Exited(cmd.ProcessState)
		receipt, err := t.Close(ctx)
		return receipt, errors.Join(failed, err)
	}
	jobs := make(chan trace.SpanContext, 5)
	for i := range cap(jobs) {
		jobs <- trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{byte(i + 1)}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled})
	}
	close(jobs)
	for job := range jobs {
		receipt, err := work(trace.ContextWithSpanContext(t.Context(), job), agent(t.Context()))
		if err != nil || !receipt.Succeeded || receipt.Runs[0].TraceID != job.TraceID().String() {
			t.Errorf("%v, %+v", err, receipt)
		}
	}
	receipt, err := work(t.Context(), agent(t.Context(), "/nonexistent"))
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || receipt.Succeeded || receipt.ExitStatus != exit.ExitCode() {
		t.Errorf("%v, %+v", err, receipt)
	}
}

// An HTTP handler streams an agent's output to a browser. If the browser goes, so does the
// agent, and its trace ends interrupted.
func TestHTTPHandler(t *testing.T) {
	r := receivertest.Start(t)
	e := newExporter(t, spantee.ExporterOptions{Endpoint: r.GRPCEndpoint()})
	receipts := make(chan *spantee.Receipt, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		tr, err := spantee.New(req.Context(), spantee.Options{Exporter: e, Command: "agent"})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		cmd := agent(req.Context())
		if req.URL.Query().Has("endless") {
			cmd = exec.CommandContext(req.Context(), "yes", `{"type":"system","subtype":"init","model":"GPT-5","session_id":"s"}`)
		}
		cmd.Stdout = tr.Tee(flushed{w})
		_ = cmd.Run()
		tr.Exited(cmd.ProcessState)
		receipt, err := tr.Close(context.WithoutCancel(req.Context())) // the browser may be gone
		if err != nil {
			t.Error(err)
		}
		receipts <- receipt
	}))
	defer server.Close()
	defer server.Client().CloseIdleConnections()

	response, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	response.Body.Close()
	if receipt := <-receipts; err != nil || string(body) != string(fixture(t)) || !receipt.Succeeded {
		t.Errorf("%v, %d bytes, %+v", err, len(body), receipt)
	}

	response, err = server.Client().Get(server.URL + "?endless")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(response.Body, make([]byte, 100)); err != nil {
		t.Error(err)
	}
	response.Body.Close()
	if receipt := <-receipts; receipt.Succeeded || receipt.ExitStatus == 0 || receipt.Delivered != receipt.Spans || receipt.Spans == 0 {
		t.Errorf("%+v", receipt)
	}
}

type flushed struct{ http.ResponseWriter }

func (f flushed) Write(p []byte) (int, error) {
	n, err := f.ResponseWriter.Write(p)
	f.ResponseWriter.(http.Flusher).Flush()
	return n, err
}

// A supervisor runs 50 agents at once, and ends those that use too many tools.
func TestSupervisor(t *testing.T) {
	r := receivertest.Start(t)
	e := newExporter(t, spantee.ExporterOptions{Endpoint: r.GRPCEndpoint()})
	var all sync.WaitGroup
	var mu sync.Mutex
	ended, total := 0, 0
	for i := range 50 {
		all.Go(func() {
			ctx, kill := context.WithCancel(t.Context())
			defer kill()
			tr, err := spantee.New(ctx, spantee.Options{Exporter: e, Command: "agent"})
			if err != nil {
				t.Error(err)
				return
			}
			cmd := agent(ctx)
			if i%2 == 0 { // does not end by itself
				cmd = agent(ctx, "-")
				cmd.Args[1], cmd.Args[2] = cmd.Args[2], cmd.Args[1]
				stdin, err := cmd.StdinPipe()
				if err != nil {
					t.Error(err)
				}
				defer stdin.Close()
			}
			cmd.Stdout = supervised{tr, func() { kill() }}
			_ = cmd.Run()
			tr.Exited(cmd.ProcessState)
			receipt, err := tr.Close(t.Context())
			if err != nil || receipt.Tools == 0 {
				t.Errorf("%v, %+v", err, receipt)
			}
			mu.Lock()
			defer mu.Unlock()
			total += receipt.Delivered
			if receipt.ExitStatus != 0 {
				ended++
			}
		})
	}
	all.Wait()
	if ended < 25 || len(r.Spans()) != total {
		t.Errorf("%d agents were ended, %d spans arrived, %d delivered", ended, len(r.Spans()), total)
	}
}

// supervised is the output of an agent that may call one tool only.
type supervised struct {
	*spantee.Tracer
	kill func()
}

func (s supervised) Write(p []byte) (int, error) {
	n, err := s.Tracer.Write(p)
	if s.Receipt().Tools > 1 {
		s.kill()
	}
	return n, err
}
