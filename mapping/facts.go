package mapping

import (
	"bytes"
	"cmp"

	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/content"
	"github.com/spantee/spantee/mapping/semconv"
)

// takeFacts keeps the facts of a run's first line or result.
func (r *run) takeFacts(list []agent.Fact) {
	for _, fact := range list {
		if fact.Level == agent.Harmless {
			fact.Text = bytes.Clone(fact.Text)
			r.facts.Set(fact)
		}
	}
	r.stream.facts(nil, list, &r.content)
}

// maxAsked is how many messages a turn may answer.
const maxAsked = 16

func (r *run) takePrompt(inv *invocation, ev *agent.Event) {
	c := r.stream.capture
	if !c.Full() || len(ev.Text) == 0 {
		return
	}
	s, lost := c.Next(ev.Text, &inv.dialog.prompts)
	prompt := content.Message("user", []content.Value{content.TextPart("text", s)}, "")
	if len(inv.dialog.content.List) == 0 {
		m := content.Messages(prompt)
		c.JSON(&inv.dialog.content, semconv.InputMessages, &m, lost)
	}
	inv.dialog.ask(prompt)
}

// ask keeps a message for the next turn, which answers it.
func (d *dialog) ask(m content.Value) {
	if len(d.asked) < maxAsked {
		d.asked = append(d.asked, m)
	}
}

// attributes returns the attributes of the agent's span.
func (d *dialog) attributes(c *content.Capture) content.Attributes {
	if c.Full() && d.answer != "" {
		m := content.Messages(content.Message("assistant", []content.Value{content.TextPart("text", d.answer)}, "stop"))
		c.JSON(&d.content, semconv.OutputMessages, &m, 0)
	}
	return d.content
}

// takeAnswer keeps the answer in the result. The answer is the last text; some results hold all
// texts in one.
func (r *run) takeAnswer(end *agent.Event) {
	if c := r.stream.capture; c.Full() && !end.Failed && r.main.dialog.answer == "" && len(end.Text) > 0 {
		var lost int
		r.main.dialog.answer, lost = c.String(end.Text)
		r.content.Lost += lost
	}
}

// takeError keeps what an agent says of its error.
func (r *run) takeError(ev *agent.Event) {
	if s, lost := r.stream.capture.String(ev.Text); s != "" {
		r.failure.text = s
		r.content.Lost += lost
	}
	r.failure.httpStatus = cmp.Or(httpStatus(ev), r.failure.httpStatus)
}

// httpStatus returns the HTTP status of a model call that failed, 0 if it is not known.
func httpStatus(ev *agent.Event) int64 {
	if fact := ev.Facts.Find(semconv.HTTPResponseStatus); fact != nil {
		return fact.Int
	}
	return 0
}
