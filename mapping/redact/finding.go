package redact

import (
	"slices"
	"strings"
)

// A Finding is the position of a secret in a text, in bytes, and the name of the
// rule that found it.
type Finding struct {
	Start, End int
	Rule       string
}

// Mark returns the text that replaces the secret.
func (f Finding) Mark() string { return markPrefix + f.Rule + "]" }

const markPrefix = "[redacted:"

func isMark(s string) bool { return strings.HasPrefix(s, markPrefix) }

// normalize sorts findings, merges those that overlap, and drops findings inside marks.
func normalize(text string, found []Finding) []Finding {
	if len(found) == 0 {
		return nil
	}
	slices.SortStableFunc(found, func(a, b Finding) int {
		if a.Start != b.Start {
			return a.Start - b.Start
		}
		return b.End - a.End
	})
	marks := marksIn(text)
	return Merge(slices.DeleteFunc(found, func(f Finding) bool {
		for len(marks) > 0 && marks[0].end <= f.Start {
			marks = marks[1:]
		}
		return len(marks) > 0 && marks[0].start <= f.Start && f.End <= marks[0].end
	}))
}

// Merge merges findings that overlap, in place. They must be in the order of their
// starts. Of those that overlap, the first one's rule remains.
func Merge(found []Finding) []Finding {
	merged := found[:0]
	for _, f := range found {
		if n := len(merged); n > 0 && f.Start < merged[n-1].End {
			merged[n-1].End = max(merged[n-1].End, f.End)
			continue
		}
		merged = append(merged, f)
	}
	return merged
}

// A place is a range of a text.
type place struct{ start, end int }

// marksIn returns the marks of earlier findings: nothing is found inside a mark.
func marksIn(text string) (marks []place) {
	const longest = 64
	for i := 0; ; {
		n := strings.Index(text[i:], markPrefix)
		if n < 0 {
			return marks
		}
		start := i + n
		i = start + len(markPrefix)
		if end := strings.IndexByte(text[i:min(len(text), i+longest)], ']'); end >= 0 {
			i += end + 1
			marks = append(marks, place{start, i})
		}
	}
}
