package mapping_test

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// heldBack is how long TestHeldLine holds a line back.
const heldBack = 2 * time.Second

// holdLine returns a stream whose nth line is printed later: stamped so, and behind the lines
// that were printed meanwhile. It returns nil if the line has no stamp, or would be printed
// behind another one of its call.
func holdLine(in []byte, n int) []byte {
	all := slices.Collect(bytes.Lines(in))
	stamp := firstStamp(all[n])
	if stamp == 0 {
		return nil
	}
	later := stamp + heldBack.Milliseconds()
	held := bytes.Replace(all[n], strconv.AppendInt([]byte(`"timestamp_ms":`), stamp, 10), strconv.AppendInt([]byte(`"timestamp_ms":`), later, 10), 1)
	_, id, _ := bytes.Cut(all[n], []byte(`"call_id":`))
	id, _, _ = bytes.Cut(id, []byte(`,`))
	to := n + 1
	for ; to < len(all); to++ {
		if next := firstStamp(all[to]); next > later || bytes.Contains(all[to], []byte(`"type":"result"`)) {
			break
		}
		if bytes.Contains(all[to], id) { // a call's end is not printed before its start
			return nil
		}
	}
	return bytes.Join(slices.Concat(all[:n], all[n+1:to], [][]byte{held}, all[to:]), nil)
}

// TestHeldLine holds back one line of a call at a time, of calls that are as long as the agent's
// own clock says. If the call moves, or what that line sets besides (the end of the chat that
// made the call, the start of the next one), that is marked, or right by the other clock.
func TestHeldLine(t *testing.T) {
	t.Parallel()
	tried, held := oneIn(2), 0
	for name, in := range fixtures(t) {
		if !strings.HasPrefix(short(name), "cursor/") {
			continue
		}
		for n, line := range slices.Collect(bytes.Lines(in)) {
			late, own := holdLine(in, n), ownLengthOf(in, line)
			if late == nil || own < 0 || !tried() {
				continue
			}
			for how, mapped := range map[string]func([]byte) []*tracepb.Span{
				"recorded": func(in []byte) []*tracepb.Span { spans, _ := feed{}.spans(t, in); return spans },
				"live":     func(in []byte) []*tracepb.Span { return printedLive(t, in) },
			} {
				before, after := callOf(mapped(in), line), callOf(mapped(late), line)
				if before.call == nil || after.call == nil || !isAsLong(before.call, own) || attr(before.call, "spantee.start_missing") != nil {
					continue // its two clocks disagree, or it has one line
				}
				held++
				wrong := func(what string, was, is *tracepb.Span, at func(*tracepb.Span) uint64, marked bool) {
					if was == nil || is == nil || marked {
						return
					}
					if moved := time.Duration(at(is) - at(was)); moved.Abs() > 61*time.Millisecond {
						t.Errorf("%s, line %d held back, %s: the %s of %s moves by %v unmarked", short(name), n+1, how, what, is.Name, moved)
					}
				}
				guess := func(s *tracepb.Span, key string) bool { return s != nil && attr(s, key).GetStringValue() == "inferred" }
				start, end := (*tracepb.Span).GetStartTimeUnixNano, (*tracepb.Span).GetEndTimeUnixNano
				known := attr(after.call, "spantee.time.estimated").GetBoolValue() || isAsLong(after.call, own)
				wrong("start", before.call, after.call, start, known)
				wrong("end", before.call, after.call, end, known)
				wrong("end", before.by, after.by, end, guess(after.by, "spantee.time.end"))
				wrong("start", before.next, after.next, start, guess(after.next, "spantee.time.start"))
			}
		}
	}
	if held < 10 {
		t.Errorf("%d lines were held back", held)
	}
}

// A timedCall is a call with the chat that made it and, if the call was the last one before it, the next.
type timedCall struct{ call, by, next *tracepb.Span }

