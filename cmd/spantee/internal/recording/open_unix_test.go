//go:build unix

package recording

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Whatever comes, packed or through a pipe, is read twice.
func TestOpenTwice(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string][]byte{
		"plain": []byte(line + line), "packed": packed(t, line+line), "UTF-16": utf16Of("\ufeff"+line+line, binary.LittleEndian),
	} {
		file, pipe := filepath.Join(dir, name), filepath.Join(dir, name+" pipe")
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		written := make(chan error)
		go func() {
			written <- os.WriteFile(pipe, content, 0o600)
		}()
		for _, path := range []string{file, pipe} {
			progress := new(bytes.Buffer)
			f := Finder{Ctx: t.Context(), Progress: progress}
			in, err := f.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if text, err := io.ReadAll(in); err != nil || strings.TrimPrefix(string(text), "\ufeff") != line+line {
					t.Errorf("%s: %q, %v", path, text, err)
				}
				if _, err := in.Seek(0, io.SeekStart); err != nil {
					t.Error(err)
				}
			}
			if progress.Len() < 2*len(content) {
				t.Errorf("%s: %d bytes of progress", path, progress.Len())
			}
			if err := in.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := <-written; err != nil {
			t.Error(err)
		}
	}
}
