package agent

import (
	"bytes"
	"cmp"
	"math"
	"strconv"
	"time"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// maxMillis is the largest time in milliseconds that fits into an Instant.
const maxMillis = 1 << 63 / 1000000

// millis reads an instant or a duration in milliseconds.
func millis(r *jsonscan.Reader) Instant {
	if ms, ok := r.Int(); ok && 0 < ms && ms < maxMillis {
		return Instant(ms) * Milliseconds
	}
	return 0
}

// readMillis reads a duration in milliseconds, which may have a fraction.
func readMillis(r *jsonscan.Reader) Instant {
	ms, err := strconv.ParseFloat(string(bytes.Trim(r.Raw(), `"`)), 64)
	if err != nil || ms <= 0 || ms >= maxMillis {
		return 0
	}
	return Instant(ms * float64(Milliseconds))
}

// isoTime returns an instant such as 2026-08-09T19:08:20.940Z.
func isoTime(s []byte) Instant {
	var t time.Time
	if err := t.UnmarshalText(s); err != nil || t.UnixMilli() <= 0 || t.UnixMilli() >= maxMillis {
		return 0
	}
	return Instant(t.UnixNano())
}

// stamp reads an instant: a date, or milliseconds.
func stamp(r *jsonscan.Reader) Instant {
	if r.Peek() != '"' {
		return millis(r)
	}
	s := r.Quoted()
	if bytes.IndexByte(s, '-') > 0 {
		return isoTime(s)
	}
	return millis(&jsonscan.Reader{B: s})
}

// RowTime returns the timestamp of a session log's row, 0 if it has none.
func RowTime(row []byte) (at Instant) {
	r := jsonscan.Reader{B: row}
	if r.Peek() != '{' {
		return 0
	}
	for key := range r.Members() {
		if string(key) == "timestamp" {
			return stamp(&r)
		}
	}
	return 0
}

// trimLine removes a byte order mark and white space around a line.
func trimLine(text []byte) []byte {
	return bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\uFEFF")))
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

// A factTable has the attributes for members, by name, and what their values may be.
type factTable map[string]struct {
	key  string
	kind valueKind
}

type valueKind uint8

const (
	number   valueKind = iota + 1
	count              // a number that is not negative
	flag               // recorded only if true
	size               // of a text
	enumText           // see enum
	wordText           // see word
)

// read records a member that the table has.
func (f *Facts) read(r *jsonscan.Reader, table factTable, name []byte) {
	switch fact := table[string(name)]; fact.kind {
	case number, count:
		if n, ok := r.Int(); ok && (n >= 0 || fact.kind == number) {
			f.int(fact.key, n)
		}
	case flag:
		if r.Bool() {
			f.bool(fact.key)
		}
	case size:
		if r.Peek() == '"' {
			f.int(fact.key, int64(jsonscan.UnquotedLen(r.Str())))
		}
	case enumText:
		f.word(fact.key, enumOf(r))
	case wordText:
		f.word(fact.key, wordOf(r))
	}
}

// A fault is what an error says.
type fault struct {
	text   []byte
	name   string
	status int64 // of HTTP, 0 if none is stated
}

// readFailure reads the text and the name of an error.
func readFailure(r *jsonscan.Reader) (text []byte, name string) {
	f := readFault(r)
	return f.text, f.name
}

// readFault reads an error: a text, or an object such as {"message":..,"code":..},
// {"name":..,"data":{"message":..}} or {"message":..,"codex_error_info":..}. Of several, it
// reads the last one.
func readFault(r *jsonscan.Reader) (f fault) {
	switch r.Peek() {
	case '"':
		f.text = r.Str()
		return f
	case '[':
		for range r.Elements() {
			f = readFault(r)
		}
		return f
	}
	for key := range r.Members() {
		switch string(key) {
		case "message":
			f.text = r.Str()
		case "code", "type", "name":
			f.name = word(jsonscan.Unquote(bytes.Trim(r.Raw(), `"`)))
		case "statusCode", "http_status_code", "status":
			f.status, _ = r.Int()
		case "data":
			inner := readFault(r)
			f.text, f.status = inner.text, cmp.Or(inner.status, f.status)
		case "codex_error_info": // {"http_connection_failed":{"http_status_code":401}}
			for range r.Members() {
				f.status = cmp.Or(readFault(r).status, f.status)
			}
		}
	}
	return f
}

// status records the HTTP status of a failure, if one is stated.
func (f *Facts) status(status int64) {
	if status > 0 {
		f.int(semconv.HTTPResponseStatus, status)
	}
}

// finishReasons maps providers' finish reasons to the conventions'.
var finishReasons = map[string]string{
	"stop": "stop", "end_turn": "stop", "stop_sequence": "stop", "endTurn": "stop",
	"tool-calls": "tool_call", "tool_calls": "tool_call", "tool_use": "tool_call", "toolUse": "tool_call",
	"length": "length", "max_tokens": "length", "model_context_window_exceeded": "length",
	"content-filter": "content_filter", "content_filter": "content_filter", "refusal": "content_filter",
	"error": "error", "pause_turn": "continued",
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
	case "read", "cached", "cacheRead", "cacheReadTokens", "cacheReadInputTokens", "cache_read_tokens", "cache_read_input_tokens", "cached_input_tokens":
		to = &u.CacheRead
	case "write", "cacheWrite", "cacheWriteTokens", "cacheCreationInputTokens", "cache_creation_input_tokens", "cache_write_input_tokens":
		to = &u.CacheWrite
	case "reasoning", "reasoningTokens", "reasoning_output_tokens", "thinkingTokens", "thinking_tokens":
		to = &u.Reasoning
	case "ephemeral_1h_input_tokens":
		to = &u.CacheWriteHour
	case "web_search_requests", "webSearchRequests":
		to = &u.WebSearches
	case "cache", "output_tokens_details", "cache_creation", "server_tool_use":
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

// copied returns a copy, which the next object of the line does not change.
func (u Usage) copied() *Usage { return &u }

// Add adds counts.
func (u *Usage) Add(v *Usage) {
	u.Input += v.Input
	u.Output += v.Output
	u.CacheRead += v.CacheRead
	u.CacheWrite += v.CacheWrite
	u.Reasoning += v.Reasoning
	u.CacheWriteHour += v.CacheWriteHour
	u.WebSearches += v.WebSearches
	u.Known = u.Known || v.Known
}

// AddCost adds a cost, as decimals add up.
func (u *Usage) AddCost(v *Usage) {
	u.Cost = math.Round((u.Cost+v.Cost)*1e12) / 1e12
	u.CostKnown = u.CostKnown || v.CostKnown
}

// Sub subtracts earlier counts of the same total.
func (u *Usage) Sub(earlier *Usage) {
	u.Input -= earlier.Input
	u.Output -= earlier.Output
	u.CacheRead -= earlier.CacheRead
	u.CacheWrite -= earlier.CacheWrite
	u.Reasoning = max(0, u.Reasoning-earlier.Reasoning)
	u.CacheWriteHour = max(0, u.CacheWriteHour-earlier.CacheWriteHour)
	u.WebSearches = max(0, u.WebSearches-earlier.WebSearches)
	u.Cost = math.Round((u.Cost-earlier.Cost)*1e12) / 1e12 // as decimals subtract
}

// addCached adds the cached tokens to an input that leaves them out.
func (u *Usage) addCached() { u.Input += u.CacheRead + u.CacheWrite }
