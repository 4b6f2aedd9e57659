package viewer

import (
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
