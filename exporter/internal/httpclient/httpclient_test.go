package httpclient

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

func TestRedirectsAreNotFollowed(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer elsewhere.Close()
	for _, code := range []int{301, 302, 303, 307, 308} {
		s := httptest.NewServer(http.RedirectHandler(elsewhere.URL, code))
		client := New(func(*http.Transport) {})
		resp, err := client.Post(s.URL, "text/plain", strings.NewReader("secret"))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != code {
			t.Errorf("%d became %d", code, resp.StatusCode)
		}
		client.CloseIdleConnections()
		s.Close()
	}
}

// An endless header would take all memory.
func TestHeadersAreBounded(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Long", strings.Repeat("x", 1<<20)) }))
	defer s.Close()
	client := New(func(*http.Transport) {})
	defer client.CloseIdleConnections()
	resp, err := client.Get(s.URL)
	if err == nil {
		resp.Body.Close()
		t.Error("the header was accepted")
	}
}

// TestNoOtherClient looks through the module for HTTP clients that New has not made.
func TestNoOtherClient(t *testing.T) {
	const root = "../../.."
	makes := map[string]bool{}
	for _, name := range []string{"Client", "Transport", "DefaultClient", "DefaultTransport", "Get", "Head", "Post", "PostForm", "NewFileTransport"} {
		makes[name] = true
	}
	files := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || filepath.Base(path) == "httpclient.go" {
			return nil
		}
		files++
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		name := importedAs(file)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.StarExpr: // *http.Client is a type, not a client
				if _, ok := n.X.(*ast.SelectorExpr); ok {
					return false
				}
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && name != "" && x.Name == name && makes[n.Sel.Name] {
					t.Errorf("%s uses http.%s: use httpclient.New", path, n.Sel.Name)
				}
			}
			return true
		})
		return nil
	})
	if err != nil || files < 50 {
		t.Errorf("%d files, %v", files, err)
	}
}

// importedAs returns the name of net/http in a file, empty if the file does not import it.
func importedAs(file *ast.File) string {
	for _, imported := range file.Imports {
		switch {
		case imported.Path.Value != `"net/http"`:
		case imported.Name != nil:
			return imported.Name.Name
		default:
			return "http"
		}
	}
	return ""
}
