package viewer

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spantee/spantee/mapping/semconv"
)

// An exported page asks for nothing, runs only our script, and no content ends
// the element that it stands in.
func TestExportHTML(t *testing.T) {
	s := newStore(t)
	const hostile = `</script><script>window.hacked=1</script><img src=x onerror=hacked()>`
	root := span(1, 1, 0, "invoke_agent "+hostile, 1, 2, str(semconv.InputMessages, hostile))
	s.Add(from("a", root, span(2, 1, 0, "invoke_agent other", 1, 2)))
	var page bytes.Buffer
	if err := s.ExportHTML(&page, idOf(root).String()); err != nil {
		t.Fatal(err)
	}
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
	if err := s.ExportHTML(&page, "ff"); err == nil {
		t.Error("a session that is not there was exported")
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
	if err := s.ExportJSON(&lines); err != nil {
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