// callOf returns the call of a line.
func callOf(spans []*tracepb.Span, line []byte) (c timedCall) {
	_, id, _ := bytes.Cut(line, []byte(`"call_id":"`))
	id, _, _ = bytes.Cut(id, []byte(`"`))
	wanted := strings.ReplaceAll(string(id), `\n`, "\n")
	calls := 0
	for _, s := range spans {
		if attr(s, "gen_ai.tool.call.id").GetStringValue() == wanted && strings.HasPrefix(s.Name, "execute_tool") {
			c.call = s
			calls++
		}
	}
	if calls != 1 {
		return timedCall{}
	}
	last := true
	turn := func(s *tracepb.Span) int64 { return attr(s, "spantee.turn").GetIntValue() }
	for _, s := range spans {
		switch {
		case string(s.TraceId) != string(c.call.TraceId), string(s.ParentSpanId) != string(c.call.ParentSpanId):
		case strings.HasPrefix(s.Name, "execute_tool") && turn(s) == turn(c.call) && s.EndTimeUnixNano > c.call.EndTimeUnixNano:
			last = false
		case strings.HasPrefix(s.Name, "chat") && turn(s) == turn(c.call):
			c.by = s
		case strings.HasPrefix(s.Name, "chat") && turn(s) == turn(c.call)+1:
			c.next = s
		}
	}
	if !last {
		c.next = nil
	}
	return c
}

func isAsLong(s *tracepb.Span, as time.Duration) bool {
	return (time.Duration(s.EndTimeUnixNano-s.StartTimeUnixNano) - as).Abs() <= 61*time.Millisecond
}

// ownLengthOf returns the length that the agent states of the call of a line, -1 if it states none.
func ownLengthOf(in, line []byte) time.Duration {
	_, id, _ := bytes.Cut(line, []byte(`"call_id":"`))
	id, _, _ = bytes.Cut(id, []byte(`"`))
	for key, lengths := range ownLengths(in) {
		if strings.HasSuffix(key, " "+strings.ReplaceAll(string(id), `\n`, "\n")) && len(lengths) == 1 {
			return lengths[0]
		}
	}
	return -1
}

// codexItem is a line of Codex's log about a call, with the clock of the call's own.
var codexItem = regexp.MustCompile(`^{"timestamp":"([^"]*)".*"type":"item_completed".*"type":"(?:CommandExecution|McpToolCall|FileChange)","id":"([^"]*)".*"started_at_ms":(\d+),"completed_at_ms":(\d+)`)

// holdItem returns a log whose nth line is written later, behind the lines that were written
// meanwhile, but not behind another one of its call or the end of its turn.
func holdItem(in []byte, n int, stamp, id string) []byte {
	at, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil {
		return nil
	}
	later := at.Add(heldBack).Format("2006-01-02T15:04:05.000Z07:00")
	all := slices.Collect(bytes.Lines(in))
	held := bytes.Replace(all[n], []byte(stamp), []byte(later), 1)
	to := n + 1
	for ; to < len(all); to++ {
		if _, next, _ := bytes.Cut(all[to], []byte(`"timestamp":"`)); string(next[:len(later)]) > later || bytes.Contains(all[to], []byte(`"task_complete"`)) || bytes.Contains(all[to], []byte(`"`+id+`"`)) {
			break
		}
	}
	return bytes.Join(slices.Concat(all[:n], all[n+1:to], [][]byte{held}, all[to:]), nil)
}

// TestHeldItem holds back one item of Codex's log at a time. Its call stays where the item's own
// clock has it.
func TestHeldItem(t *testing.T) {
	held := 0
	for name, in := range fixtures(t) {
		if !strings.HasPrefix(short(name), "codex-log/") {
			continue
		}
		for n, line := range slices.Collect(bytes.Lines(in)) {
			item := codexItem.FindSubmatch(line)
			if item == nil {
				continue
			}
			held++
			late, _ := feed{}.spans(t, holdItem(in, n, string(item[1]), string(item[2])))
			for _, s := range late {
				if attr(s, "gen_ai.tool.call.id").GetStringValue() != string(item[2]) || attr(s, "spantee.time.estimated").GetBoolValue() {
					continue
				}
				for at, own := range map[uint64][]byte{s.StartTimeUnixNano: item[3], s.EndTimeUnixNano: item[4]} {
					ms, _ := strconv.ParseInt(string(own), 10, 64)
					if off := time.Duration(int64(at) - ms*1e6); off.Abs() > 61*time.Millisecond {
						t.Errorf("%s, line %d held back: an edge of %s is off by %v unmarked", short(name), n+1, s.Name, off)
					}
				}
			}
		}
	}
	if held < 4 {
		t.Errorf("%d items were held back", held)
	}
}
