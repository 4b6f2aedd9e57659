package agent

import (
	"bytes"
	"slices"
	"strings"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// A cursorLine is one line's top level.
type cursorLine struct {
	line
	result     []byte // a result's or an error's text
	awaited    Event  // the end of background work that a tool waited for
	background bool   // the call left something running
	unknown    bool   // the subtype is unknown: only the time counts
	stamped    bool   // there is a timestamp
	hasCallID  bool   // call_id is a string
	toolCallID []byte // the same id, as the call has it

	// Times by the clock of the tool runner.
	startedAt, completedAt Instant
}

func (l *cursorLine) field(r *jsonscan.Reader, key []byte) {
	switch string(key) {
	case "timestamp_ms":
		l.stamped = true
		l.line.field(r, key)
	case "model_call_id":
		l.ModelCallID = readID(r)
	case "call_id":
		l.hasCallID = r.Peek() == '"'
		l.ID = readID(r)
	case "text":
		l.said(r)
	case "message":
		if r.Peek() == '"' { // of an error
			l.result = r.Str()
		} else {
			l.message(r)
		}
	case "task_id":
		l.ID = readID(r)
	case "tool_call":
		l.toolCall(r)
	case "query", "response":
		l.approval(r)
	case "query_type":
		l.Query = queryName(jsonscan.Unquote(r.Str()))
	case "apiKeySource":
		l.Facts.word(semconv.CursorAPIKeySource, r.Str())
	case "permissionMode":
		l.Facts.word(semconv.CursorPermissionMode, r.Str())
	case "request_id":
		l.Facts.word(semconv.CursorRequestID, r.Str())
	case "title":
		l.Facts.text(semconv.TaskTitle, Detail, r.Str())
	case "detail":
		if s := r.Str(); len(l.result) == 0 {
			l.result = s
		}
	case "result", "error":
		if s := r.Str(); len(s) > 0 || l.result == nil {
			l.result = s
		}
	case "startedAtMs":
		l.startedAt = millis(r)
	case "completedAtMs":
		l.completedAt = millis(r)
	case "endpoint_url":
		l.Facts.text(semconv.URLFull, Detail, r.Str())
	default:
		l.line.field(r, key)
	}
}

// cursorKinds are the events of lines, by type and subtype. Of the lines of a retry, the
// first one counts: see cursorSession.
var cursorKinds = map[string]struct {
	kind   Kind
	notice string
}{
	"system/init":                     {RunStart, ""},
	"system/task_notification":        {TaskEnd, ""},
	"system/background_shell_timeout": {Notice, semconv.EventBackgroundTimeout},
	"system/error":                    {RunError, semconv.EventError},
	"error":                           {RunError, semconv.EventError},
	"user":                            {Prompt, ""},
	"thinking/delta":                  {ThinkingDelta, ""},
	"thinking/completed":              {ThinkingEnd, ""},
	"assistant":                       {TextMessage, ""},
	"tool_call/started":               {ToolStart, ""},
	"tool_call/completed":             {ToolEnd, ""},
	"interaction_query/request":       {ApprovalStart, ""},
	"interaction_query/response":      {ApprovalEnd, ""},
	"result":                          {RunEnd, ""},
	"connection/reconnecting":         {Notice, semconv.EventConnectionLost},
	"connection/reconnected":          {Notice, semconv.EventConnectionRestored},
	"connection":                      {Notice, ""},
	"retry/starting":                  {Notice, semconv.EventRetry},
	"retry/resuming":                  {Notice, semconv.EventRetry},
	"retry":                           {Notice, ""},
}

// classify sets the kind of event of the line.
func (l *cursorLine) classify() {
	row, ok := cursorKinds[string(l.typ)+"/"+string(l.subtype)]
	if !ok {
		row, ok = cursorKinds[string(l.typ)]
	}
	if l.Kind, l.Notice = row.kind, row.notice; !ok {
		l.Kind = Unknown
	}
	l.unknown = l.Kind == Notice && l.Notice == "" && len(l.subtype) > 0
	switch l.Kind {
	case TaskEnd:
		l.Wakes, l.Known = true, Inferred // it may be printed late
		l.Failed = l.Status != "success"
		l.Facts.text(semconv.TaskDetail, Full, l.result)
	case TextMessage: // the last text of an answer has neither a timestamp nor a model call
		switch {
		case len(l.ModelCallID) > 0:
		case l.stamped:
			l.Kind = TextDelta // or a text that repeats the deltas, or is their only copy: see cursorSession
		default:
			l.Final = true
		}
	case ToolStart, ToolEnd:
		l.finishTool()
	case RunError:
		l.Text = l.result
		l.Facts.text(semconv.Message, Full, l.result)
	case RunEnd:
		l.Text = l.result
		if l.Failed = l.Failed || string(l.subtype) == "error"; l.Failed {
			l.Status = enum(l.subtype)
			if l.Status == "" || l.Status == "success" {
				l.Status = semconv.ErrorOther
			}
		}
		l.settle(&l.Event)
	}
	if l.Notice == semconv.EventBackgroundTimeout {
		l.Facts.word(semconv.TaskID, []byte(word(l.ID)))
	}
}

// message reads {"role":..,"content":[{"type":"text","text":..}]}.
func (l *cursorLine) message(r *jsonscan.Reader) {
	for key := range r.Members() {
		switch {
		case string(key) != "content":
		case r.Peek() == '"': // builds of 2025 wrote a string
			l.said(r)
		default:
			for range r.Elements() {
				readMember(r, "text", func() { l.said(r) })
			}
		}
	}
}

func (l *cursorLine) said(r *jsonscan.Reader) {
	if r.Peek() != '"' {
		return
	}
	words := r.Str()
	if l.Text == nil {
		l.Text = slices.Clip(words) // of which append makes a copy
	} else {
		l.Text = append(l.Text, words...)
	}
}

// approval reads the object of an interaction_query's request,
// {"id":0,"webSearchRequestQuery":{"args":{..},"toolCallId":".."}}, or of its
// response, {"id":0,"webSearchRequestResponse":{"approved":{}}}.
func (l *cursorLine) approval(r *jsonscan.Reader) {
	for key := range r.Members() {
		switch {
		case string(key) == "id":
			l.ID = bytes.Trim(r.Raw(), `"`)
		case bytes.HasSuffix(key, []byte("Response")):
			if l.Query == "" { // query_type may be absent
				l.Query = queryName(bytes.TrimSuffix(key, []byte("Response")))
			}
			start := r.I
			l.approvalOutcome(r, 0)
			l.Facts.json(semconv.QueryResponse, r.B[start:r.I])
		default:
			if l.Query == "" && bytes.HasSuffix(key, []byte("Query")) {
				l.Query = queryName(key)
			}
			l.approvalQuery(r)
		}
	}
}

func (l *cursorLine) approvalQuery(r *jsonscan.Reader) {
	for key := range r.Members() {
		switch string(key) {
		case "args":
			start := r.I
			for key := range r.Members() {
				if string(key) == "toolCallId" {
					l.ToolCallID = readID(r)
				} else {
					l.Facts.argument(r, key)
				}
			}
			l.Facts.json(semconv.QueryArguments, r.B[start:r.I])
		case "toolCallId":
			l.ToolCallID = readID(r)
		}
	}
}

// approvalOutcome reads {"approved":{}}. The outcome of a question is nested
// once more: {"result":{"rejected":{"reason":".."}}}.
func (l *cursorLine) approvalOutcome(r *jsonscan.Reader, depth int) {
	for key := range r.Members() {
		name := enum(key)
		switch {
		case depth == 0 && name == "result":
			l.approvalOutcome(r, depth+1)
			continue
		case name == "approved", name == "rejected", l.Status == "" && r.Peek() == '{':
			l.Status, l.Failed = name, name == "rejected"
		}
	}
}

// queryName turns shellRequestQuery and askQuestionInteractionQuery into shell
// and askQuestion.
func queryName(s []byte) string {
	name := strings.TrimSuffix(enum(s), "Query")
	return strings.TrimSuffix(strings.TrimSuffix(name, "Request"), "Interaction")
}
