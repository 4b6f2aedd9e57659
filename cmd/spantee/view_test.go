package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
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
	return viewerRun{page: m[1], id: m[2], grpc: m[3], http: m[4]}
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

// goldenSpan is the line of a span in a golden trace.
var goldenSpan = regexp.MustCompile(`(?m) - +[0-9.]+  (internal|client) `)
