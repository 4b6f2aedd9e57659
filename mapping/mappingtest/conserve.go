package mappingtest

import (
	"errors"
	"fmt"
	"strings"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// counted are the counts that every chat has, and that a root may have as sums.
var counted = []string{
	"spantee.text.deltas", "spantee.text.bytes", "spantee.thinking.deltas", "spantee.thinking.bytes",
}

// Conserved returns an error if the spans of complete traces are inconsistent:
// counts that do not add up, siblings that touch, or children outside of their
// parents.
//
// The deltas of a run's chats add up to the root's spantee.deltas, and so do the
// other counts that the root has. An agent's own chats last as long as its
// spantee.model_ms. A chat with delta events, of its own or in
// "deltas" children, has as many as its count; an event that stands for several
// deltas states how many.
func Conserved(spans []*tracepb.Span) error {
	f := newFamily(spans)
	var problems []error
	for _, root := range f.roots {
		if stringOf(root, "gen_ai.operation.name") == "invoke_agent" {
			problems = append(problems, f.counts(root)...)
		}
	}
	for _, span := range spans {
		problems = append(problems, f.touching(span)...)
		if err := f.modelTime(span); err != nil {
			problems = append(problems, err)
		}
		if err := f.outside(span); err != nil {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

// counts compares a root's counts with the sums over the chats below it.
func (f family) counts(root *tracepb.Span) []error {
	var problems []error
	sums := map[string]int64{}
	for _, chat := range f.chats(root) {
		if micros(chat.EndTimeUnixNano) > micros(root.EndTimeUnixNano) {
			continue // of a sub-agent that outlived the run
		}
		for _, key := range counted {
			sums[key] += intOf(chat, key)
		}
		if err := f.events(chat); err != nil {
			problems = append(problems, err)
		}
	}
	deltas := sums["spantee.text.deltas"] + sums["spantee.thinking.deltas"]
	if got := intOf(root, "spantee.deltas"); got != deltas {
		problems = append(problems, fmt.Errorf("%s counts %d deltas, its chats %d", describe(root), got, deltas))
	}
	for _, key := range counted {
		if got := intOf(root, key); has(root, key) && got != sums[key] {
			problems = append(problems, fmt.Errorf("%s has %s = %d, its chats %d", describe(root), key, got, sums[key]))
		}
	}
	return problems
}

// modelTime compares an agent's time in the model with the lengths of its own chats,
// each of which ends a microsecond early.
func (f family) modelTime(agent *tracepb.Span) error {
	if !has(agent, "spantee.model_ms") {
		return nil
	}
	sum := int64(0)
	for _, child := range f.children[spanKey(agent)] {
		if stringOf(child, "gen_ai.operation.name") == "chat" {
			sum += micros(child.EndTimeUnixNano) + 1 - micros(child.StartTimeUnixNano)
		}
	}
	if got := intOf(agent, "spantee.model_ms"); got != sum/1000 && got+1 != sum/1000 && got-1 != sum/1000 {
		return fmt.Errorf("%s has %d ms of model time, its chats %d us", describe(agent), got, sum)
	}
	return nil
}

// chats returns the chats below span, sub-agents' included.
func (f family) chats(span *tracepb.Span) []*tracepb.Span {
	var chats []*tracepb.Span
	for _, child := range f.children[spanKey(span)] {
		if stringOf(child, "gen_ai.operation.name") == "chat" {
			chats = append(chats, child)
		}
		chats = append(chats, f.chats(child)...)
	}
	return chats
}

// events compares a chat's counts with its events and those of its "deltas"
// children. Without any events there is nothing to compare: they are optional.
func (f family) events(chat *tracepb.Span) error {
	holders := []*tracepb.Span{chat}
	for _, child := range f.children[spanKey(chat)] {
		if child.Name == "deltas" {
			holders = append(holders, child)
		}
	}
	found := map[string]int64{}
	for _, holder := range holders {
		for _, event := range holder.Events {
			number := int64(1)
			if n := value(event.Attributes, "spantee.delta.count"); n != nil {
				number = n.GetIntValue()
			}
			found[event.Name] += number
		}
	}
	for kind, event := range map[string]string{
		"spantee.text.deltas": "text.delta", "spantee.thinking.deltas": "thinking.delta",
	} {
		if number := found[event]; number != 0 && number != intOf(chat, kind) {
			return fmt.Errorf("%s has %s = %d, and %d events %s", describe(chat), kind, intOf(chat, kind), number, event)
		}
	}
	return nil
}

// touching finds children of span that end in the very microsecond in which a
// later one starts: Jaeger's critical path passes over them.
func (f family) touching(span *tracepb.Span) []error {
	starts := map[int64]*tracepb.Span{}
	children := f.children[spanKey(span)]
	for _, child := range children {
		starts[micros(child.StartTimeUnixNano)] = child
	}
	var problems []error
	for _, child := range children {
		end := micros(child.EndTimeUnixNano)
		if later := starts[end]; later != nil && micros(child.StartTimeUnixNano) < end {
			problems = append(problems, fmt.Errorf("%s ends when %s starts", describe(child), describe(later)))
		}
	}
	return problems
}

// outside finds a span that does not lie within its parent, in microseconds.
func (f family) outside(span *tracepb.Span) error {
	start, end := micros(span.StartTimeUnixNano), micros(span.EndTimeUnixNano)
	if start > end {
		return fmt.Errorf("%s ends before it starts", describe(span))
	}
	parent := f.spans[parentKey(span)]
	if parent == nil || strings.HasPrefix(span.Name, "background") { // background work may outlive the run
		return nil
	}
	early := micros(parent.StartTimeUnixNano) - start
	late := end - micros(parent.EndTimeUnixNano)
	if early > 0 || late > 0 {
		return fmt.Errorf("%s lies outside of %s: %d us before its start, %d us after its end",
			describe(span), describe(parent), max(early, 0), max(late, 0))
	}
	return nil
}

func describe(span *tracepb.Span) string {
	return fmt.Sprintf("%q (%x)", span.Name, span.SpanId)
}
