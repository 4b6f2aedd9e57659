package agent

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// gemini is the Gemini CLI, run with --output-format stream-json. It prints a call
// when the model asks for it, and the results of concurrent calls when the last one
// has ended. Only the result has token counts.
var gemini = Agent{
	Flag:     "gemini",
	Name:     "gemini-cli",
	Provider: "gcp.gemini",
	New:      func() Decoder { return new(geminiDecoder) },
	IsProof: func(m *Marks) bool {
		switch m.Type {
		case "init":
			return m.has("timestamp")
		case "message":
			return m.has("timestamp") && m.has("role") && m.has("content")
		case "tool_use", "tool_result":
			return m.has("tool_id")
		case "error":
			return m.has("timestamp") && m.has("severity")
		case "result":
			return m.has("timestamp") && m.has("stats")
		}
		return false
	},
}

// A geminiDecoder remembers the current session, and whether several tools run at
// once.
type geminiDecoder struct {
	scanner
	line     geminiLine
	session  []byte
	running  int
	together bool
}

// Flush implements [Decoder].
func (d *geminiDecoder) Flush(dst []Event) []Event { return dst }

// Decode implements [Decoder].
func (d *geminiDecoder) Decode(line Line, dst []Event) []Event { return d.readObjects(line, dst, d) }

func (d *geminiDecoder) read(r *jsonscan.Reader, dst []Event) ([]Event, bool) {
	l := &d.line
	*l = geminiLine{calling: calling{from: &d.pool}}
	for key := range r.Members() {
		l.field(r, key)
	}
	if l.classify(); len(l.ID) == 0 && (l.Kind == ToolStart || l.Kind == ToolEnd) {
		l.Kind = Unknown
	}
	switch l.Kind {
	case RunStart:
		d.session = bytes.Clone(l.Session)
		d.running = 0
	case ToolStart:
		d.running++
		d.together = d.running > 1
	case ToolEnd:
		d.running = max(0, d.running-1)
		l.Estimated = d.together
	}
	l.Session = d.session
	return append(dst, l.Event), len(l.typ) > 0
}

// A geminiLine is one line.
type geminiLine struct {
	Event
	calling
	typ          []byte
	role, status string
	severity     string
	errorType    string
	fault        []byte // what an error says
	said, delta  bool
	models       [][]byte
}

func (l *geminiLine) field(r *jsonscan.Reader, key []byte) {
	switch string(key) {
	case "type":
		l.typ = r.Str()
	case "timestamp":
		l.Time = isoTime(r)
	case "session_id":
		l.Session = readID(r)
	case "model":
		l.Model = jsonscan.Unquote(r.Str())
	case "role":
		l.role = enum(r.Str())
	case "content":
		l.said = r.Peek() == '"'
		l.Text = r.Str()
		l.Bytes = jsonscan.UnquotedLen(l.Text)
	case "delta":
		l.delta = r.Bool()
	case "tool_name":
		l.tool().named(r.Str())
	case "tool_id":
		l.ID = readID(r)
	case "parameters":
		l.tool().readArguments(r)
	case "output":
		l.tool().readOutput(r)
	case "status":
		l.status = enum(r.Str())
	case "severity":
		l.severity = enum(r.Str())
	case "message":
		l.fault = r.Str()
	case "error":
		l.failure(r)
	case "stats":
		l.stats(r)
	default:
		r.Skip()
	}
}

func (l *geminiLine) classify() {
	switch string(l.typ) {
	case "init":
		l.Kind = RunStart
	case "message":
		switch {
		case !l.said:
			l.Kind = Unknown
		case l.role == "user":
			l.Kind = Prompt
		case l.delta:
			l.Kind = TextDelta
		default:
			l.Kind = TextMessage
		}
	case "tool_use":
		l.Kind, l.Tool = ToolStart, l.tool().finish()
	case "tool_result":
		l.Kind = ToolEnd
		c := l.tool()
		if l.status == "error" {
			c.failed()
			c.ErrorType = cmp.Or(l.errorType, c.ErrorType)
			c.ErrorText = l.fault
		}
		l.Tool = c.finish()
	case "error":
		l.Kind, l.Text = RunError, l.fault
		if l.severity == "warning" {
			l.Kind, l.Notice = Notice, semconv.EventWarning
			l.Facts = []Fact{{Key: semconv.Message, Kind: FactText, Level: Full, Text: l.fault}}
		}
	case "result":
		l.Kind, l.Text = RunEnd, l.fault
		if l.Failed = l.status == "error"; l.Failed {
			l.Status = cmp.Or(l.errorType, "error")
		}
		if len(l.models) > 0 {
			slices.SortFunc(l.models, bytes.Compare)
			l.Facts = []Fact{{Key: semconv.ResponseModel, Kind: FactText, Text: bytes.Join(l.models, []byte(", "))}}
		}
	default:
		l.Kind = Unknown
	}
}

// failure reads {"type":..,"message":..}, or a text.
func (l *geminiLine) failure(r *jsonscan.Reader) {
	if r.Peek() == '"' {
		l.fault = r.Str()
		return
	}
	for key := range r.Members() {
		switch string(key) {
		case "type":
			l.errorType = word(jsonscan.Unquote(r.Str()))
		case "message":
			l.fault = r.Str()
		default:
			r.Skip()
		}
	}
}

// stats reads the usage of the run. Its input includes the cached tokens. If the
// CLI chose the models, their names are only here.
func (l *geminiLine) stats(r *jsonscan.Reader) {
	u := new(Usage)
	l.Usage = u
	for key := range r.Members() {
		switch string(key) {
		case "input_tokens":
			readCount(r, &u.Input, &u.Known)
		case "output_tokens":
			readCount(r, &u.Output, &u.Known)
		case "cached":
			readCount(r, &u.CacheRead, &u.Known)
		case "duration_ms":
			if ms, ok := r.Int(); ok && 0 < ms && ms < maxMillis {
				l.Length = Instant(ms) * Milliseconds
			}
		case "models":
			for name := range r.Members() {
				l.models = append(l.models, name)
				r.Skip()
			}
		default:
			r.Skip()
		}
	}
}
