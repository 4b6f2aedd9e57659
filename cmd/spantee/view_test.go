package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spantee/spantee/exporter/otlp"
	"github.com/spantee/spantee/exporter/receiver/receivertest"
	"github.com/spantee/spantee/exporter/viewer"
)

// A viewerRun is a `spantee view`, or a `spantee --view`, in a process of its own.
type viewerRun struct {
	page, grpc, http string // base URLs
	id               string // of the trace that the page's address names
	cmd              *run
	stderr           *bufio.Reader // after its first line
}

var viewing = regexp.MustCompile(`at (http://[0-9.:]+)/(?:#/trace/([0-9a-f]+))?(?:#/latest)?(?: until Ctrl-C; receiving OTLP at (http\S+) \(gRPC\) and (http\S+) \(HTTP\))?`)

// startView runs it on free ports until the test ends.
func startView(t *testing.T, stdin *os.File, args ...string) viewerRun {
	t.Helper()
	if args[0] == "view" { // --view takes a free port if it has to
		args = append(args, "--listen", "127.0.0.1:0")
	}
	return launch(t, stdin, spantee(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT="}, args...))
}

// startViewIn runs it with a state directory.
func startViewIn(t *testing.T, state string, args ...string) viewerRun {
	t.Helper()
	return launch(t, nil, spantee(t, []string{"XDG_STATE_HOME=" + state}, args...))
}

func launch(t *testing.T, stdin *os.File, cmd *run) viewerRun {
	t.Helper()
	cmd.Args = slices.Insert(cmd.Args, 2, "--no-open")
	cmd.Stderr = nil
	if stdin != nil {
		cmd.Stdin = stdin
	}
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
	var m []string
	for before := ""; m == nil; { // files that are skipped are named first
		line, err := said.ReadString('\n')
		m = viewing.FindStringSubmatch(line)
		if before += line; err != nil {
			t.Fatalf("%v: %s", err, before)
		}
	}
	return viewerRun{page: m[1], id: m[2], grpc: m[3], http: m[4], cmd: cmd, stderr: said}
}

// kill ends it as a crash does.
func (r viewerRun) kill(t *testing.T) {
	t.Helper()
	if err := r.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = r.cmd.Wait() // it was killed
}

// freeAddresses are host:ports that nobody listens on.
func freeAddresses(t *testing.T, n int) []string {
	t.Helper()
	addresses, err := receivertest.Addresses(n)
	if err != nil {
		t.Fatal(err)
	}
	return addresses
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
	var whole viewer.Overview
	for more := true; more; {
		part := getJSON[viewer.Overview](t, fmt.Sprint(r.page, "/api/sessions/", id, "?since=", whole.Seq))
		part.Spans = append(whole.Spans, part.Spans...)
		whole, more = part, part.More
	}
	return whole
}

// change asks to pin, unpin or delete a session, as the page does.
func (r viewerRun) change(t *testing.T, id, how string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.page+"/api/sessions/"+id+"/"+how, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Origin", r.page)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
}

// Every fixture is shown as its golden trace has it: as many spans.
func TestViewFiles(t *testing.T) {
	files, err := filepath.Glob("../../testdata/cursor/*.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var want int
	files = slices.DeleteFunc(files, func(file string) bool {
		golden, err := os.ReadFile(strings.TrimSuffix(file, ".jsonl") + ".trace")
		if err != nil {
			t.Fatal(err)
		}
		spans := len(goldenSpan.FindAll(golden, -1))
		want += spans
		return spans == 0 // another agent's
	})
	l := viewFiles(t, files...).list(t)
	if l.Total < len(files) || l.Spans != want {
		t.Errorf("%d sessions of %d files, %d spans, want %d", l.Total, len(files), l.Spans, want)
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
		"lines": lines, "lines.gz": pack("lines.gz", b), "lines with a byte order mark": pack("marked.gz", append([]byte("\ufeff"), b...)),
	} {
		v := viewFiles(t, file)
		if l := v.list(t); len(l.Sessions) != 1 || l.Sessions[0].ID != v.id || l.Sessions[0].Spans < 3 {
			t.Errorf("%s: %+v, and the address names %s", name, l.Sessions, v.id)
		}
	}
}

// What was said and done in a file is shown unless one asks for less.
func TestViewContent(t *testing.T) {
	const file = "../../testdata/cursor/fix-failing-test.jsonl"
	for _, want := range []bool{false, true} {
		args := append([]string{"view"}, freePorts...)
		if !want {
			args = append(args, "--content", "none")
		}
		v := startView(t, nil, append(args, file)...)
		shell := ""
		for _, s := range v.session(t, v.id).Spans {
			if s.Name == "execute_tool shell go" {
				shell = s.ID
			}
		}
		d := getJSON[viewer.Detail](t, v.page+"/api/sessions/"+v.id+"/spans/"+shell)
		got := slices.ContainsFunc(d.Attributes, func(a viewer.Attribute) bool {
			return a.Key == "gen_ai.tool.call.arguments" && strings.Contains(a.Value, "go test")
		})
		if got != want {
			t.Errorf("content is shown: %v, want %v: %+v", got, want, d.Attributes)
		}
	}
}

// generator is a telemetrygen, which SPANTEE_GENERATOR names.
func generator(t *testing.T) string {
	t.Helper()
	binary := os.Getenv("SPANTEE_GENERATOR")
	if binary == "" {
		t.Skip("needs SPANTEE_GENERATOR, the binary of github.com/open-telemetry/opentelemetry-collector-contrib/cmd/telemetrygen")
	}
	return binary
}

// telemetrygen's spans show up, over both protocols. It sends each by itself:
// its batches lose what comes too fast.
func TestViewTelemetrygen(t *testing.T) {
	binary := generator(t)
	v := viewFiles(t)
	for _, to := range [][]string{{"--otlp-endpoint", v.grpc[len("http://"):]}, {"--otlp-http", "--otlp-endpoint", v.http[len("http://"):]}} {
		cmd := exec.Command(binary, append([]string{"traces", "--otlp-insecure", "--batch=false", "--traces", "1000", "--child-spans", "4", "--rate", "0"}, to...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	l := v.list(t)
	if l.Total != 2000 || l.Spans != 10_000 || l.Sessions[0].Service != "telemetrygen" || !l.Sessions[0].Ended {
		t.Errorf("%d traces, %d spans, %+v", l.Total, l.Spans, l.Sessions[0])
	}
}

// As many spans as come in five minutes at 100,000 a minute: all are there, and the process
// takes little memory.
func TestViewLoad(t *testing.T) {
	generator(t) // it belongs to the same runs
	const traces, perTrace, perRequest = 50_000, 10, 500
	v := startView(t, nil, append([]string{"view"}, freePorts...)...)
	client, err := otlp.New(otlp.Config{Endpoint: v.grpc})
	if err != nil {
		t.Fatal(err)
	}
	request := new(made)
	for i := range traces {
		m := newMade(fmt.Sprint(i))
		root := m.span(nil, "invoke_agent cursor-agent", 0, 1000, str("gen_ai.conversation.id", fmt.Sprint("17a8d050-5579-4abd-86b7-", i)))
		for range perTrace - 1 {
			m.span(root, "execute_tool shell", 1, 2, str("gen_ai.agent.name", "cursor-agent"), str("net.peer.ip", "1.2.3.4"))
		}
		request.spans = append(request.spans, m.spans...)
		if len(request.spans) == perRequest {
			if err := client.UploadTraces(t.Context(), encodeRequest(request.request())); err != nil {
				t.Fatal(err)
			}
			request.spans = nil
		}
	}
	if err := client.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := v.list(t)
	took := memory(v.cmd.Process.Pid)
	t.Logf("%d spans, at most %d MB of memory", l.Spans, took/1e6)
	if l.Spans != traces*perTrace || took > 150e6 {
		t.Errorf("%d spans, %d MB", l.Spans, took/1e6)
	}
}

// memory is the most a process took, in bytes, where the system tells.
func memory(pid int) (most int) {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		if v, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			fmt.Sscan(v, &most)
		}
	}
	return most << 10 // it is in KiB
}

// goldenSpan is the line of a span in a golden trace.
var goldenSpan = regexp.MustCompile(`(?m) - +[0-9.]+  (internal|client) `)
