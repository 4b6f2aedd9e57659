package mapping_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var codeSpan = regexp.MustCompile("`([^`]+)`")

// The README has a row for every name in semconv, and none for a name that is
// not there. The doubts are where the conditions that use them are.
func TestREADME(t *testing.T) {
	defined := semconvNames(t)
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	flags, err := os.ReadFile("../cmd/spantee/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, doubts, _ := strings.Cut(string(flags), "\n## Doubts\n")
	doubts, _, _ = strings.Cut(doubts, "\n## ")
	listed := map[string]bool{}
	for line := range strings.Lines(string(text) + doubts) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cell := strings.SplitN(line, "|", 3)[1]
		for _, match := range codeSpan.FindAllStringSubmatch(cell, -1) {
			name, _, _ := strings.Cut(match[1], " ") // of a span, the operation
			listed[name] = true
			if !defined[name] {
				t.Errorf("README.md lists %s, which semconv does not have", name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(defined)) {
		if !listed[name] {
			t.Errorf("README.md has no row for %s", name)
		}
	}
}

// semconvNames returns the values of semconv's string constants, without those
// that are a value of an attribute and no name.
func semconvNames(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("semconv/*.go")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || strings.HasPrefix(spec.Names[0].Name, "Kind") {
				return true
			}
			for _, value := range spec.Values {
				if literal, ok := value.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					name, err := strconv.Unquote(literal.Value)
					if err != nil {
						t.Fatal(err)
					}
					names[name] = true
				}
			}
			return true
		})
	}
	if len(names) < 100 {
		t.Fatalf("only %d names found in semconv", len(names))
	}
	return names
}
