package mapping

import (
	"fmt"
	"strings"
	"unicode/utf8"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"

	"github.com/spantee/spantee/mapping/redact"
)

// Content says how much of what is said and done goes into spans.
type Content string

// The values of [Options.Content].
const (
	ContentNone    Content = "none"    // names, sizes, counts and times
	ContentDetails Content = "details" // and paths, commands, patterns, URLs
	ContentFull    Content = "full"    // and prompts, answers, arguments, results
)

// A capture takes content from a stream: without secrets, and no more of it
// than an attribute may have. A nil one takes nothing.
type capture struct {
	content  bool // all of it, not only details
	max      int
	redactor *redact.Redactor
}

func newCapture(opts *Options) (*capture, error) {
	switch opts.Content {
	case "", ContentNone:
		return nil, nil
	case ContentDetails, ContentFull:
	default:
		return nil, fmt.Errorf("content %q is not known: it is none, details or full", opts.Content)
	}
	c := &capture{content: opts.Content == ContentFull, max: opts.MaxAttributeBytes, redactor: opts.Redactor}
	if c.redactor == nil {
		var err error
		if c.redactor, err = redact.New(nil, nil); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// maxStderr is how much of the end of stderr is kept.
const maxStderr = 2 << 10

// full tells whether texts are to be taken, and not only details.
func (c *capture) full() bool { return c != nil && c.content }

// A captured list is of attributes with content.
type captured struct {
	attrs []*commonpb.KeyValue
	lost  int // bytes that were cut from them
}

func (a *captured) add(key, text string, lost int) {
	if text != "" {
		a.attrs = merge(a.attrs, str(key, text))
		a.lost += lost
	}
}

func (a captured) and(b captured) captured {
	a.attrs = merge(a.attrs, b.attrs...)
	a.lost += b.lost
	return a
}

// text adds a text that was read from between a JSON string's quotes.
func (c *capture) text(to *captured, key string, escaped []byte) {
	s, lost := c.string(escaped)
	to.add(key, s, lost)
}

// tail adds the end of a text.
func (c *capture) tail(to *captured, key, s string) {
	if c == nil || s == "" {
		return
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	longest := min(c.max, maxStderr)
	s = without(s, c.redactor.Find(s), lastRunes(s, longest), len(s)) // which has marks now
	to.add(key, s[lastRunes(s, longest):], 0)
}

// lastRunes returns where the last n bytes of s begin, or the next rune.
func lastRunes(s string, n int) int {
	from := max(0, len(s)-n)
	for from < len(s) && !utf8.RuneStart(s[from]) {
		from++
	}
	return from
}

func (c *capture) string(escaped []byte) (s string, lost int) {
	if len(escaped) == 0 {
		return "", 0
	}
	vr := valueReader{capture: c, room: c.max + margin}
	s = vr.string("", escaped)
	n := runes(s, c.max)
	return s[:n], vr.lost + len(s) - n
}

// json adds a value as JSON, and cuts it to the size of that.
func (c *capture) json(to *captured, key string, v *value, lost int) {
	cut := v.cut(c.max)
	if cut > 0 && v.kind >= array && len(v.items) == 0 {
		to.lost += lost + cut // not even a part of it fits
		return
	}
	to.add(key, string(v.append(nil)), lost+cut)
}

// The shapes of gen_ai.input.messages and gen_ai.output.messages.
func messages(m ...value) value { return value{kind: array, items: m} }

func message(role string, parts []value, finishReason string) value {
	v := value{fixed: true}.member("role", fixedValue(role)).member("parts", value{kind: array, items: parts})
	if finishReason != "" {
		v = v.member("finish_reason", fixedValue(finishReason))
	}
	return v
}

func textPart(kind, content string) value {
	return value{fixed: true}.member("type", fixedValue(kind)).member("content", stringValue(content))
}

func toolCallPart(id, name string, arguments value) value {
	return value{fixed: true}.member("type", fixedValue("tool_call")).
		member("id", fixedValue(id)).member("name", fixedValue(name)).member("arguments", arguments)
}

func toolResponsePart(id string, response value) value {
	return value{fixed: true}.member("type", fixedValue("tool_call_response")).
		member("id", fixedValue(id)).member("response", response)
}

// input adds the messages that a turn answers.
func (c *capture) input(asked []value) (to captured) {
	if c.full() && len(asked) > 0 {
		m := messages(asked...).clone()
		c.json(&to, keyInputMessages, &m, 0)
	}
	return to
}

// details adds what a call was about, from its arguments.
func (c *capture) details(to *captured, args []byte) {
	r := reader{b: args}
	for key := range r.members() {
		if attr, ok := detailKeys[string(key)]; ok && r.peek() == '"' {
			c.text(to, attr, r.str())
		} else {
			r.skip()
		}
	}
}

// call adds what is known of a tool call when it starts.
func (c *capture) call(ev *event) (to captured, arguments value) {
	arguments = value{kind: object}
	if c == nil {
		return to, arguments
	}
	w := ev.words
	c.details(&to, w.args)
	c.text(&to, keyDescription, w.description)
	if c.content && len(w.args) > 0 {
		var lost int
		arguments, lost = c.value(ownArguments(ev))
		c.json(&to, keyToolArguments, &arguments, lost)
	}
	return to, arguments
}

// ownArguments are those of the tool itself: an MCP tool's lie among those of
// the call to its server, and a function's are JSON in a string.
func ownArguments(ev *event) []byte {
	r := reader{b: ev.words.args}
	if r.peek() == '"' {
		return unquote(r.str())
	}
	for key := range r.members() {
		if ev.tool.mcp && string(key) == "args" {
			return r.raw()
		}
		r.skip()
	}
	return ev.words.args
}

// outcome adds what came of a call, and says why it failed.
func (c *capture) outcome(ev *event) (to captured, result *value, message string) {
	message = ev.tool.message
	if c == nil {
		return to, nil, message
	}
	w := ev.words
	if ev.tool.errorType != "" {
		if s, lost := c.string(failureText(w.result)); s != "" {
			to.lost += lost
			message = strings.TrimSpace(strings.TrimPrefix(message+": "+s, ": "))
		}
	}
	if c.content && len(w.result) > 0 {
		v, lost := c.value(w.result)
		c.json(&to, keyToolResult, &v, lost)
		result = &v
	}
	return to, result, message
}

// failureText finds what a result says of an error, in {"<variant>":{..}}.
func failureText(result []byte) (escaped []byte) {
	r := reader{b: result}
	for range r.members() {
		for key := range r.members() {
			switch string(key) {
			case "error", "errorMessage", "clientVisibleError", "reason", "stderr":
				if s := r.str(); len(escaped) == 0 {
					escaped = s
				}
			default:
				r.skip()
			}
		}
	}
	return escaped
}

// query adds what the agent asks its user for: {"id":0,"<name>":{"args":{..}}}.
func (c *capture) query(raw []byte) (to captured) {
	if c == nil || len(raw) == 0 {
		return to
	}
	r := reader{b: raw}
	for range r.members() {
		for key := range r.members() {
			if string(key) == "args" {
				args := r.raw()
				c.details(&to, args)
				if c.content {
					v, lost := c.value(args)
					c.json(&to, keyQueryArguments, &v, lost)
				}
			} else {
				r.skip()
			}
		}
	}
	return to
}
