package mapping

import commonpb "go.opentelemetry.io/proto/otlp/common/v1"

// An event is one thing an agent did, in no agent's words: what a dialect
// makes of a line and all that a session knows of it. Its slices point into
// the line.
type event struct {
	kind    kind
	session []byte
	stamp   instant // when the agent says it was, 0 if it does not

	bytes     int    // textDelta, thinkingDelta, flush: of the text
	modelCall []byte // the model call a line belongs to, where it says so
	id        []byte // pairs toolStart with toolEnd, approvalStart with approvalEnd; the task of taskEnd

	tool   toolCall // toolStart, toolEnd
	query  string   // approvalStart: what is asked for
	status string   // approvalEnd, taskEnd: how it went
	failed bool     // approvalEnd, taskEnd, runEnd, runError
	final  bool     // flush: nothing of this turn follows

	model string               // runStart
	attrs []*commonpb.KeyValue // runStart, runEnd: of the root span
	took  instant              // runEnd: how long the agent says the run was

	words *words
}

// Words are the content of a line, as it stands there. Nobody looks at them
// without being asked for content, so they are not a part of the event, which
// is copied for each delta.
type words struct {
	text        []byte // of a delta, a flush, a prompt, an error, a result; the title of a task. Still escaped
	detail      []byte // runStart: the working directory; taskEnd: what came of it. Still escaped
	query       []byte // approvalStart, approvalEnd: what is asked or answered, JSON
	args        []byte // toolStart, toolEnd: JSON
	result      []byte // toolEnd: JSON
	description []byte // toolStart, toolEnd: the agent's words on the call. Still escaped
}

type kind int

const (
	unknown       kind = iota // counted, and else ignored
	control                   // of no interest
	runStart                  // opens a run
	prompt                    // the user's words
	thinkingDelta             // a piece of the model's thinking
	thinkingEnd               // the end of a block of it
	textDelta                 // a piece of the model's answer
	flush                     // a whole segment of it, which may repeat deltas
	toolStart
	toolEnd
	approvalStart // the agent asks its user
	approvalEnd
	taskEnd  // what a tool had left running in the background is done
	runError // the agent speaks of an error; its run may or may not go on
	runEnd
)

// A toolCall is what a line says of a call. Its start has the arguments, its
// end the outcome and, not always, the arguments again.
type toolCall struct {
	name       string
	mcp        bool
	arguments  []*commonpb.KeyValue
	outcome    []*commonpb.KeyValue
	errorType  string // "" if it went well
	message    string // of the error, never content
	background bool   // it runs on after its end
	task       []byte // under which its taskEnd will come
}
