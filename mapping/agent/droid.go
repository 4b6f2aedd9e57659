package agent

import (
	"bytes"
	"cmp"
	"hash/maphash"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// droid is Factory's Droid, run as droid exec -o stream-json. Some builds write
// times. Newer ones repeat lines, and repeat a text whenever it has grown, so lines
// are identified by their ids.
var droid = Agent{
	Flag:     "droid",
	Name:     "droid",
	Nameless: true,
	New: func() Decoder {
		d := new(droidDecoder)
		d.begin(nil)
		return d
	},
	IsProof: func(m *Marks) bool {
		switch m.Type {
		case "tool_call":
			return m.has("toolName")
		case "tool_result":
			return m.has("toolId") && m.has("isError")
		case "reasoning":
			return m.has("text") && m.has("id")
		case "completion":
			return m.has("finalText")
		case "message":
			return m.has("text") && m.has("role")
		case "error":
			return m.has("source")
		case "system":
			return m.Subtype == "init" && m.has("reasoning_effort")
		}
		return false
	},
}

// A droidDecoder remembers the texts and calls of a run, by id.
type droidDecoder struct {
	scanner
	line    droidLine
	session []byte
	seed    maphash.Seed
	texts   map[string]droidText
	calls   map[string]*droidCall
}

// A droidText is a text as last read.
type droidText struct {
	size int
	hash uint64
}

// A droidCall is a call of a tool.
type droidCall struct {
	parameters []byte // if its line was repeated with other parameters
	ended      bool
}

func (d *droidDecoder) begin(session []byte) {
	d.session, d.seed = bytes.Clone(session), maphash.MakeSeed()
	d.texts, d.calls = map[string]droidText{}, map[string]*droidCall{}
}

// Flush implements [Decoder].
func (d *droidDecoder) Flush(dst []Event) []Event { return dst }

// Decode implements [Decoder].
func (d *droidDecoder) Decode(line Line, dst []Event) []Event { return d.readObjects(line, dst, d) }

func (d *droidDecoder) read(r *jsonscan.Reader, dst []Event) ([]Event, bool) {
	l := &d.line
	*l = droidLine{calling: calling{from: &d.pool}}
	for key := range r.Members() {
		l.field(r, key)
	}
	switch string(l.typ) {
	case "":
		return dst, false
	case "system":
		if l.Kind = Unknown; l.subtype == "init" {
			d.begin(l.Session)
			l.Kind, l.Facts = RunStart, l.facts
		}
	case "message", "reasoning":
		d.text()
	case "tool_call", "tool_result":
		switch {
		case len(l.id) == 0:
			l.Kind = Unknown
		case string(l.typ) == "tool_call":
			d.toolCall()
		default:
			d.toolResult()
		}
	case "error":
		l.Kind, l.Text = RunError, l.fault
		l.Status = cmp.Or(l.code, "error")
	case "completion":
		l.Kind = RunEnd
		if l.Failed = l.isError; l.Failed {
			l.Status = cmp.Or(l.code, "error")
		}
	default:
		l.Kind = Unknown
	}
	if len(l.Session) == 0 {
		l.Session = d.session
	}
	if string(l.typ) == "completion" {
		d.begin(d.session)
	}
	return append(dst, l.Event), true
}

// text handles a text, or the part by which it has grown.
func (d *droidDecoder) text() {
	l := &d.line
	if l.Text == nil {
		l.Kind = Unknown
		return
	}
	said := d.texts[string(l.id)]
	all := l.Text
	switch {
	case said.size == 0 || len(l.id) == 0:
	case len(all) <= said.size:
		l.Kind = Ignored
		return
	case maphash.Bytes(d.seed, all[:said.size]) == said.hash:
		l.Text = all[said.size:]
	}
	if len(d.texts) >= maxSessions {
		clear(d.texts)
	}
	d.texts[string(l.id)] = droidText{len(all), maphash.Bytes(d.seed, all)}
	l.Bytes = jsonscan.UnquotedLen(l.Text)
	switch {
	case string(l.typ) == "reasoning":
		l.Kind = ThinkingMessage
	case l.role == "user":
		l.Kind = Prompt
	default:
		l.Kind = TextMessage
	}
}

func (d *droidDecoder) toolCall() {
	l := &d.line
	l.ID = l.id
	c := d.calls[string(l.id)]
	if c != nil {
		if l.Kind = Ignored; !c.ended {
			c.parameters = bytes.Clone(l.parameters)
		}
		return
	}
	if len(d.calls) >= maxSessions {
		clear(d.calls)
	}
	d.calls[string(l.id)] = new(droidCall)
	l.Kind, l.Tool = ToolStart, l.tool().finish()
}

func (d *droidDecoder) toolResult() {
	l := &d.line
	l.ID = l.id
	c := l.tool()
	if known := d.calls[string(l.id)]; known != nil {
		if known.ended {
			l.Kind = Ignored
			return
		}
		if known.parameters != nil {
			c.readArguments(&jsonscan.Reader{B: known.parameters})
		}
		known.parameters, known.ended = nil, true
	} else if len(d.calls) < maxSessions {
		d.calls[string(l.id)] = &droidCall{ended: true}
	}
	if l.isError {
		c.failed()
		c.ErrorType = cmp.Or(l.code, c.ErrorType)
		if c.ErrorText = l.fault; c.ErrorText == nil {
			c.ErrorText = resultText(c.Result)
		}
		c.exitedAsTold(c.ErrorText)
	}
	l.Kind, l.Tool = ToolEnd, c.finish()
}

// A droidLine is one line.
type droidLine struct {
	Event
	calling
	typ, id       []byte
	subtype, role string
	parameters    []byte
	fault         []byte // what an error says
	code          string // and its name
	isError       bool
	facts         facts
}

func (l *droidLine) field(r *jsonscan.Reader, key []byte) {
	switch string(key) {
	case "type":
		l.typ = r.Str()
	case "subtype":
		l.subtype = enum(r.Str())
	case "session_id":
		l.Session = readID(r)
	case "timestamp":
		l.Time = millis(r)
	case "cwd":
		l.facts.text(semconv.ProcessWorkingDirectory, Detail, r.Str())
	case "model":
		l.Model = jsonscan.Unquote(r.Str())
	case "reasoning_effort":
		l.facts.word(semconv.ReasoningEffort, []byte(enum(r.Str())))
	case "role":
		l.role = enum(r.Str())
	case "id":
		l.id = readID(r)
	case "messageId":
		l.ModelCallID = readID(r)
	case "text", "finalText":
		l.Text = r.Str()
	case "toolName":
		l.tool().named(r.Str())
	case "toolId":
		if name := r.Str(); l.tool().Name == "" {
			l.call.named(name)
		}
	case "parameters":
		r.Peek()
		start := r.I
		l.tool().readArguments(r)
		l.parameters = r.B[start:r.I]
	case "value":
		l.tool().readOutput(r)
	case "isError":
		l.isError = r.Bool()
	case "error":
		l.failure(r)
	case "message":
		l.fault = r.Str()
	case "durationMs":
		if ms, ok := r.Int(); ok && 0 < ms && ms < maxMillis {
			l.Length = Instant(ms) * Milliseconds
		}
	case "usage":
		l.usage(r)
	default:
		r.Skip()
	}
}

// failure reads {"code":..,"message":..}, or a text.
func (l *droidLine) failure(r *jsonscan.Reader) {
	if r.Peek() == '"' {
		l.fault = r.Str()
		return
	}
	for key := range r.Members() {
		switch string(key) {
		case "message":
			l.fault = r.Str()
		case "code", "type":
			l.code = word(jsonscan.Unquote(bytes.Trim(r.Raw(), `"`)))
		default:
			r.Skip()
		}
	}
}

// usage reads what the run used. Its input leaves out what the cache had.
func (l *droidLine) usage(r *jsonscan.Reader) {
	u := new(Usage)
	l.Usage = u
	for key := range r.Members() {
		switch string(key) {
		case "input_tokens":
			readCount(r, &u.Input, &u.Known)
		case "output_tokens":
			readCount(r, &u.Output, &u.Known)
		case "cache_read_input_tokens":
			readCount(r, &u.CacheRead, &u.Known)
		case "cache_creation_input_tokens":
			readCount(r, &u.CacheWrite, &u.Known)
		case "thinking_tokens":
			readCount(r, &u.Reasoning, &u.Known)
		default:
			r.Skip()
		}
	}
	u.Input += u.CacheRead + u.CacheWrite
}
