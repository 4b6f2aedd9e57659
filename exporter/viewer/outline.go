package viewer

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/spantee/spantee/exporter/runs"
)

// TestSpan is the name of the span that spantee doctor sends. The viewer shows it until
// its next start, and does not count it as a run.
const TestSpan = "spantee doctor"

// An outline is what Runs reads of one run.
type outline struct {
	start, took, firstChunk int64 // microseconds
	usage                   runs.Usage
	tools, toolErrors       int64
	timeless                bool
	agent, model            []byte
	folder, failure         []byte
	toolNames               [][]byte
	calls                   []runs.Call
}

// newOutline encodes the outline of a run.
func newOutline(s *Session, r *runs.Run) (b []byte) {
	u, flags := r.Usage(), uint64(0)
	if s.Timeless {
		flags |= outlineTimeless
	}
	if u.CostKnown {
		flags |= outlineStated
	}
	for _, n := range []uint64{
		flags, math.Float64bits(u.Cost), uint64(s.Start), uint64(s.End - s.Start), uint64(s.FirstChunk), uint64(u.InputTokens), uint64(u.OutputTokens),
		uint64(u.CacheReadTokens), uint64(u.CacheWriteTokens), uint64(r.ToolErrors), uint64(r.Tools), uint64(r.ToolErrors),
	} {
		b = binary.AppendUvarint(b, n)
	}
	for _, text := range slices.Concat([]string{cmp.Or(s.Agent, s.Service), s.Model, s.Folder, s.Failure}, r.ToolNames, []string{""}) {
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	for _, call := range r.Calls {
		failed := uint64(0)
		if call.Failed {
			failed = 1
		}
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(call.Tool)<<1|failed), uint64(call.Took.Microseconds()))
	}
	return b
}

const (
	outlineTimeless = 1 << iota
	outlineStated
)

// read decodes an outline, which refers to b.
func (o *outline) read(b []byte) {
	number := func() int64 {
		n, size := binary.Uvarint(b)
		b = b[max(0, size):]
		return int64(n)
	}
	text := func() []byte {
		size := min(int(number()), len(b))
		t := b[:size]
		b = b[size:]
		return t
	}
	*o = outline{toolNames: o.toolNames[:0], calls: o.calls[:0]}
	flags := number()
	o.timeless, o.usage.CostKnown = flags&outlineTimeless != 0, flags&outlineStated != 0
	o.usage.Cost = math.Float64frombits(uint64(number()))
	for _, n := range []*int64{
		&o.start, &o.took, &o.firstChunk, &o.usage.InputTokens, &o.usage.OutputTokens,
		&o.usage.CacheReadTokens, &o.usage.CacheWriteTokens, &o.toolErrors, &o.tools, &o.toolErrors, // the first was once something else
	} {
		*n = number()
	}
	o.agent, o.model, o.folder, o.failure = text(), text(), text(), text()
	for name := text(); len(name) > 0; name = text() {
		o.toolNames = append(o.toolNames, name)
	}
	for len(b) > 0 {
		tool := number()
		o.calls = append(o.calls, runs.Call{Tool: int32(tool >> 1), Failed: tool&1 != 0, Took: time.Duration(number()) * time.Microsecond})
	}
}
