package spool

import (
	"fmt"
	"slices"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// TestHeads has spans of two resources, ended and open, before and after the log
// is compacted.
func TestHeads(t *testing.T) {
	for _, compacted := range []bool{false, true} {
		s := newSpool(t, 1<<20)
		j := newJournal(t, s)
		checkpoint(t, j, spanOf("root"))
		other := j.AddHead(Part{Scope: appendRecord(nil, fieldScope, appendRecord(nil, 1, []byte("other")))}.AppendTo(nil))
		ended := encodedSpans(t, spansOf("first", "second", "third")...)
		ended[1].Head = other
		open := encodedSpans(t, spansOf("root", "root 2")...)
		open[1].Head = other
		if compacted {
			j.size = 1 << 30
		}
		j.piece = ended
		must(t, j.save(open))

		got, err := readLog(j.file.path())
		must(t, err)
		var parts []string
		for _, p := range got.parts() {
			var names []string
			for _, w := range p.Spans {
				scope := new(tracepb.ScopeSpans)
				must(t, proto.Unmarshal(w, scope))
				names = append(names, scope.Spans[0].Name)
			}
			parts = append(parts, fmt.Sprintf("%q %q", p.Scope, names))
		}
		want := []string{
			fmt.Sprintf("%q %q", got.heads[0].Scope, []string{"first", "third", "root"}),
			fmt.Sprintf("%q %q", got.heads[other].Scope, []string{"second", "root 2"}),
		}
		if !slices.Equal(parts, want) || string(got.heads[0].Scope) == string(got.heads[other].Scope) {
			t.Errorf("compacted %v:\n%q, want\n%q", compacted, parts, want)
		}
		j.Close(t.Context(), "")
	}
}
