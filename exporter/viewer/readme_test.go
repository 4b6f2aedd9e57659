package viewer

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"regexp"
	"strings"
	"testing"
)

// The README has a row for every address that is served, and none for others.
func TestREADMEAddresses(t *testing.T) {
	read := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	readme, code := read("README.md"), read("server.go")
	served := regexp.MustCompile(`mux\.Handle(?:Func)?\("((?:GET|POST) [^"]+)",`).FindAllStringSubmatch(code, -1)
	if len(served) < 10 {
		t.Fatalf("only %d addresses found in server.go", len(served))
	}
	for _, match := range served {
		if !strings.Contains(readme, "`"+match[1]+"`") {
			t.Errorf("README.md has no row for %s", match[1])
		}
	}
	for _, match := range regexp.MustCompile("`((?:GET|POST) [^`]+)`").FindAllStringSubmatch(readme, -1) {
		if !strings.Contains(code, `"`+match[1]+`",`) {
			t.Errorf("README.md lists %s, which is not served", match[1])
		}
	}
}

// The page's libraries are the files that the README names.
func TestREADMELibraries(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	named := make(map[string]bool)
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z.]+)` \\| `[a-z]+@[0-9.]+`, `[^`]+` \\| MIT, `([a-zA-Z.]+)` \\| `([0-9a-f]{64})` \\|$").FindAllStringSubmatch(string(text), -1) {
		if sum := sha256.Sum256([]byte(asset("vendor/" + row[1]))); hex.EncodeToString(sum[:]) != row[3] {
			t.Errorf("%s is %x, not %s", row[1], sum, row[3])
		}
		named[row[1]], named[row[2]] = true, true
	}
	files, err := web.ReadDir("web/vendor")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !named[f.Name()] && !strings.HasSuffix(f.Name(), ".d.ts") {
			t.Errorf("README.md does not name %s", f.Name())
		}
		delete(named, f.Name())
	}
	if len(files) == 0 || len(named) > 0 {
		t.Errorf("%d files, without %v", len(files), named)
	}
}
