package recording

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

const line = `{"type":"system","subtype":"init"}` + "\n"

func packed(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	for name, contents := range map[string][]byte{
		"a.jsonl": []byte(line), "b.ndjson.gz": packed(t, line), "notes.txt": []byte(line), "deep/c.jsonl": []byte(line), "old.jsonl": []byte(line), "empty/notes.txt": nil,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, contents, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	if err := os.Chtimes(filepath.Join(dir, "old.jsonl"), now, now.Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		finder  Finder
		names   []string
		want    []string
		skipped int
	}{
		"a folder":            {Finder{}, []string{""}, []string{"a.jsonl", "b.ndjson.gz", "old.jsonl"}, 0},
		"its folders, too":    {Finder{Recursive: true}, []string{""}, []string{"a.jsonl", "b.ndjson.gz", "deep/c.jsonl", "old.jsonl"}, 0},
		"new files":           {Finder{Since: now.Add(-time.Minute)}, []string{""}, []string{"a.jsonl", "b.ndjson.gz"}, 0},
		"files by their name": {Finder{}, []string{"notes.txt", "missing"}, []string{"notes.txt"}, 1},
		"none":                {Finder{}, []string{"empty"}, nil, 1},
	} {
		skipped := 0
		f := test.finder
		f.Ctx, f.Skip = t.Context(), func(string, error) { skipped++ }
		var names, got []string
		for _, name := range test.names {
			names = append(names, filepath.Join(dir, name))
		}
		files, groups, _ := f.Find(names)
		for _, file := range files {
			path, err := filepath.Rel(dir, file.Name)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, filepath.ToSlash(path))
		}
		if !slices.Equal(got, test.want) || skipped != test.skipped || len(groups) > 0 {
			t.Errorf("%s: %v, %d skipped, %d groups of logs, want %v, %d", name, got, skipped, len(groups), test.want, test.skipped)
		}
	}
}

// A file is unpacked, and read until the context ends.
func TestOpen(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.jsonl.gz")
	if err := os.WriteFile(name, packed(t, line+line), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	f := Finder{Ctx: ctx, Progress: new(bytes.Buffer)}
	in, err := f.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	first := make([]byte, len(line))
	if _, err := io.ReadFull(in, first); err != nil || string(first) != line {
		t.Errorf("%q, %v", first, err)
	}
	end()
	if n, err := in.Read(first); n > 0 || err == nil {
		t.Errorf("%d bytes after the end, %v", n, err)
	}
	if _, err := f.Open(name); err == nil {
		t.Error("opened after the end")
	}
}

func TestIsOTLP(t *testing.T) {
	for text, want := range map[string]bool{
		`{"resourceSpans":[]}`: true, "\ufeff {\n  \"resourceSpans\": [": true, line: false, `"resourceSpans"`: false, `{"type":"resourceSpans"}`: false, "": false,
	} {
		if IsOTLP([]byte(text)) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}
