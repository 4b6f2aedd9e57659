package agent

import (
	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// A piLine is one line.
type piLine struct {
	Event
	calling
	typ, id      []byte
	role, stop   string // of a message
	said         []Event
	fault        []byte
	update       string
	callID, name []byte
	result       []byte // of a tool, or of a compaction
	isError      bool
	goesOn       bool // the agent tries again
	facts        facts
	arrival      Instant
}

func (l *piLine) field(r *jsonscan.Reader, key []byte) {
	switch string(key) {
	case "type":
		l.typ = r.Str()
	case "id":
		l.id = readID(r)
	case "cwd":
		l.facts.text(semconv.ProcessWorkingDirectory, Detail, r.Str())
	case "message":
		l.message(r)
	case "messages":
		for range r.Elements() { // the last one tells how the run ended
			l.stop, l.fault = "", nil
			l.message(r)
		}
	case "assistantMessageEvent":
		l.piece(r)
	case "toolCallId":
		l.callID = readID(r)
	case "toolName":
		l.name = r.Str()
		l.tool().named(l.name)
	case "args":
		l.tool().readArguments(r)
	case "result":
		l.result = r.Raw()
	case "isError":
		l.isError = r.Bool()
	case "willRetry":
		l.goesOn = r.Bool()
	case "attempt":
		l.facts.number(r, semconv.Attempt)
	case "maxAttempts":
		l.facts.number(r, semconv.MaxAttempts)
	case "delayMs":
		l.facts.number(r, semconv.DelayMillis)
	case "errorMessage":
		l.facts.text(semconv.Message, Full, r.Str())
	case "reason":
		l.facts.word(semconv.Reason, []byte(enum(jsonscan.Unquote(r.Str()))))
	case "entry":
		for key := range r.Members() {
			if string(key) == "timestamp" {
				l.Time = isoTime(r)
			} else {
				r.Skip()
			}
		}
	default:
		r.Skip()
	}
}

// compaction reads {"tokensBefore":..,"estimatedTokensAfter":..}.
func (l *piLine) compaction() {
	r := jsonscan.Reader{B: l.result}
	for key := range r.Members() {
		switch string(key) {
		case "tokensBefore":
			l.facts.number(&r, semconv.TokensBefore)
		case "tokensAfter", "estimatedTokensAfter":
			l.facts.number(&r, semconv.TokensAfter)
		default:
			r.Skip()
		}
	}
}

// piece reads {"type":"text_delta","delta":..}.
func (l *piLine) piece(r *jsonscan.Reader) {
	for key := range r.Members() {
		switch string(key) {
		case "type":
			l.update = enum(r.Str())
		case "delta":
			l.Text = r.Str()
			l.Bytes = jsonscan.UnquotedLen(l.Text)
		default:
			r.Skip()
		}
	}
}

func (l *piLine) message(r *jsonscan.Reader) {
	for key := range r.Members() {
		switch string(key) {
		case "role":
			l.role = enum(r.Str())
		case "content":
			l.content(r)
		case "timestamp":
			l.Time = millis(r)
		case "model":
			l.Model = jsonscan.Unquote(r.Str())
		case "provider":
			l.Provider = jsonscan.Unquote(r.Str())
		case "responseId":
			l.ModelCallID = readID(r)
		case "usage":
			l.usage(r)
		case "stopReason":
			reason := r.Str()
			l.stop, l.FinishReason = enum(reason), finishReason(reason)
		case "errorMessage":
			l.fault = r.Str()
		case "toolCallId":
			l.callID = readID(r)
		default:
			r.Skip()
		}
	}
}

// content reads a text, or [{"type":"text","text":..},..].
func (l *piLine) content(r *jsonscan.Reader) {
	l.said = l.said[:0]
	if r.Peek() == '"' {
		l.Text = r.Str()
		return
	}
	for range r.Elements() {
		for key := range r.Members() {
			kind := TextMessage
			switch string(key) {
			case "thinking":
				kind = ThinkingMessage
			case "text":
			default:
				r.Skip()
				continue
			}
			if text := r.Str(); len(text) > 0 {
				l.said = append(l.said, Event{Kind: kind, Text: text, Bytes: jsonscan.UnquotedLen(text)})
				l.Text = text
			}
		}
	}
}

// usage reads a model call's counts. Its input leaves out what the cache had.
func (l *piLine) usage(r *jsonscan.Reader) {
	u := new(Usage)
	l.Usage = u
	for key := range r.Members() {
		switch string(key) {
		case "input":
			readCount(r, &u.Input, &u.Known)
		case "output":
			readCount(r, &u.Output, &u.Known)
		case "cacheRead":
			readCount(r, &u.CacheRead, &u.Known)
		case "cacheWrite":
			readCount(r, &u.CacheWrite, &u.Known)
		case "reasoning":
			readCount(r, &u.Reasoning, &u.Known)
		case "cost":
			for key := range r.Members() {
				if string(key) == "total" {
					readCost(r, u)
				} else {
					r.Skip()
				}
			}
		default:
			r.Skip()
		}
	}
	u.Input += u.CacheRead + u.CacheWrite
}
