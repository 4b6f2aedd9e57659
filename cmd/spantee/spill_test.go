package main

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// A spill gives back what was put into it, in order, however often it wraps.
func TestSpill(t *testing.T) {
	const limit = 1000
	s, err := newSpill(filepath.Join(t.TempDir(), "state"), limit, 12345)
	if err != nil {
		t.Skip("no unlinked files here:", err)
	}
	defer s.f.Close()
	in := make([]byte, 50_000)
	rand.Read(in)
	var out []byte
	for rest := in; len(out) < len(in); {
		for n := 1 + len(rest)%300; len(rest) > 0 && s.room() >= int64(min(n, len(rest))); {
			p := rest[:min(n, len(rest))]
			if err := s.write(p); err != nil {
				t.Fatal(err)
			}
			s.to += int64(len(p))
			rest = rest[len(p):]
		}
		if got, want := s.lines(), bytes.Count(in[len(out):len(in)-len(rest)], newline); got != int64(want) {
			t.Fatalf("%d lines, want %d", got, want)
		}
		p := make([]byte, 170)
		n, err := s.read(p, s.to-s.from)
		if err != nil {
			t.Fatal(err)
		}
		s.from += int64(n)
		out = append(out, p[:n]...)
	}
	if !bytes.Equal(in, out) || !s.empty() {
		t.Error("other bytes came out")
	}
	if info, err := s.f.(*os.File).Stat(); err != nil || info.Size() > limit {
		t.Errorf("the file has %d bytes, may have %d; %v", info.Size(), limit, err)
	}
}

// Only spantee itself can reach what it has put aside, and a kill leaves nothing.
func TestSpillIsPrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no unlinked files here")
	}
	for name, open := range map[string]func(string) (*os.File, error){"open": openUnlinked, "create": createUnlinked} {
		dir := t.TempDir()
		f, err := open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: mode %v, %v", name, info.Mode(), err)
		}
		if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
			t.Errorf("%s: the folder has %v, %v", name, names, err)
		}
	}
}
