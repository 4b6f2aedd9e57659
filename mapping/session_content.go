package mapping

// What a run takes of content, over its events. All of it is empty without
// being asked for.

// maxAsked is how many messages a turn is told to answer.
const maxAsked = 16

func (r *run) takePrompt(ev *event) {
	c := r.m.capture
	if !c.full() || len(ev.words.text) == 0 {
		return
	}
	s, lost := c.string(ev.words.text)
	asked := message("user", []value{textPart("text", s)}, "")
	if !r.prompted {
		r.prompted = true
		m := messages(asked)
		c.json(&r.content, keyInputMessages, &m, lost)
	}
	r.ask(asked)
}

// ask keeps a message for the next turn, which answers it.
func (r *run) ask(m value) {
	if len(r.asked) < maxAsked {
		r.asked = append(r.asked, m)
	}
}

// takeAnswer takes what the result says: the answer, or why there is none.
func (r *run) takeAnswer(end *event) {
	if end.failed {
		r.takeFault(end)
		return
	}
	if c := r.m.capture; c.full() && len(end.words.text) > 0 {
		s, lost := c.string(end.words.text)
		m := messages(message("assistant", []value{textPart("text", s)}, "stop"))
		c.json(&r.content, keyOutputMessages, &m, lost)
	}
}

func (r *run) takeFault(ev *event) {
	if c := r.m.capture; c != nil && len(ev.words.text) > 0 {
		var lost int
		r.fault, lost = c.string(ev.words.text)
		r.content.lost += lost
	}
}

// returned keeps a tool's result for the next turn.
func (r *run) returned(t *tool) {
	if t.response != nil && r.turn == nil {
		r.ask(message("tool", []value{toolResponsePart(clean(t.id), *t.response)}, ""))
	}
	t.response = nil
}

// reply adds what the user answered.
func (c *capture) reply(to *captured, raw []byte) {
	if c.full() && len(raw) > 0 {
		v, lost := c.value(raw)
		c.json(to, keyQueryResponse, &v, lost)
	}
}

// task adds what a notification says of a task.
func (c *capture) task(ev *event) (to captured) {
	if c != nil {
		c.text(&to, keyTaskTitle, ev.words.text)
	}
	if c.full() {
		c.text(&to, keyTaskDetail, ev.words.detail)
	}
	return to
}
