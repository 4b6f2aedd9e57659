package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spantee/spantee/exporter/viewer"
)

// A viewerRun is a `spantee view`, or a `spantee --view`, in a process of its own.
type viewerRun struct {
	page, grpc, http string // base URLs
	id               string // of the trace that the page's address names
	cmd              *run
	stderr           *bufio.Reader // after its first line
}

var viewing = regexp.MustCompile(`at (http://[0-9.:]+)/(?:#/trace/([0-9a-f]+))?(?:#/latest)?(?:, taking them at (http\S+) \(gRPC\) and (http\S+) \(HTTP\))?`)

// startView runs it on free ports until the test ends.
func startView(t *testing.T, stdin io.Reader, args ...string) viewerRun {
	t.Helper()
	cmd := spantee(t, nil, append(args, "--no-open", "--listen", "127.0.0.1:0")...)
	cmd.Stdin, cmd.Stderr = stdin, nil
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewReader(stderr)
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	line, err := said.ReadString('\n')
	m := viewing.FindStringSubmatch(line)
	if m == nil {
		rest, _ := io.ReadAll(said)
		t.Fatalf("%v: %s%s", err, line, rest)
	}
	return viewerRun{page: m[1], id: m[2], grpc: m[3], http: m[4], cmd: cmd, stderr: said}
}

// freePorts are for view; --view listens for no spans.
var freePorts = []string{"--otlp-grpc", "127.0.0.1:0", "--otlp-http", "127.0.0.1:0"}

func viewFiles(t *testing.T, files ...string) viewerRun {
	t.Helper()
	return startView(t, nil, append(append([]string{"view"}, freePorts...), files...)...)
}

func getJSON[T any](t *testing.T, url string) (v T) {
	t.Helper()
	status, body := get(t, url)
	if status != http.StatusOK {
		t.Fatalf("%s: %d %s", url, status, body)
	}
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func (r viewerRun) list(t *testing.T) viewer.List {
	return getJSON[viewer.List](t, r.page+"/api/sessions")
}

func (r viewerRun) session(t *testing.T, id string) viewer.Overview {
	return getJSON[viewer.Overview](t, r.page+"/api/sessions/"+id)
}

// Every fixture is shown as its golden trace has it: as many spans.
func TestViewFiles(t *testing.T) {
	files, err := filepath.Glob("../../testdata/cursor/*.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	l := viewFiles(t, files...).list(t)
	var spans int
	for _, s := range l.Sessions {
		spans += s.Spans
	}
	var want int
	for _, file := range files {
		golden, err := os.ReadFile(strings.TrimSuffix(file, ".jsonl") + ".trace")
		if err != nil {
			t.Fatal(err)
		}
		want += len(goldenSpan.FindAll(golden, -1))
	}
	if len(l.Sessions) < len(files) || spans != want {
		t.Errorf("%d sessions of %d files, %d spans, want %d", len(l.Sessions), len(files), spans, want)
	}
}

// Streams and OTLP JSON lines, packed or not, are told apart by looking.
func TestViewKindsOfFiles(t *testing.T) {
	lines := bigSession(100).file(t)
	pack := func(name string, content []byte) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	b, err := os.ReadFile(lines)
	if err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]string{
		"stream": "../../testdata/cursor/killed.jsonl", "stream.gz": pack("stream.gz", fixture(t, "killed.jsonl")),
		"lines": lines, "lines.gz": pack("lines.gz", b),
	} {
		v := viewFiles(t, file)
		if l := v.list(t); len(l.Sessions) != 1 || l.Sessions[0].ID != v.id || l.Sessions[0].Spans < 3 {
			t.Errorf("%s: %+v, and the address names %s", name, l.Sessions, v.id)
		}
	}
}

// telemetrygen's spans show up, without a loss.
func TestViewTelemetrygen(t *testing.T) {
	binary := os.Getenv("SPANTEE_GENERATOR")
	if binary == "" {
		t.Skip("needs SPANTEE_GENERATOR, the binary of github.com/open-telemetry/opentelemetry-collector-contrib/cmd/telemetrygen")
	}
	v := viewFiles(t)
	want := 0
	for _, to := range [][]string{{"--otlp-endpoint", v.grpc[len("http://"):]}, {"--otlp-http", "--otlp-endpoint", v.http[len("http://"):]}} {
		cmd := exec.Command(binary, append([]string{"traces", "--otlp-insecure", "--traces", "25000", "--child-spans", "9", "--rate", "0"}, to...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		want += 25_000
	}
	l := v.list(t)
	if l.Total != want || l.Lost.Traces > 0 || l.Bytes > l.Limit {
		t.Errorf("%d traces of %d: %+v", l.Total, want, l.Lost)
	}
	if s := l.Sessions[0]; s.Service != "telemetrygen" || s.Spans != 10 || !s.Ended {
		t.Errorf("%+v", s)
	}
	t.Logf("%d spans in %d bytes of traces, %s", 10*want, l.Bytes, memory(v.cmd.Process.Pid))
}

// memory is the most a process took, where the system tells.
func memory(pid int) string {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		if most, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			return strings.TrimSpace(most) + " of memory"
		}
	}
	return "memory unknown"
}

// goldenSpan is the line of a span in a golden trace.
var goldenSpan = regexp.MustCompile(`(?m) - +[0-9.]+  (internal|client) `)
