package agent

import (
	"bytes"
	"math"
	"strconv"
	"time"

	"github.com/spantee/spantee/mapping/jsonscan"
)

// maxMillis is the largest time in milliseconds that fits into an Instant.
const maxMillis = 1 << 63 / 1000000

// millis reads an instant in milliseconds.
func millis(r *jsonscan.Reader) Instant {
	if ms, ok := r.Int(); ok && 0 < ms && ms < maxMillis {
		return Instant(ms) * Milliseconds
	}
	return 0
}

// isoTime reads an instant such as "2026-08-09T19:08:20.940Z".
func isoTime(r *jsonscan.Reader) Instant {
	t, err := time.Parse(time.RFC3339Nano, string(r.Str()))
	if err != nil || t.Year() < 1970 || t.Year() > 2200 {
		return 0
	}
	return Instant(t.UnixNano())
}

// readID reads an id: a string, or a number as some programs write it.
func readID(r *jsonscan.Reader) []byte {
	switch c := r.Peek(); {
	case c == '"':
		return jsonscan.Unquote(r.Quoted())
	case '0' <= c && c <= '9':
		return r.Raw()
	}
	r.Skip()
	return nil
}

// unquoteID returns an unescaped id, in buf if the id has escapes. plain says that it has
// none.
func unquoteID(buf *[]byte, id []byte, plain bool) []byte {
	if plain || bytes.IndexByte(id, '\\') < 0 {
		return id
	}
	from := len(*buf)
	*buf = jsonscan.AppendUnquoted(*buf, id)
	return (*buf)[from:len(*buf):len(*buf)]
}

// trimLine removes a byte order mark and white space around a line.
func trimLine(text []byte) []byte {
	return bytes.TrimSpace(trimMark(text))
}

// trimMark removes a byte order mark before a line.
func trimMark(text []byte) []byte { return bytes.TrimPrefix(text, []byte("\uFEFF")) }

// An objectReader appends the events of the next JSON object. It returns false if
// the object has no type.
type objectReader interface {
	read(*jsonscan.Reader, []Event) ([]Event, bool)
}

// A scanner walks lines. It is part of a Decoder so that no line has to allocate it.
type scanner struct {
	r       jsonscan.Reader
	tail    []byte // of a line past the parse limit
	arrival Instant
}

// Flush implements [Decoder].
func (s *scanner) Flush(dst []Event) []Event { return dst }

// readObjects appends the events of every JSON object of a line.
func (s *scanner) readObjects(line Line, dst []Event, reader objectReader) []Event {
	s.r, s.tail, s.arrival = jsonscan.Reader{B: trimLine(line.Text)}, line.Tail, line.Arrival
	r := &s.r
	for !r.End() {
		from := len(dst)
		ok := r.Peek() == '{'
		if ok {
			dst, ok = reader.read(r, dst)
		}
		if !ok || r.Bad && line.Tail == nil {
			return append(dst[:from], Event{Kind: Malformed})
		}
		for i := from; i < len(dst); i++ {
			if dst[i].Arrival == 0 { // the event was not held back
				dst[i].Arrival = line.Arrival
			}
		}
	}
	return dst
}

// readMember reads one member of an object, and skips the others.
func readMember(r *jsonscan.Reader, name string, read func()) {
	for key := range r.Members() {
		if string(key) == name {
			read()
		}
	}
}

// salvage reads the last value of each member from the tail of a line.
func salvage(tail []byte, field func(*jsonscan.Reader, []byte), names ...string) {
	for _, name := range names {
		if i := bytes.LastIndex(tail, []byte(`"`+name+`":`)); i >= 0 {
			field(&jsonscan.Reader{B: tail, I: i + len(name) + 3}, []byte(name))
		}
	}
}

// number reads a count.
func (f *facts) number(r *jsonscan.Reader, key string) {
	if n, ok := r.Int(); ok && n >= 0 {
		f.int(key, n)
	}
}

