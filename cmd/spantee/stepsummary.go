package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"strings"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/exporter/tree"
	"github.com/spantee/spantee/mapping"
)

// maxStepSummary is GitHub's limit for a step, less some room for other summaries.
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

func (s *stepSummary) take(span *tracepb.Span) { s.tree.Export(span) }

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
	page := new(bytes.Buffer)
	text := strings.TrimRight(s.text.String(), "\n")
	if len(text) > maxStepSummary {
		text = strings.ToValidUTF8(text[:maxStepSummary], "") + "\n(truncated)"
	}
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	fmt.Fprintf(page, "%stext\n%s\n%s\n", fence, text, fence)
	for _, run := range s.runs {
		if id := hex.EncodeToString(run.TraceID[:]); cfg.traceURL != "" && cfg.sampler.keeps(run.TraceID) {
			fmt.Fprintf(page, "\n[Trace %s](%s)\n", id, strings.ReplaceAll(cfg.traceURL, placeholder, id))
		}
	}
	f, err := os.OpenFile(s.file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write(page.Bytes())
	return err
}
