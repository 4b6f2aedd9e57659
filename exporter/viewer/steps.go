package viewer

import (
	"context"
	"strings"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/mapping/semconv"
)

// Steps are what the transcript shows of spans, beyond what is in their bars.
type Steps = Answer[Step]

// A Step is the content of a span. All strings may be empty: by default,
// content is not recorded.
type Step struct {
	ID        string `json:"id"`
	Prompt    string `json:"prompt,omitempty"`    // gen_ai.input.messages
	Answer    string `json:"answer,omitempty"`    // gen_ai.output.messages
	Arguments string `json:"arguments,omitempty"` // JSON
	Result    string `json:"result,omitempty"`
	Said      []Said `json:"said,omitempty"` // by deltas, if there is no answer (yet)
	Notes     []Note `json:"notes,omitempty"`
	Cut       int    `json:"cut,omitempty"` // bytes that did not fit into this answer
}

// Said is text that was streamed.
type Said struct {
	Kind string `json:"kind"` // text or thinking
	Text string `json:"text"`
}

// A Note is an event other than a delta, with its attributes as text.
type Note struct {
	At   int64  `json:"at"` // microseconds since the span's start
	Name string `json:"name"`
	Text string `json:"text"`
}

// maxNotes bounds the notes of one span.
const maxNotes = 200

// Steps returns the content of the spans that came after since, as much as one answer
// holds.
func (s *Store) Steps(ctx context.Context, id traceID, since int64) (Steps, bool, error) {
	return s.steps(ctx, id, since, maxAnswer)
}

func (s *Store) steps(ctx context.Context, id traceID, since int64, maxSize int) (Steps, bool, error) {
	from := s.read.during(ctx)
	row, _, err := s.find(from, id)
	if err != nil || row == 0 {
		return Steps{}, false, err
	}
	d := decoder{}
	steps, err := readAnswer(from, row, since, maxSize, func(sp stored) (Step, int) { return newStep(d.decode(sp)) })
	return steps, true, err
}

// newStep returns the content of a span, and its size in bytes.
func newStep(s Span) (step Step, bytes int) {
	step.ID = hexID(s.GetSpanId())
	take := func(key string) string {
		v := value(s.GetAttributes(), key)
		if v == nil {
			return ""
		}
		_, whole := valueText(v)
		shown := cutText(whole, maxStepBytes)
		step.Cut += len(whole) - min(len(whole), maxStepBytes)
		bytes += len(shown)
		return shown
	}
	step.Prompt, step.Answer = take(semconv.InputMessages), take(semconv.OutputMessages)
	step.Arguments, step.Result = take(semconv.ToolArguments), take(semconv.ToolResult)
	for _, e := range s.GetEvents() {
		kind, _, _ := strings.Cut(e.GetName(), ".")
		if kind != "text" && kind != "thinking" {
			if len(step.Notes) < maxNotes {
				note := newNote(s, e)
				step.Notes = append(step.Notes, note)
				bytes += len(note.Name) + len(note.Text) + 1
			}
			continue
		}
		words := text(e.GetAttributes(), semconv.DeltaText)
		if words == "" || step.Answer != "" {
			continue
		}
		if bytes > maxStepBytes {
			step.Cut += len(words)
			continue
		}
		step.Cut += max(0, len(words)-maxStepBytes)
		words = cutText(words, maxStepBytes)
		bytes += len(words)
		if n := len(step.Said); n > 0 && step.Said[n-1].Kind == kind {
			step.Said[n-1].Text += words
		} else {
			step.Said = append(step.Said, Said{kind, words})
		}
	}
	return step, bytes
}

func newNote(s Span, e *tracepb.Span_Event) Note {
	var words []string
	for _, kv := range e.GetAttributes() {
		_, v := valueText(kv.GetValue())
		words = append(words, strings.TrimPrefix(kv.GetKey(), "spantee.")+" "+cutText(v, maxDetail))
	}
	return Note{
		At:   microseconds(e.GetTimeUnixNano()) - microseconds(s.GetStartTimeUnixNano()),
		Name: cutText(e.GetName(), maxDetail), Text: cutText(strings.Join(words, ", "), 8*maxDetail),
	}
}