// readFailure reads the text and the name of an error: a text, or an object such as
// {"message":..,"code":..} or {"name":..,"data":{"message":..}}.
func readFailure(r *jsonscan.Reader) (text []byte, name string) {
	if r.Peek() == '"' {
		return r.Str(), ""
	}
	for key := range r.Members() {
		switch string(key) {
		case "message":
			text = r.Str()
		case "code", "type", "name":
			name = word(jsonscan.Unquote(bytes.Trim(r.Raw(), `"`)))
		case "data":
			text, _ = readFailure(r)
		}
	}
	return text, name
}

// finishReasons maps providers' finish reasons to the conventions'.
var finishReasons = map[string]string{
	"stop": "stop", "end_turn": "stop", "stop_sequence": "stop", "endTurn": "stop",
	"tool-calls": "tool_call", "tool_calls": "tool_call", "tool_use": "tool_call", "toolUse": "tool_call",
	"length": "length", "max_tokens": "length",
	"content-filter": "content_filter", "content_filter": "content_filter", "refusal": "content_filter",
	"error": "error",
}

// finishReason returns why a model stopped, "" if that is not known.
func finishReason(reason []byte) string { return finishReasons[string(reason)] }

// read reads token counts and costs, whatever the agent calls them.
func (u *Usage) read(r *jsonscan.Reader) {
	for key := range r.Members() {
		u.count(r, key)
	}
}

// count reads one count, or what it consists of.
func (u *Usage) count(r *jsonscan.Reader, key []byte) {
	var to *int64
	switch string(key) {
	case "input", "input_tokens", "inputTokens":
		to = &u.Input
	case "output", "output_tokens", "outputTokens":
		to = &u.Output
	case "read", "cached", "cacheRead", "cacheReadTokens", "cacheReadInputTokens", "cache_read_input_tokens", "cached_input_tokens":
		to = &u.CacheRead
	case "write", "cacheWrite", "cacheWriteTokens", "cacheCreationInputTokens", "cache_creation_input_tokens", "cache_write_input_tokens":
		to = &u.CacheWrite
	case "reasoning", "reasoningTokens", "reasoning_output_tokens", "thinkingTokens", "thinking_tokens":
		to = &u.Reasoning
	case "cache", "output_tokens_details":
		u.read(r)
		return
	case "cost", "cost_usd", "costUSD":
		u.readCost(r)
		return
	default:
		return
	}
	if n, ok := r.Int(); ok && n >= 0 {
		*to, u.Known = n, true
	}
}

// readCost reads a sum in USD, or {"input":..,"output":..,"total":..}.
func (u *Usage) readCost(r *jsonscan.Reader) {
	if r.Peek() == '{' {
		readMember(r, "total", func() { u.readCost(r) })
		return
	}
	v, err := strconv.ParseFloat(string(bytes.Trim(r.Raw(), `"`)), 64)
	if err == nil && v >= 0 && v < 1e9 {
		u.Cost, u.CostKnown = v, true
	}
}

// add adds counts.
func (u *Usage) add(v *Usage) {
	u.Input += v.Input
	u.Output += v.Output
	u.CacheRead += v.CacheRead
	u.CacheWrite += v.CacheWrite
	u.Reasoning += v.Reasoning
	u.Known = u.Known || v.Known
}

// sub subtracts earlier counts of the same total.
func (u *Usage) sub(earlier *Usage) {
	u.Input -= earlier.Input
	u.Output -= earlier.Output
	u.CacheRead -= earlier.CacheRead
	u.CacheWrite -= earlier.CacheWrite
	u.Reasoning = max(0, u.Reasoning-earlier.Reasoning)
	u.Cost = math.Round((u.Cost-earlier.Cost)*1e12) / 1e12 // as decimals subtract
}

// addCached adds the cached tokens to an input that leaves them out.
func (u *Usage) addCached() { u.Input += u.CacheRead + u.CacheWrite }

// remember adds a key to a map of bounded size.
func remember[V any](m map[string]V, key []byte, value V) {
	if len(m) >= maxSessions {
		clear(m)
	}
	m[string(key)] = value
}

// maxSessions is how many sessions, calls or texts a decoder remembers at once.
const maxSessions = 4096
