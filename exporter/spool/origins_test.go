package spool

import (
	"fmt"
	"slices"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// TestOrigins has spans of two resources, ended and open, before and after the log
// is compacted.
func TestOrigins(t *testing.T) {
	for _, compacted := range []bool{false, true} {
		s := newSpool(t, 1<<20)
		j := newJournal(t, s)
		checkpoint(t, j, spanOf("root"))
		one, other := originOf(t), &Part{Scope: appendRecord(nil, 1, []byte("other"))}
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
		for _, p := range partsOf(got.spans()) {
			var names []string
			for _, w := range p.Spans {
				scope := new(tracepb.ScopeSpans)
				must(t, proto.Unmarshal(w, scope))
				names = append(names, scope.Spans[0].Name)
			}
			parts = append(parts, fmt.Sprintf("%q %q", p.Scope, names))
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
