package spool

import (
	"fmt"
	"slices"
	"testing"
)

// TestOrigins has spans of two resources, ended and open, before and after the log
// is compacted.
func TestOrigins(t *testing.T) {
	for _, compacted := range []bool{false, true} {
		s := newSpool(t, 1<<20)
		j := newJournal(t, s)
		checkpoint(t, j, spanOf("root"))
		one, other := originOf(t), &Origin{Scope: appendRecord(nil, 1, []byte("other"))}
		ended := encodedSpans(t, spansOf("first", "second", "third")...)
		ended[1].Of = other
		open := encodedSpans(t, spansOf("root", "root 2")...)
		open[1].Of = other
		if compacted {
			j.size = 1 << 30
		}
		j.piece = ended
		must(t, j.save(open))

		got, err := readLog(j.file.path())
		must(t, err)
		var parts []string
		for _, r := range Requests(got.spans()) {
			parts = append(parts, fmt.Sprintf("%q %q", r[0].Of.Scope, namesIn(r...)))
		}
		want := []string{
			fmt.Sprintf("%q %q", one.Scope, []string{"first", "third", "root"}),
			fmt.Sprintf("%q %q", other.Scope, []string{"second", "root 2"}),
		}
		if !slices.Equal(parts, want) {
			t.Errorf("compacted %v:\n%q, want\n%q", compacted, parts, want)
		}
		j.Close(t.Context(), "")
	}
}
