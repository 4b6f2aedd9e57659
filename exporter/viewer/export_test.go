package viewer

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/mapping/semconv"
)

// An exported page asks for nothing, runs only our script, and no content ends
// the element that it stands in.
func TestExportHTML(t *testing.T) {
	s := newStore(t)
	const hostile = `</script><script>window.hacked=1</script><img src=x onerror=hacked()>`
	root := span(1, 1, 0, "invoke_agent "+hostile, 1, 2, str(semconv.InputMessages, hostile))
	s.Add(from("a", root, span(2, 1, 0, "invoke_agent other", 1, 2)))
	only, err := s.only(t.Context(), idOf(root))
	s.ok(err)
	defer only.Close()
	var page bytes.Buffer
	s.ok(only.ExportHTML(t.Context(), &page))
	html := page.String()
	if n := strings.Count(html, "<script"); n != 2 {
		t.Errorf("%d scripts", n)
	}
	for _, bad := range []string{"<img src=x", "invoke_agent other", `src="http`, `href="http`, "import {", "\nexport "} {
		if strings.Contains(html, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if style, _, _ := strings.Cut(html, "</style>"); strings.Contains(style, "url(") {
		t.Error("the style may ask for something")
	}
	if !strings.Contains(html, "connect-src") && !strings.Contains(html, "default-src &#39;none&#39;") {
		t.Error("the page may ask for something")
	}
}

// The bundled script is one that a browser can read.
func TestBundleParses(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("needs node")
	}
	file := filepath.Join(t.TempDir(), "page.mjs")
	if err := os.WriteFile(file, []byte(bundle()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), node, "--check", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if strings.Contains(bundle(), "</script") {
		t.Error("the script ends itself")
	}
}

// What is exported as OTLP JSON can be read again.
func TestExportJSON(t *testing.T) {
	s := newStore(t)
	s.Add(from("a", span(1, 1, 0, "invoke_agent x", 1, 2, str("k", "v"))))
	s.Add(from("b", span(1, 2, 1, "execute_tool y", 1, 2), span(2, 1, 0, "z", 1, 2)))
	var lines bytes.Buffer
	if err := s.ExportJSON(t.Context(), &lines); err != nil {
		t.Fatal(err)
	}
	again := newStore(t)
	if bad, err := again.Read(&lines); bad > 0 {
		t.Fatal(err)
	}
	if before, after := s.List(Query{Limit: 9}), again.List(Query{Limit: 9}); after.Spans != 3 || before.Total != after.Total || after.Sessions[1].Service != before.Sessions[1].Service {
		t.Errorf("%+v became %+v", before, after)
	}
}

// What is left out of an export is nowhere in it, whoever sent it, and the page says what it has.
func TestExportWithout(t *testing.T) {
	v := start(t, Config{})
	s := on(t, v.Store)
	agent := span(1, 1, 0, "invoke_agent x", 1, 9, str(semconv.InputMessages, `[{"role":"user","parts":[{"type":"text","content":"secret prompt"}]}]`), str(semconv.ProcessWorkingDirectory, "/secret/folder"))
	tool := span(1, 2, 1, "execute_tool shell", 1, 2, str(semconv.ToolName, "shell"), str(semconv.ProcessCommandLine, "cat secret path"), str(semconv.FilePath, "/secret/file"),
		str(semconv.ToolResult, "secret result"), str("input.value", "secret of another convention"), str("gen_ai.prompt.0.content", "secret of an old one"),
		str("session.title", "secret title"), integer(semconv.ProcessExitCode, 7))
	tool.Events = []*tracepb.Span_Event{{Name: "secret event"}, {Name: "text.delta", Attributes: []*commonpb.KeyValue{str(semconv.DeltaText, "secret delta"), integer(semconv.DeltaIndex, 1)}}}
	tool.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: "secret message"}
	spans := from("a", agent, tool)
	spans[0].Resource.Attributes = append(spans[0].Resource.Attributes, str("host.name", "secret-host"), integer("process.pid", 4711), str(semconv.LangfuseCompletionStarted, "no content"))
	spans[0].ScopeSpans[0].Scope = &commonpb.InstrumentationScope{Name: "secret scope"}
	s.Add(spans)
	running := span(2, 1, 0, "invoke_agent x", 1, 9)
	s.Open("p", from("a", running))
	for _, path := range []string{"ff/export.html", "xyz/export.json", idOf(running).String() + "/export.html"} { // no span ended
		if resp, body := ask(t, v, http.MethodGet, "/api/sessions/"+path, ""); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, resp.StatusCode, body)
		}
	}
	content := []string{"secret prompt", "secret result", "secret delta", "secret of another convention", "secret of an old one", "secret message"}
	paths := []string{"/secret/folder", "cat secret path", "/secret/file"}
	host := []string{"secret-host", "4711"}
	others := []string{"secret title", "secret event", "secret scope"} // which other senders name
	for _, tt := range []struct {
		query, name, contains string
		has, left             []string
	}{
		{"", "secret-prompt-00000000", `["prompts, answers and output","paths and commands","the host"]`, slices.Concat(content, paths, host), nil},
		{"?without=content", "cat-secret-path-00000000", `["paths and commands","the host"]`, slices.Concat(paths, host), slices.Concat(content, others)},
		{"?without=paths", "x-00000000", `["the host"]`, host, slices.Concat(content, paths, others)},
		{"?without=host", "secret-prompt-00000000", `["prompts, answers and output","paths and commands"]`, slices.Concat(content, paths), host},
		{"?without=content&without=paths&without=host", "x-00000000", `"contains":[]`, nil, slices.Concat(content, paths, host, others)},
	} {
		for _, kind := range []string{"html", "json"} {
			resp, body := ask(t, v, http.MethodGet, "/api/sessions/"+idOf(agent).String()+"/export."+kind+tt.query, "")
			if name := resp.Header.Get("Content-Disposition"); resp.StatusCode != http.StatusOK || name != `attachment; filename="`+tt.name+"."+kind+`"` {
				t.Errorf("%s %s: %d %s", kind, tt.query, resp.StatusCode, name)
			}
			if kind == "html" {
				_, body, _ = strings.Cut(body, `id="answers">`)
				if body, _, _ = strings.Cut(body, "</script>"); !strings.Contains(body, tt.contains) {
					t.Errorf("%s: the page does not say %s", tt.query, tt.contains)
				}
			}
			for _, text := range append(tt.has, "shell", "no content", "spantee.delta.index", semconv.ProcessExitCode) {
				if !strings.Contains(body, text) {
					t.Errorf("%s %s: no %q", kind, tt.query, text)
				}
			}
			for _, text := range tt.left {
				if strings.Contains(body, text) {
					t.Errorf("%s %s has %q", kind, tt.query, text)
				}
			}
		}
	}
}

// An export can leave out every attribute that package semconv has for content.
func TestContentIsAPart(t *testing.T) {
	source, err := os.ReadFile("../../mapping/semconv/semconv.go")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for block := range strings.SplitSeq(string(source), "\n)\n") {
		_, names, _ := strings.Cut(block, "// With content only.\n")
		for line := range strings.Lines(names) {
			if parts := strings.Split(line, `"`); len(parts) == 3 {
				checked++
				if partOf(str(parts[1], "content")) == "" {
					t.Errorf("%s is in every export", parts[1])
				}
			}
		}
	}
	if checked < 20 {
		t.Errorf("%d attributes were found", checked)
	}
}
