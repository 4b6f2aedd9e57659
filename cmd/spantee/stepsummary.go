package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/exporter/tree"
	"github.com/spantee/spantee/mapping"
)

// maxStepSummary is GitHub's limit for the file of a step, less some room for what
// its other commands add later.
const maxStepSummary = 900 << 10

// A stepSummary shows the traces of a step on the page of its GitHub Actions run.
type stepSummary struct {
	file string
	text bytes.Buffer
	tree *tree.Writer
	runs []mapping.Run // the first maxRuns runs
}

// newStepSummary returns nil outside of GitHub Actions.
func newStepSummary(quiet bool) *stepSummary {
	file := os.Getenv("GITHUB_STEP_SUMMARY")
	if file == "" || quiet || os.Getenv("GITHUB_ACTIONS") != "true" {
		return nil
	}
	s := &stepSummary{file: file}
	s.tree = tree.NewWriter(&s.text, tree.Style{Width: 120})
	return s
}

func (s *stepSummary) take(span *runs.Span) { s.tree.Export(span) }

func (s *stepSummary) runEnded(run mapping.Run) {
	if len(s.runs) < maxRuns {
		s.runs = append(s.runs, run)
	}
}

// end appends the traces and links to them.
func (s *stepSummary) end(cfg *config) error {
	if err := s.tree.Close(); err != nil || s.text.Len() == 0 {
		return err
	}
	if info, err := os.Stat(s.file); err == nil && !info.Mode().IsRegular() { // opening a device may have effects
		return s.irregular()
	}
	f, err := os.OpenFile(s.file, os.O_RDWR|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return s.irregular()
	}
	page := s.page(cfg, int(maxStepSummary-info.Size()))
	if page == "" {
		return fmt.Errorf("%s has no room for the trace (limit 900 KiB)", s.file)
	}
	if last := make([]byte, 1); info.Size() > 0 {
		if _, err := f.ReadAt(last, info.Size()-1); err != nil {
			return err
		}
		if last[0] != '\n' { // else the page would begin within that line
			page = "\n" + page
		}
	}
	_, err = f.WriteString(page)
	return err
}

func (s *stepSummary) irregular() error { return fmt.Errorf("%s is not a regular file", s.file) }

// page returns what to append to the file, "" if there is too little room for it.
func (s *stepSummary) page(cfg *config, room int) string {
	text := strings.TrimRight(s.text.String(), "\n")
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	var links strings.Builder
	for _, run := range s.runs {
		if id := hex.EncodeToString(run.TraceID[:]); cfg.traceURL != "" && cfg.sampler.keeps(run.TraceID) {
			fmt.Fprintf(&links, "\n[Trace %s](%s)\n", id, strings.ReplaceAll(cfg.traceURL, placeholder, id))
		}
	}
	const truncated = "\n(truncated)"
	room -= 1 + len(fence+"text\n"+truncated+"\n"+fence+"\n") + links.Len() // 1 for the end of the last line
	switch {
	case room < 0:
		return ""
	case len(text) > room:
		text = strings.ToValidUTF8(text[:room], "") + truncated
	}
	return fence + "text\n" + text + "\n" + fence + "\n" + links.String()
}
