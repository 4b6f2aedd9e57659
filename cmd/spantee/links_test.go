package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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
		for _, match := range markdownLink.FindAllStringSubmatch(string(text), -1) {
			if link := match[1]; !strings.Contains(link, "://") && !strings.HasPrefix(link, "mailto:") {
				links++
				checkLink(t, path, link)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if links < 10 {
		t.Errorf("only %d links found", links)
	}
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
