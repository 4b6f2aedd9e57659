package agent

import (
	"bytes"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// goose is Goose, run with --output-format stream-json. The pieces of a text share
// an id. Lines have times in whole seconds and no session; since 1.50, they name the model.
var goose = Agent{
	Flag:         "goose",
	Name:         "goose",
	Commands:     []string{"goose"},
	CoarseStamps: true,
	objects:      func() objectDecoder { return new(gooseDecoder) },
	Proof:        shapes("type=message message.role message.content=[ message.created !id !session_id"),
	ends:         endings{"complete": {"type": succeeded, "error": failedWith}},
	Lines: shapes(
		"type=message message.role message.created",
		"type=notification extension_id",
		"type=model_change model !id",
		"type=error error !timestamp !source",
		"type=complete total_tokens",
	),
}

// A gooseDecoder reads one stream of runs, one after the other.
type gooseDecoder struct {
	lineOf[gooseLine, *gooseLine]
	holdsNothing
	begun    bool
	calls    map[string]bool // in flight
	together bool            // several calls are in flight at once
	failed   bool            // an error came, and no text since
}

// A gooseLine is one line.
type gooseLine struct {
	line
	content []byte
}

var _ lineReader = (*gooseLine)(nil) // linters do not see that lineOf uses it

func (l *gooseLine) field(r *jsonscan.Reader, key []byte) {
	switch string(key) {
	case "message":
		l.message(r)
	case "type", "error", "model":
		l.line.field(r, key)
	default:
		l.used().count(r, key)
	}
}

func (d *gooseDecoder) events(dst []Event) []Event {
	l := &d.line
	ev := Event{Kind: Unknown, Time: l.Time, Provider: l.Provider}
	if typ := string(l.typ); !d.begun && (typ == "message" || typ == "error") {
		d.begun, d.failed = true, false
		d.calls = map[string]bool{}
		dst = append(dst, Event{Kind: RunStart, Time: ev.Time, ID: bytes.Clone(l.ID), Model: l.Model})
	}
	switch string(l.typ) {
	case "message":
		if len(l.content) > 0 && l.content[0] == '[' {
			return d.blocks(dst, ev)
		}
	case "notification", "model_change":
		ev.Kind = Ignored
	case "error":
		d.failed = true
		ev.Kind, ev.Status, ev.Text = RunError, gooseError, l.fault
	case "complete": // printed after an error, too
		if !d.begun {
			break
		}
		d.begun = false
		ev.Kind, ev.Failed, ev.Usage = RunEnd, d.failed, l.Usage
		if d.failed {
			ev.Status = gooseError
		}
		l.settle(&ev)
	}
	return append(dst, ev)
}

// gooseError is the type of all errors: the lines have only a text.
const gooseError = "error"

func (l *gooseLine) message(r *jsonscan.Reader) {
	for key := range r.Members() {
		switch string(key) {
		case "id":
			l.ID = readID(r)
		case "role":
			l.role = string(enumOf(r))
		case "created":
			if s, ok := r.Int(); ok && 0 < s && s < maxMillis/1000 {
				l.Time = Instant(s) * 1000 * Milliseconds
			}
		case "content":
			l.content = r.Raw()
		case "metadata":
			readMember(r, "inference", func() { l.inference(r) })
		}
	}
}

// inference reads {"requestedModel":..,"provider":..}.
func (l *gooseLine) inference(r *jsonscan.Reader) {
	for key := range r.Members() {
		switch string(key) {
		case "requestedModel":
			l.Model = jsonscan.Unquote(r.Str())
		case "provider":
			l.line.field(r, key)
		}
	}
}

// blocks appends the events of a message's content. A message without traced
// parts still gives a time: the end of the run has none.
func (d *gooseDecoder) blocks(dst []Event, ev Event) []Event {
	from := len(dst)
	r := jsonscan.Reader{B: d.line.content}
	for range r.Elements() {
		b := gooseBlock{}
		for key := range r.Members() {
			b.field(&r, key)
		}
		if dst = append(dst, d.block(&b, ev)); dst[len(dst)-1].Kind == Notice && !gooseBlocks[string(b.typ)] {
			d.line.subtype = b.typ
			dst = append(dst, Event{Kind: Unknown})
		}
	}
	if len(dst) == from {
		ev.Kind = Notice
		dst = append(dst, ev)
	}
	return dst
}

// gooseBlocks are the types of parts of which only the time counts.
var gooseBlocks = set("image", "redactedThinking", "reasoning", "toolConfirmationRequest", "frontendToolRequest",
	"contextLengthExceeded", "summarizationRequested", "actionRequired", "systemNotification")

// A gooseBlock is a part of a message.
type gooseBlock struct {
	line
	server []byte // whose tool it is
}

func (b *gooseBlock) field(r *jsonscan.Reader, key []byte) {
	switch string(key) {
	case "id":
		b.ID = readID(r)
	case "type", "text", "thinking":
		b.line.field(r, key)
	case "toolCall":
		b.request(r)
	case "toolResult":
		b.response(r)
	case "_meta":
		readMember(r, "goose_extension", func() { b.server = r.Str() })
	}
}

// request reads {"status":"success","value":{"name":..,"arguments":{..}}}. Tools
// belong to extensions, which are MCP servers.
func (b *gooseBlock) request(r *jsonscan.Reader) {
	b.tool().MCP = true
	readMember(r, "value", func() {
		for key := range r.Members() {
			switch string(key) {
			case "name":
				b.Tool.named(r.Str())
			case "arguments":
				b.Tool.readArguments(r)
			}
		}
	})
}

// response reads {"status":"success","value":{"content":[..],"isError":false}}.
func (b *gooseBlock) response(r *jsonscan.Reader) {
	for key := range r.Members() {
		switch string(key) {
		case "status":
			b.Failed = string(r.Str()) == "error" || b.Failed
		case "value":
			again := *r
			readMember(&again, "isError", func() { b.Failed = again.Bool() || b.Failed })
			b.tool().readResult(r)
		case "error":
			b.fault, _ = readFailure(r)
		}
	}
}

// block returns the event of a part of a message.
func (d *gooseDecoder) block(b *gooseBlock, ev Event) Event {
	l := &d.line
	switch string(b.typ) {
	case "text", "thinking":
		ev.Text = b.Text
		switch {
		case l.role == "user":
			ev.Kind = Prompt
		case string(b.typ) == "text":
			ev.Kind, d.failed = TextDelta, false
		default:
			ev.Kind = ThinkingDelta
		}
	case "toolRequest":
		b.tool().ArgumentFacts.text(semconv.MCPServer, Detail, b.server)
		remember(d.calls, b.ID, true)
		d.together = len(d.calls) > 1 // their results may come in one message
		ev.Kind, ev.ID, ev.Tool = ToolStart, b.ID, b.tool().finish()
	case "toolResponse":
		if b.Failed {
			b.tool().failedAs("", b.fault)
		}
		delete(d.calls, string(b.ID))
		ev.Kind, ev.ID, ev.Tool = ToolEnd, b.ID, b.tool().finish()
		ev.inferIf(d.together)
	default:
		ev.Kind = Notice // only its time counts
	}
	return ev
}
