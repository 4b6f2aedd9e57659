package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/tree/treetest"
	"github.com/spantee/spantee/mapping/mappingtest"
)

// A jaeger is a real Jaeger, at the base URLs of its services.
type jaeger struct{ grpc, http, query string }

// startJaeger runs the binary that SPANTEE_JAEGER names until the test ends.
func startJaeger(t *testing.T) jaeger {
	t.Helper()
	binary := os.Getenv("SPANTEE_JAEGER")
	if binary == "" {
		t.Skip("needs SPANTEE_JAEGER=$(.ci/jaeger/build)")
	}
	names := []string{"JAEGER_OTLP_GRPC", "JAEGER_OTLP_HTTP", "JAEGER_QUERY", "JAEGER_HEALTH"}
	addresses := freeAddresses(t, len(names))
	urls := map[string]string{}
	env := os.Environ()
	for i, name := range names {
		_, port, _ := net.SplitHostPort(addresses[i])
		urls[name] = "http://" + addresses[i]
		env = append(env, name+"="+port)
	}
	cmd := exec.Command(binary, "--config", filepath.Join("..", "..", ".ci", "jaeger", "config.yaml"))
	cmd.Env, cmd.Stderr = env, t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	poll(func() bool {
		status, _ := get(t, urls["JAEGER_HEALTH"]+"/status")
		return status == http.StatusOK
	})
	return jaeger{grpc: urls["JAEGER_OTLP_GRPC"], http: urls["JAEGER_OTLP_HTTP"], query: urls["JAEGER_QUERY"]}
}

// poll asks until ok does or half a minute has passed. A server outside of the
// test has no other way to tell.
func poll(ok func() bool) {
	timeout := time.After(30 * time.Second)
	for !ok() {
		select {
		case <-timeout:
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// get returns status 0 if nobody answers.
func get(t *testing.T, url string) (status int, body []byte) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, body
}

// spans returns what Jaeger has of some traces.
func (j jaeger) spans(t *testing.T, traceIDs []string) (spans []*tracepb.Span) {
	t.Helper()
	for _, id := range traceIDs {
		if status, body := get(t, j.query+"/api/v3/traces/"+id); status == http.StatusOK {
			body = bytes.TrimPrefix(bytes.TrimSpace(body), []byte(`{"result":`))
			spans = append(spans, decodeJSON(t, bytes.TrimSuffix(body, []byte("}")))...)
		}
	}
	return spans
}

// sorted gives the events of each span one order: Jaeger keeps them in none.
func sorted(spans []*tracepb.Span) []*tracepb.Span {
	for _, span := range spans {
		slices.SortFunc(span.Events, func(a, b *tracepb.Span_Event) int {
			return cmp.Or(cmp.Compare(a.TimeUnixNano, b.TimeUnixNano), cmp.Compare(a.Name, b.Name), cmp.Compare(attributes(a), attributes(b)))
		})
	}
	return spans
}

func attributes(e *tracepb.Span_Event) string {
	texts := make([]string, 0, len(e.Attributes))
	for _, kv := range e.Attributes {
		texts = append(texts, fmt.Sprintf("%s=%10d%v", kv.Key, kv.Value.GetIntValue(), kv.Value.GetStringValue()))
	}
	slices.Sort(texts)
	return strings.Join(texts, " ")
}

// decodeJSON reads OTLP's JSON.
func decodeJSON(t *testing.T, b []byte) []*tracepb.Span {
	t.Helper()
	traces, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(b)
	if err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	wire, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(traces)
	if err != nil {
		t.Fatal(err)
	}
	var req coltracepb.ExportTraceServiceRequest
	if err := proto.Unmarshal(wire, &req); err != nil {
		t.Fatal(err)
	}
	var spans []*tracepb.Span
	for _, rs := range req.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			spans = append(spans, ss.Spans...)
		}
	}
	return spans
}

var summaryLine = regexp.MustCompile(`trace ([0-9a-f]{32}): `)

// TestJaeger sends every fixture to a real Jaeger, over gRPC and HTTP and over
// gRPC again, and reads back what the golden traces say: no span twice, no
// event lost, and no warning, which Jaeger would add as an attribute. Its critical
// path through them runs through all that took time.
func TestJaeger(t *testing.T) {
	j := startJaeger(t)
	fixtures, err := filepath.Glob("../../testdata/*/*.jsonl")
	if err != nil || len(fixtures) < 60 {
		t.Fatal(len(fixtures), "fixtures", err)
	}
	want := map[string]string{}
	for _, to := range []struct {
		name, protocol, endpoint string
		oneIn                    int
	}{
		{"gRPC", "grpc", j.grpc, 1}, {"HTTP", "http/protobuf", j.http, 3}, {"again", "grpc", j.grpc, 3},
	} {
		for i, file := range fixtures {
			if i%to.oneIn > 0 {
				continue
			}
			name := filepath.Base(filepath.Dir(file)) + "/" + filepath.Base(file)
			t.Run(to.name+" "+name, func(t *testing.T) {
				if want[file] == "" {
					want[file] = wanted(t, file)
				}
				cmd := spantee(t, []string{"OTEL_EXPORTER_OTLP_PROTOCOL=" + to.protocol, "OTEL_EXPORTER_OTLP_ENDPOINT=" + to.endpoint}, "--summary")
				cmd.Stdin = recordedRun(t, file)
				if err := cmd.Run(); err != nil {
					t.Fatalf("spantee: %v\n%s", err, &cmd.stderr)
				}
				var ids []string
				for _, m := range summaryLine.FindAllStringSubmatch(cmd.stderr.String(), -1) {
					ids = append(ids, m[1])
				}
				var spans []*tracepb.Span
				var got string
				poll(func() bool {
					spans = j.spans(t, ids)
					got = treetest.Golden(sorted(spans))
					return got == want[file]
				})
				if _, err := mappingtest.Covered(spans); err != nil {
					t.Errorf("Jaeger's critical path: %v", err)
				}
				if diff := gocmp.Diff(want[file], got); diff != "" {
					t.Errorf("trace in Jaeger (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// wanted returns the golden trace of a fixture, with its events sorted.
func wanted(t *testing.T, fixture string) string {
	t.Helper()
	golden, err := os.ReadFile(strings.TrimSuffix(fixture, ".jsonl") + ".trace")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(golden), "\n\n")
	file := filepath.Join(t.TempDir(), "spans")
	cmd := spantee(t, nil, "--to", file)
	cmd.Stdin = recordedRun(t, fixture)
	if err := cmd.Run(); err != nil {
		t.Fatalf("spantee --to: %v\n%s", err, &cmd.stderr)
	}
	written, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a stream that is no agent's makes no file
		t.Fatal(err)
	}
	var spans []*tracepb.Span
	for line := range bytes.Lines(written) {
		spans = append(spans, decodeJSON(t, line)...)
	}
	if diff := gocmp.Diff(text, treetest.Golden(spans)); diff != "" {
		t.Fatalf("trace in a file (-want +got):\n%s", diff)
	}
	return treetest.Golden(sorted(spans))
}

// recordedRun opens a fixture as it was when the golden traces were made: its
// time counts where its lines have none.
func recordedRun(t *testing.T, file string) *os.File {
	t.Helper()
	copied := filepath.Join(t.TempDir(), filepath.Base(file))
	in, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(copied, in, 0o600); err != nil {
		t.Fatal(err)
	}
	written := time.Date(2026, 10, 2, 12, 0, 0, 0, time.UTC)
	if err := os.Chtimes(copied, written, written); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(copied)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}
