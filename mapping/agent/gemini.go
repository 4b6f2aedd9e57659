package agent

import (
	"bytes"
	"cmp"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// gemini is the Gemini CLI, run with --output-format stream-json. It prints a call
// when the model asks for it, and the results of concurrent calls when the last one
// has ended. Only the result has token counts.
var gemini = Agent{
	Flag:     "gemini",
	Name:     "gemini-cli",
	Commands: []string{"gemini"},
	Packages: []string{"@google/gemini-cli"},
	Provider: "gcp.gemini",
	objects:  func() objectDecoder { return new(geminiDecoder) },
	Proof: shapes(
		"type=init timestamp=*-*T*:* session_id model",
		"type=tool_use timestamp=*-*T*:* tool_name tool_id parameters",
		"type=tool_result timestamp=*-*T*:* tool_id status=success|error",
		"type=result timestamp=*-*T*:* status stats.total_tokens",
	),
	ends: endings{"result": {"status": only("success"), "error": failedWith}},
	Lines: shapes(
		"type=message timestamp=????-??-??T??:??:??.???Z role content",
		"type=tool_use|tool_result timestamp=????-??-??T??:??:??.???Z tool_id",
		"type=error timestamp=????-??-??T??:??:??.???Z severity message",
		"type=result timestamp=????-??-??T??:??:??.???Z status stats.total_tokens",
	),
}

// A geminiDecoder remembers the current session, and whether several tools run at
// once.
type geminiDecoder struct {
	lineOf[geminiLine, *geminiLine]
	holdsNothing
	session  []byte
	running  int
	together bool
}

func (d *geminiDecoder) events(dst []Event) []Event {
	l := &d.line
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
		l.inferIf(d.together)
	}
	l.Session = d.session
	return append(dst, l.Event)
}

// A geminiLine is one line.
type geminiLine struct {
	line
	severity string
	delta    bool
}

func (l *geminiLine) field(r *jsonscan.Reader, key []byte) {
	switch string(key) {
	case "content":
		l.Text = r.Str()
	case "delta":
		l.delta = r.Bool()
	case "severity":
		l.severity = string(enumOf(r))
	case "stats":
		l.stats(r)
	default:
		l.line.field(r, key)
	}
}

func (l *geminiLine) classify() {
	switch string(l.typ) {
	case "init":
		l.Kind = RunStart
		if bytes.HasPrefix(l.Model, []byte("auto")) { // the CLI chooses the models
			l.Facts.word(semconv.RequestModel, modelName(l.Model))
			l.Model = nil
		}
	case "message":
		switch {
		case l.Text == nil:
			l.Kind = Unknown
		case l.role == "user":
			l.Kind = Prompt
		case l.delta:
			l.Kind = TextDelta
		default:
			l.Kind = TextMessage
		}
	case "tool_use":
		l.Kind = ToolStart
		l.tool().finish()
	case "tool_result":
		l.Kind = ToolEnd
		if l.Status == "error" {
			l.tool().failedAs(l.code, l.fault)
		} else {
			l.tool().exitedAsReported(resultText(l.tool().Result))
		}
		l.tool().finish()
	case "error":
		l.Kind, l.Text = RunError, l.fault
		if l.severity == "warning" {
			l.warn(l.fault)
		}
	case "result":
		l.Kind, l.Text, l.Failed = RunEnd, l.fault, l.Status == "error"
		l.Status = cmp.Or(l.code, "error")
		l.settle(&l.Event)
		if len(l.Models) == 1 {
			l.Facts.word(semconv.ResponseModel, modelName(l.Models[0].Model))
		}
	default:
		l.Kind = Unknown
	}
}

// stats reads the usage of the run. If the CLI chose the models, their names are only
// here.
func (l *geminiLine) stats(r *jsonscan.Reader) {
	var total geminiUsage
	for key := range r.Members() {
		switch string(key) {
		case "duration_ms":
			l.Length = millis(r)
		case "models":
			for name := range r.Members() {
				var model geminiUsage
				for key := range r.Members() {
					model.count(r, key)
				}
				model.finish()
				l.Models = append(l.Models, ModelUsage{jsonscan.Unquote(name), model.Usage})
			}
		default:
			total.count(r, key)
		}
	}
	total.finish()
	l.Usage = &total.Usage
}

// A geminiUsage is the usage of one model, or of all.
type geminiUsage struct {
	Usage
	total int64
}

// count reads a count. The input includes the cached tokens.
func (m *geminiUsage) count(r *jsonscan.Reader, key []byte) {
	switch string(key) {
	case "total_tokens":
		m.total, _ = r.Int()
	case "input": // the input without the cached tokens
	default:
		m.Usage.count(r, key)
	}
}

// finish counts the tokens of thoughts, which are only in the total, as output.
func (m *geminiUsage) finish() {
	if thoughts := m.total - m.Input - m.Output; thoughts > 0 && m.Known {
		m.Reasoning = thoughts
		m.Output += thoughts
	}
}
