package viewer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/spantee/spantee/exporter/spool"
)

// Versions before the database kept sessions in files of a folder: OTLP TracesData
// messages, each with its length before it.
const (
	keptSuffix = ".spans"

	// maxKeptMessage is larger than any request.
	maxKeptMessage = 64 << 20
)

// TakeOver moves the sessions that an earlier version kept in a folder to the database. An
// error says what is wrong with one file.
func (s *Store) TakeOver(dir string) (problems []error) {
	if err := spool.EnterDir(dir, false); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return []error{err}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return []error{err}
	}
	for _, e := range entries { // in order of their names, which begin with a time
		if !strings.HasSuffix(e.Name(), keptSuffix) {
			continue
		}
		name := filepath.Join(dir, e.Name())
		err := s.takeOver(name)
		if err == nil {
			err = os.Remove(name)
		}
		if err != nil {
			problems = append(problems, err)
		}
	}
	_ = os.Remove(dir) // if it is empty
	return problems
}

// takeOver adds the sessions of a file. What follows a message that cannot be read is put
// aside, so that it is reported once.
func (s *Store) takeOver(name string) error {
	f, info, err := spool.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	for {
		var data tracepb.TracesData
		err := protodelim.UnmarshalOptions{MaxSize: maxKeptMessage}.UnmarshalFrom(r, &data)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			err = fmt.Errorf("%s was truncated: its last spans are lost", filepath.Base(name))
		case err != nil:
			err = fmt.Errorf("%s: %w", filepath.Base(name), err)
		}
		if err != nil {
			return errors.Join(err, os.Rename(name, strings.TrimSuffix(name, keptSuffix)+".unreadable"))
		}
		if err := s.addSpans(data.GetResourceSpans(), info.ModTime()); err != nil {
			return err
		}
	}
}
