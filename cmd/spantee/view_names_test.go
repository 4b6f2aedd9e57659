package main

import (
	"strings"
	"testing"
	"time"

	"github.com/spantee/spantee/exporter/tree"
	"github.com/spantee/spantee/exporter/viewer"
)

// The page calls a span what the text tree calls it.
func TestPageNamesAreTheTrees(t *testing.T) {
	long(t)
	for _, file := range []string{"fix-failing-test.jsonl", "tool-kinds.jsonl", "tool-failures.jsonl", "background-shell.jsonl"} {
		v := startView(t, nil, append(append([]string{"view", "--content", "details"}, freePorts...), fixtures+file)...)
		session := v.session(t, v.id)

		options := contentOptions{content: "details"}
		content, err := options.resolve(func(err error) { t.Error(err) })
		if err != nil {
			t.Fatal(err)
		}
		store, err := viewer.NewStore(viewer.Retention{}, func(err error) { t.Error(err) })
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		read := fileReader{content, func(err error) { t.Log(err) }}
		if err := read.read(store, file, strings.NewReader(string(fixture(t, file))), time.Unix(0, madeStart)); err != nil {
			t.Fatal(err)
		}
		spans, err := store.Find(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		w := tree.NewWriter(&text, tree.Style{Width: 1000})
		for _, span := range spans {
			w.Export(span)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		drawn := strings.Split(text.String(), "\n")
		details := 0
		for _, bar := range session.Spans {
			want := []string{bar.Title}
			if bar.Detail != "" {
				detail := bar.Detail
				if bar.Path {
					detail = strings.TrimPrefix(detail, session.Session.Folder+"/")
				}
				want = append(want, detail)
				details++
			}
			if bar.Failure != "" {
				want = append(want, "✗ "+bar.Failure)
			}
			if !strings.HasSuffix(bar.Name, bar.Title) || !drawsAll(drawn, want) {
				t.Errorf("%s: no row with %q", file, want)
			}
		}
		if details < 3 {
			t.Errorf("%s: only %d details", file, details)
		}
	}
}

// drawsAll tells whether one of the lines has all the words.
func drawsAll(lines, words []string) bool {
	for _, line := range lines {
		n := 0
		for _, w := range words {
			if strings.Contains(line, w) {
				n++
			}
		}
		if n == len(words) {
			return true
		}
	}
	return false
}
