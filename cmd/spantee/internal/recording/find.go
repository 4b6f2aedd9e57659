// Package recording finds recorded streams and session logs, and opens them, compressed or not:
//
//	names -> Finder.Find -> File, LogGroup -> Finder.Open -> Reader
package recording

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spantee/spantee/cmd/spantee/internal/follow"
	"github.com/spantee/spantee/mapping/sessionlog"
)

// A File is one to replay.
type File struct {
	Name  string
	Named bool // by the user, not found in a folder
	Info  fs.FileInfo
}

// A LogGroup is session logs that belong together.
type LogGroup struct {
	Logs  []sessionlog.Log
	First File
}

// A Finder finds recordings, and opens them.
type Finder struct {
	Recursive bool                         // find recorded streams in subfolders; logs are always found there
	Since     time.Time                    // files that were modified last before are left out
	Agent     string                       // of the logs; "" for all
	Skip      func(name string, why error) // called for what cannot be read
	Progress  io.Writer                    // gets what is read
	Ctx       context.Context              // ends all reading
}

// Find returns the recordings among names, the session logs in groups, and the total size of
// all.
func (f *Finder) Find(names []string) (streams []File, groups []LogGroup, size int64) {
	files := map[string]File{} // of logs, by name
	var logs []sessionlog.Log
	count := func(file File) {
		if file.Info.Mode().IsRegular() {
			size += file.Info.Size()
		}
	}
	isOld := func(file File) bool { return file.Info.Mode().IsRegular() && file.Info.ModTime().Before(f.Since) }
	add := func(file File, log *sessionlog.Log) {
		switch {
		case log != nil:
			files[file.Name], logs = file, append(logs, *log)
		case !isOld(file):
			streams = append(streams, file)
			count(file)
		}
	}
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			f.Skip(name, err)
			continue
		}
		if !info.IsDir() {
			add(File{name, true, info}, f.logAt(name, info))
			continue
		}
		found := false
		dir := filepath.Clean(name)
		// The separator makes WalkDir follow a DIR that is a link.
		err = filepath.WalkDir(dir+string(filepath.Separator), func(path string, d fs.DirEntry, err error) error {
			var info fs.FileInfo
			if err == nil && d.Type().IsRegular() && isRecording(path) {
				info, err = d.Info()
			}
			if err != nil {
				f.Skip(path, err)
			} else if info != nil {
				if log := f.logAt(path, info); log != nil || f.Recursive || filepath.Dir(path) == dir {
					found = true
					add(File{path, false, info}, log)
				}
			}
			return f.Ctx.Err()
		})
		if err == nil && !found {
			f.Skip(name, errors.New("no .jsonl or .ndjson file found"))
		}
	}
	slices.SortStableFunc(logs, func(a, b sessionlog.Log) int {
		return files[a.Path].Info.ModTime().Compare(files[b.Path].Info.ModTime())
	})
	for _, group := range sessionlog.Group(logs) {
		isNew := func(log sessionlog.Log) bool { return !isOld(files[log.Path]) }
		if !slices.ContainsFunc(group, isNew) { // a fork counts right only together with the log that it copies
			continue
		}
		groups = append(groups, LogGroup{group, files[group[0].Path]})
		for _, log := range group {
			count(files[log.Path])
		}
	}
	return streams, groups, size
}

// logAt describes the session log in a file, and returns nil if it is none.
func (f *Finder) logAt(name string, info fs.FileInfo) *sessionlog.Log {
	if !info.Mode().IsRegular() {
		return nil
	}
	in, err := f.Open(name)
	if err != nil {
		return nil
	}
	defer func() { _ = in.Close() }()
	log, _ := follow.DescribeLog(name, in, sessionlog.HeadSize)
	if len(log.Kin) == 0 || f.Agent != "" && f.Agent != log.Agent {
		return nil
	}
	log.Open = func() (io.ReadCloser, error) { return f.Open(name) }
	return &log
}

// isRecording reports whether a file's name is that of a recording.
func isRecording(name string) bool {
	for _, packed := range []string{".gz", ".zst"} {
		name = strings.TrimSuffix(name, packed)
	}
	return slices.Contains([]string{".jsonl", ".ndjson"}, filepath.Ext(name))
}
