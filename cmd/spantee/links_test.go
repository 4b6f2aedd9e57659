package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading      = regexp.MustCompile(`(?m)^#+ (.+)$`)
	notInAnchor  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// Every link within the repository leads to a file, and to a heading if it names
// one.
func TestLinks(t *testing.T) {
	links := 0
	for path, text := range pages(t) {
		for _, match := range markdownLink.FindAllStringSubmatch(text, -1) {
			if link := match[1]; !strings.Contains(link, "://") && !strings.HasPrefix(link, "mailto:") {
				links++
				checkLink(t, path, link)
			}
		}
	}
	if links < 10 {
		t.Errorf("only %d links found", links)
	}
}

// No page has more words than somebody reads who looks for one thing.
func TestWords(t *testing.T) {
	limits := map[string]int{
		"README.md": 1125, "cmd/spantee/README.md": 2000, "mapping/README.md": 2000, "exporter/README.md": 900, "exporter/viewer/README.md": 900,
		"mapping/agent/README.md": 1150, "testdata/recipes/README.md": 1300, ".github/CONTRIBUTING.md": 660,
	}
	const all = 12_000
	total := 0
	for path, text := range pages(t) {
		words := len(strings.Fields(text))
		total += words
		name := strings.TrimPrefix(filepath.ToSlash(path), "../../")
		if limit, limited := limits[name]; limited && words > limit {
			t.Errorf("%s has %d words (limit %d)", name, words, limit)
		}
		delete(limits, name)
	}
	if total > all {
		t.Errorf("all pages have %d words (limit %d)", total, all)
	}
	for name := range limits {
		t.Errorf("%s is not there", name)
	}
}

// The files and names that CONTRIBUTING sends a newcomer to are there.
func TestContributing(t *testing.T) {
	text, err := os.ReadFile("../../.github/CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	var code strings.Builder
	err = filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files = append(files, filepath.ToSlash(path))
		if filepath.Ext(path) == ".go" && !strings.HasSuffix(path, "links_test.go") {
			b, err := os.ReadFile(path)
			code.Write(b)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	file, name := regexp.MustCompile(`^[\w/]+\.(go|md|txt|txtar)$`), regexp.MustCompile(`^(?:\w+\.)?(\w+)(?:\(\))?$`)
	_, recipes, _ := strings.Cut(string(text), "\n## Where things are\n")
	for _, span := range codeSpan.FindAllStringSubmatch(recipes, -1) {
		switch named := name.FindStringSubmatch(span[1]); {
		case strings.Contains(span[1], "AGENT"):
		case file.MatchString(span[1]):
			if !slices.ContainsFunc(files, func(path string) bool { return strings.HasSuffix(path, "/"+span[1]) }) {
				t.Errorf("no file %s", span[1])
			}
		case named != nil && !regexp.MustCompile(`\b`+named[1]+`\b`).MatchString(code.String()):
			t.Errorf("the code does not have %s", span[1])
		}
	}
}

// pages returns the texts of all pages in Markdown, by their paths.
func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "dist" || d.Name() == ".release"):
			return fs.SkipDir
		case filepath.Ext(path) != ".md":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		texts[path] = string(text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

func checkLink(t *testing.T, from, link string) {
	t.Helper()
	file, anchor, _ := strings.Cut(link, "#")
	to := from
	if file != "" {
		to = filepath.Join(filepath.Dir(from), file)
	}
	if _, err := os.Stat(to); err != nil {
		t.Errorf("%s links to %s, which is not there", from, link)
		return
	}
	if anchor == "" || filepath.Ext(to) != ".md" {
		return
	}
	text, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range heading.FindAllStringSubmatch(string(text), -1) {
		if anchorOf(match[1]) == anchor {
			return
		}
	}
	t.Errorf("%s links to %s, but no heading has that name", from, link)
}

// anchorOf is GitHub's name for a heading.
func anchorOf(heading string) string {
	return strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}
