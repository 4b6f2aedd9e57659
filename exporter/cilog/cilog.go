// Package cilog keeps CI systems from obeying what spantee prints. They take some words in
// the log of a job for commands, and an agent may have been talked into any words.
package cilog

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"sync"
)

// markers are what CI systems take for the start of a command. A space at the bar breaks one.
var markers = []struct {
	system string
	marker string
	where  place
}{
	{"Azure Pipelines", "#|#vso[", anywhere},
	{"Azure Pipelines, GitHub Actions", "#|#[", anywhere},
	{"GitHub Actions", ":|:", lineStart},
	{"GitLab", "section_|start:", anywhere},
	{"GitLab", "section_|end:", anywhere},
	{"TeamCity", "#|#teamcity[", anywhere},
	{"Octopus Deploy", "#|#octopus[", anywhere},
	{"MyGet", "#|#myget[", anywhere},
	{"LUCI, Buildbot", "@|@@", lineStart},
	{"Jenkins", "\x1b[8m|ha:", anywhere},
	{"Buildkite", "-|-- ", lineStart},
	{"Buildkite", "+|++ ", lineStart},
	{"Buildkite", "~|~~ ", lineStart},
	{"Buildkite", "^|^^ ", lineStart},
	{"Travis", "travis_|fold:", anywhere},
	{"Travis", "travis_|time:", anywhere},
}

// A place is where in a line a system reads a marker.
type place string

const (
	anywhere  place = ``
	lineStart place = `(?:^|\r)(?:` + space + `|` + unseen + `)*`
)

// space matches Unicode's white space, which GitHub's runner trims; RE2's \s knows ASCII's only.
const space = `[\s\v\x{85}\p{Z}]`

// unseen matches colors and characters without a width: some systems compare without them.
const unseen = `\x1b\[[0-9;?]*[A-Za-z]|[\p{Mn}\p{Me}\p{Cf}\x{115F}\x{1160}\x{3164}\x{FFA0}]`

// pattern has one group for each marker, which ends where the space goes. It takes milliseconds
// to compile, which a process that prints nothing does not have to spend.
var pattern = sync.OnceValue(func() *regexp.Regexp {
	var all []string
	for _, m := range markers {
		start, end, _ := strings.Cut(m.marker, "|")
		all = append(all, "("+string(m.where)+spread(start)+")"+spread(end))
	}
	return regexp.MustCompile("(?im)" + strings.Join(all, "|"))
})

// spread matches a text that has unseen characters after any of its own.
func spread(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r == ' ' {
			b.WriteString(`\s`)
			continue
		}
		b.WriteString(regexp.QuoteMeta(string(r)) + "(?:" + unseen + ")*")
	}
	return b.String()
}

// Break returns lines in which no CI system finds a command.
func Break(lines string) string {
	var b strings.Builder
	for {
		match := pattern().FindStringSubmatchIndex(lines)
		if match == nil {
			break
		}
		for group := 2; group < len(match); group += 2 {
			if end := match[group+1]; end >= 0 {
				b.WriteString(lines[:end] + " ")
				lines = lines[end:]
				break
			}
		}
	}
	if b.Len() == 0 {
		return lines
	}
	b.WriteString(lines)
	return b.String()
}

// A Writer breaks the commands in what it passes on, which ends with a line end.
type Writer struct {
	w    io.Writer
	line []byte
}

// NewWriter returns a Writer that passes whole lines on to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

func (w *Writer) Write(p []byte) (int, error) {
	w.line = append(w.line, p...)
	end := bytes.LastIndexByte(w.line, '\n') + 1
	_, err := io.WriteString(w.w, Break(string(w.line[:end])))
	w.line = append(w.line[:0], w.line[end:]...)
	return len(p), err
}
