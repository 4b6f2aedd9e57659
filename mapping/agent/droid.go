package agent

import (
	"bytes"
	"cmp"

	"github.com/spantee/spantee/mapping/jsonscan"
)

// droid is Factory's Droid, run as droid exec -o stream-json. Some builds write
// times. Newer ones repeat lines, and repeat a text whenever it has grown, so lines
// are identified by their ids.
var droid = Agent{
	Flag:     "droid",
	Name:     "droid",
	Commands: []string{"droid"},
	objects: func() objectDecoder {
		d := new(droidDecoder)
		d.newRun(nil)
		return d
	},
	Proof: shapes(
		"type=system subtype=init session_id reasoning_effort",
		"type=tool_call toolName toolId parameters",
		"type=tool_result toolId isError messageId",
		"type=completion finalText numTurns",
	),
	ends: endings{"completion": {"type": succeeded, "isError": failedIf, "is_error": failedIf, "error": failedWith}},
	Lines: shapes(
		"type=system subtype=init session_id model !uuid !apiKeySource",
		"type=message text role id",
		"type=reasoning text id",
		"type=tool_call toolName",
		"type=tool_result toolId isError",
		"type=completion finalText",
		"type=error source",
	),
}

// A droidDecoder remembers the texts and calls of a run, by id.
type droidDecoder struct {
	lineOf[droidLine, *droidLine]
	holdsNothing
	session []byte         // of the last init line: most lines of some builds name none
	unnamed bool           // lines came before any had a session id
	stamped bool           // the build writes times
	texts   map[string]int // how many bytes of each have come
	calls   map[string]*droidCall
}

// A droidCall is a call of a tool.
type droidCall struct {
	parameters []byte // if its line was repeated with other parameters
	ended      bool
}

func (d *droidDecoder) newRun(session []byte) {
	d.session, d.texts, d.calls = bytes.Clone(session), map[string]int{}, map[string]*droidCall{}
}

func (d *droidDecoder) events(dst []Event) []Event {
	l := &d.line
	switch string(l.typ) {
	case "system":
		if l.Kind = Unknown; string(l.subtype) == "init" {
			d.newRun(l.Session)
			l.Kind = RunStart
		}
	case "message", "reasoning":
		d.text()
	case "tool_call", "tool_result":
		switch {
		case len(l.ID) == 0:
			l.Kind = Unknown
		case string(l.typ) == "tool_call":
			d.toolCall()
		default:
			d.toolResult()
		}
	case "error":
		l.Kind, l.Text, l.Status = RunError, l.fault, cmp.Or(l.code, "error")
	case "completion":
		l.Kind, l.Status = RunEnd, cmp.Or(l.code, "error")
		l.settle(&l.Event)
	default:
		l.Kind = Unknown
	}
	switch {
	case len(l.Session) == 0:
		l.Session, d.unnamed = d.session, d.unnamed || len(d.session) == 0
	case len(d.session) == 0: // there was no init line
		d.session = bytes.Clone(l.Session)
		if d.unnamed {
			dst = append(dst, Event{Kind: SessionNamed, ID: d.session})
		}
	}
	if string(l.typ) == "completion" {
		d.newRun(d.session)
	}
	return append(dst, l.Event)
}

// text handles a text, or what it has grown by.
func (d *droidDecoder) text() {
	l := &d.line
	d.stamped = d.stamped || l.Time != 0
	if l.Text == nil || d.stamped && l.Time == 0 { // another program's
		l.Kind = Unknown
		return
	}
	if len(l.ID) > 0 {
		size, said := len(l.Text), d.texts[string(l.ID)]
		if size <= said && said > 0 {
			l.Kind = Ignored
			return
		}
		l.Text = l.Text[said:]
		remember(d.texts, l.ID, size)
	}
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
	c := d.calls[string(l.ID)]
	if c != nil {
		if l.Kind = Ignored; !c.ended {
			c.parameters = bytes.Clone(l.tool().Arguments)
		}
		return
	}
	remember(d.calls, l.ID, new(droidCall))
	l.Kind = ToolStart
	l.tool().finish()
}

func (d *droidDecoder) toolResult() {
	l := &d.line
	c := l.tool()
	if known := d.calls[string(l.ID)]; known != nil {
		if known.ended {
			l.Kind = Ignored
			return
		}
		if known.parameters != nil {
			c.readArguments(&jsonscan.Reader{B: known.parameters})
		}
		known.parameters, known.ended = nil, true
	} else {
		remember(d.calls, l.ID, &droidCall{ended: true})
	}
	if l.Failed {
		c.failedAs(l.code, l.fault)
	}
	l.Kind = ToolEnd
	c.finish()
}

// A droidLine is one line.
type droidLine struct{ line }

var _ lineReader = (*droidLine)(nil) // linters do not see that lineOf uses it

func (l *droidLine) field(r *jsonscan.Reader, key []byte) {
	switch string(key) {
	case "id":
		l.ID = readID(r)
	case "messageId":
		l.ModelCallID = readID(r)
	case "finalText":
		l.Text = r.Str()
	case "toolId":
		if name := r.Str(); l.tool().Name == "" {
			l.Tool.named(name)
		}
	case "value":
		l.tool().readOutput(r)
	default:
		l.line.field(r, key)
	}
}
