package agent

import (
	"bytes"
	"hash/maphash"
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

// trimLine removes a byte order mark and white space around a line.
func trimLine(text []byte) []byte {
	return bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\uFEFF")))
}

// A Decoder reads an agent's lines in one stream.
type Decoder struct {
	Agent *Agent
	objectDecoder
	r jsonscan.Reader
}

// An objectDecoder decodes the objects of an agent's lines. It gets the members of an
// object, in the line's order, and then appends the events.
type objectDecoder interface {
	// begin returns an empty reader for the next object. If it is the first one of a line,
	// the events of the objects before are not needed any more.
	begin(first bool) lineReader

	// events appends the events of the object. They refer to memory of the line and of the
	// decoder, and are valid until the next call.
	events(dst []Event) []Event

	// Flush appends the events that events held back for the next line of an input, which
	// has ended or paused.
	Flush(input int, dst []Event) []Event
}

// New returns a Decoder for one stream.
func (a *Agent) New() *Decoder { return &Decoder{Agent: a, objectDecoder: a.objects()} }

// Decode appends the events of every JSON object of a line to dst. They are valid until
// the next call.
func (d *Decoder) Decode(text Line, dst []Event) []Event {
	d.r = jsonscan.Reader{B: bytes.TrimPrefix(trimLine(text.Text), []byte(d.Agent.prefix))}
	for r := &d.r; !r.End(); {
		reader := d.begin(r.I == 0)
		l := reader.head()
		l.Arrival, l.input, l.recorded = text.Arrival, text.Input, text.Recorded
		start := r.I
		for key := range r.Members() {
			reader.field(r, key)
		}
		l.object = r.B[start:r.I]
		cut := r.Bad && text.Tail != nil
		if cut {
			salvage(text.Tail, reader.field, d.Agent.last...)
		}
		if len(l.typ) == 0 || r.Bad && !cut {
			return append(dst, Event{Kind: Malformed})
		}
		from := len(dst)
		dst = d.events(dst)
		onlyNames(dst[from:])
		for i := from; i < len(dst); i++ {
			ev := &dst[i]
			if ev.Arrival == 0 { // the event was not held back
				ev.Arrival = text.Arrival
			}
			if ev.Kind == Unknown {
				ev.Type = typeName(l.typ, l.subtype)
			}
		}
	}
	return dst
}

// Flush appends the events that were held back: see objectDecoder.
func (d *Decoder) Flush(input int, dst []Event) []Event {
	from := len(dst)
	dst = d.objectDecoder.Flush(input, dst)
	onlyNames(dst[from:])
	return dst
}

// onlyNames removes what is no name of a model or of a provider.
func onlyNames(events []Event) {
	for i := range events {
		ev := &events[i]
		ev.Model, ev.Provider = modelName(ev.Model), modelName(ev.Provider)
		for k := range ev.Models {
			ev.Models[k].Model = modelName(ev.Models[k].Model)
		}
	}
}

// A learner is the decoder of a stream that lacks what its agent's session log has.
type learner interface {
	learn(session string, since Instant, rows []byte) (start Event, ok bool)
}

// Learn reads rows of the log of a session in the stream, and returns the beginning of the
// session's last run since a time: its model and facts. It returns false if the log does not
// have it, or the stream lacks nothing.
func (d *Decoder) Learn(session string, since Instant, rows []byte) (start Event, ok bool) {
	if stream, lacks := d.objectDecoder.(learner); lacks {
		start, ok = stream.learn(session, since, rows)
		start.Model, start.Provider = modelName(start.Model), modelName(start.Provider)
	}
	return start, ok
}

// A lineReader reads the members of an object.
type lineReader interface {
	head() *line
	field(r *jsonscan.Reader, key []byte)
}

// A lineOf is the line that a decoder reads.
type lineOf[L any, P interface {
	*L
	lineReader
}] struct{ line L }

func (c *lineOf[L, P]) begin(bool) lineReader {
	var empty L
	c.line = empty
	return P(&c.line)
}

// Linters do not see that lineOf uses these types.
var _ = []lineReader{(*codexRow)(nil), (*droidLine)(nil), (*gooseLine)(nil)}

// holdsNothing is the Flush of a decoder that emits all events at once.
type holdsNothing struct{}

func (holdsNothing) Flush(_ int, dst []Event) []Event { return dst }

// A line holds the members of a line that mean the same for all agents. A decoder reads the
// members that only its agent has, and makes events of both.
type line struct {
	Event
	typ, subtype []byte
	role         string
	fault        []byte // the text of an error
	code         string // the name of that error

	object   []byte // as it is written
	input    int    // that the line is from
	recorded bool   // its arrival is a place, see Line
}

func (l *line) head() *line { return l }

// field reads a member that means the same in the lines of all agents that have it.
func (l *line) field(r *jsonscan.Reader, key []byte) {
	switch string(key) {
	case "type":
		l.typ = r.Str()
	case "subtype":
		l.subtype = r.Str()
	case "session_id", "sessionID", "sessionId":
		l.Session = readID(r)
	case "timestamp", "timestamp_ms":
		l.Time = stamp(r)
	case "call_id", "callID", "toolCallId", "tool_id", "tool_use_id":
		l.ID = readID(r)
	case "text", "thinking":
		l.Text = r.Str()
	case "model":
		l.Model = jsonscan.Unquote(r.Str())
	case "provider":
		l.Provider = jsonscan.Unquote(r.Str())
	case "role":
		l.role = string(enumOf(r))
	case "status":
		l.Status = string(enumOf(r))
	case "is_error", "isError":
		l.Failed = r.Bool()
	case "error":
		l.fault, l.code = readFailure(r)
	case "message":
		l.fault = r.Str()
	case "duration_ms", "durationMs":
		l.Length = millis(r)
	case "usage":
		l.used().read(r)
		l.Usage.addCached()
	case "toolName", "tool_name":
		l.tool().named(r.Str())
	case "arguments", "args", "parameters":
		l.tool().readArguments(r)
	case "output", "aggregated_output":
		l.tool().readOutput(r)
	case "cwd":
		l.Facts.text(semconv.ProcessWorkingDirectory, Detail, r.Str())
	default:
		l.Facts.read(r, lineFacts, key)
	}
}

// tool returns what the line states about a call.
func (l *line) tool() *Tool {
	if l.Tool == nil {
		l.Tool = new(Tool)
	}
	return l.Tool
}

// readBlocks reads the content of a message: a text, or a list of blocks.
func readBlocks(r *jsonscan.Reader) (blocks []line) {
	if r.Peek() == '"' {
		return []line{{Event: Event{Kind: TextMessage, Text: r.Str()}}}
	}
	for range r.Elements() {
		blocks = append(blocks, readBlock(r))
	}
	return blocks
}

// readBlock reads a block of a message's content. Tools that a model's API itself runs have
// types of their own, such as server_tool_use and web_search_tool_result.
func readBlock(r *jsonscan.Reader) (b line) {
	for key := range r.Members() {
		switch string(key) {
		case "id":
			b.ID = readID(r)
		case "name":
			b.tool().named(r.Str())
		case "input":
			b.tool().readArguments(r)
		case "content":
			b.tool().readResult(r)
		case "type", "text", "thinking", "tool_use_id", "arguments", "is_error":
			b.field(r, key)
		}
	}
	switch {
	case string(b.typ) == "text":
		b.Kind = TextMessage
	case bytes.HasSuffix(b.typ, []byte("thinking")):
		b.Kind = ThinkingMessage
	case bytes.HasSuffix(b.typ, []byte("tool_use")), string(b.typ) == "toolCall":
		b.Kind = ToolStart
	case bytes.HasSuffix(b.typ, []byte("tool_result")):
		b.Kind = ToolEnd
	}
	return b
}

// firstText returns the first text of a message, nil if it has none.
func firstText(blocks []line) []byte {
	for i := range blocks {
		if blocks[i].Kind == TextMessage {
			return blocks[i].Text
		}
	}
	return nil
}

// used returns what the line states about token counts.
func (l *line) used() *Usage {
	if l.Usage == nil {
		l.Usage = new(Usage)
	}
	return l.Usage
}

// warn makes a notice of a line that warns of something.
func (l *line) warn(text []byte) {
	l.Kind, l.Notice = Notice, semconv.EventWarning
	l.Facts.text(semconv.Message, Full, text)
}

// lineFacts are the attributes for members that state a fact about a run or an incident.
var lineFacts = factTable{
	"attempt":              {semconv.Attempt, count},
	"maxAttempts":          {semconv.MaxAttempts, count},
	"max_retries":          {semconv.MaxAttempts, count},
	"delayMs":              {semconv.DelayMillis, count},
	"delay_ms":             {semconv.DelayMillis, count},
	"retryAttempt":         {semconv.Attempt, count},
	"maxRetries":           {semconv.MaxAttempts, count},
	"retryInMs":            {semconv.DelayMillis, count},
	"is_resume":            {semconv.RetryResumes, flag},
	"retry_delay_ms":       {semconv.DelayMillis, count},
	"permissionMode":       {semconv.PermissionMode, enumText},
	"permission_mode":      {semconv.PermissionMode, enumText},
	"claude_code_version":  {semconv.AgentVersion, wordText},
	"qwen_code_version":    {semconv.AgentVersion, wordText},
	"apiKeySource":         {semconv.ClaudeAPIKeySource, wordText},
	"terminal_reason":      {semconv.ClaudeTerminalReason, enumText},
	"api_error_status":     {semconv.HTTPResponseStatus, count},
	"error_status":         {semconv.HTTPResponseStatus, count},
	"error_category":       {semconv.Reason, enumText},
	"reason":               {semconv.Reason, enumText},
	"trigger":              {semconv.Reason, enumText},
	"reasoning_effort":     {semconv.ReasoningLevel, enumText},
	"thinkingLevel":        {semconv.ReasoningLevel, enumText},
	"hook_event":           {semconv.HookEvent, enumText},
	"outcome":              {semconv.HookOutcome, enumText},
	"exit_code":            {semconv.ProcessExitCode, count},
	"pre_tokens":           {semconv.TokensBefore, count},
	"preCompactionTokens":  {semconv.TokensBefore, count},
	"preTokens":            {semconv.TokensBefore, count},
	"tokensBefore":         {semconv.TokensBefore, count},
	"post_tokens":          {semconv.TokensAfter, count},
	"postCompactionTokens": {semconv.TokensAfter, count},
	"postTokens":           {semconv.TokensAfter, count},
	"tokensAfter":          {semconv.TokensAfter, count},
	"estimatedTokensAfter": {semconv.TokensAfter, count},
	"rateLimitType":        {semconv.RateLimitType, enumText},
	"resetsAt":             {semconv.RateLimitResets, count},
}

// held are events that wait for a later line.
type held []Event

// hold returns copies of events, which outlive their line.
func hold(events ...Event) held {
	for i := range events {
		events[i] = events[i].Kept()
	}
	return events
}

// take appends the events to dst, and holds none of them any more.
func (h *held) take(dst []Event) []Event {
	dst = append(dst, *h...)
	*h = nil
	return dst
}

// A logRun is a run in a session log. Its end is held back, because the model may say more.
type logRun struct {
	running bool // the run has begun, and its end was not emitted
	end     held
}

// finish appends the end of the run if it was held back.
func (r *logRun) finish(dst []Event) []Event {
	r.running = r.running && len(r.end) == 0
	return r.end.take(dst)
}

// inSession sets the session of events.
func inSession(session []byte, events []Event) {
	for i := range events {
		events[i].Session = session
	}
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

// remember adds a key to a map of bounded size.
func remember[V any](m map[string]V, key []byte, value V) {
	if len(m) >= maxSessions {
		clear(m)
	}
	m[string(key)] = value
}

// recall returns the value of a key of a map of bounded size, a new one if there is none.
func recall[V any](m map[string]*V, key []byte) *V {
	v := m[string(key)]
	if v == nil {
		v = new(V)
		remember(m, key, v)
	}
	return v
}

// A memory maps hashes of ids to values. It forgets the oldest half of them when it is
// full.
type memory[V any] struct {
	seed           maphash.Seed
	latest, before map[uint64]V
}

func newMemory[V any]() memory[V] {
	return memory[V]{seed: maphash.MakeSeed(), latest: map[uint64]V{}}
}

// maxMemory is how many ids are in one map before the next is begun.
const maxMemory = 1 << 20

func (m *memory[V]) hash(ids ...[]byte) uint64 {
	var h maphash.Hash
	h.SetSeed(m.seed)
	for _, id := range ids {
		_, _ = h.Write(id)
		_ = h.WriteByte(0)
	}
	return h.Sum64()
}

// keep keeps the value of an id that it does not know. It returns the value that it has,
// and whether it knew the id.
func (m *memory[V]) keep(id uint64, value V) (kept V, known bool) {
	for _, ids := range []map[uint64]V{m.latest, m.before} {
		if kept, known = ids[id]; known {
			return kept, true
		}
	}
	if len(m.latest) >= maxMemory {
		m.before, m.latest = m.latest, map[uint64]V{}
	}
	m.latest[id] = value
	return value, false
}

// maxSessions is how many sessions, calls or texts a decoder remembers at once.
const maxSessions = 4096
