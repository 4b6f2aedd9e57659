package mapping

import "github.com/spantee/spantee/mapping/content"

// Sizes of what an open run keeps besides texts, with its copy in the log of the process.
const (
	runSize        = 5 << 10
	invocationSize = 1 << 10
	toolSize       = 2 << 10
	turnSize       = 1 << 10
	eventSize      = 256
)

// size returns about how many bytes an open run takes.
func (r *run) size() int {
	n := runSize + (len(r.notices)+len(r.early))*eventSize + textSize(&r.content)
	for _, inv := range r.order {
		n += invocationSize + len(inv.notices)*eventSize + textSize(&inv.dialog.content) + len(inv.dialog.answer) + valueSize(inv.dialog.asked)
		if t := inv.turn; t != nil && t.events != nil {
			n += turnSize + valueSize(t.asked) + t.events.size()
		}
	}
	for _, calls := range []map[string]*tool{r.tools, r.tasks} {
		for _, t := range calls {
			n += toolSize + cap(t.arguments.wire) + textSize(&t.asked) + t.callPart.Size()
		}
	}
	for _, p := range r.pauses {
		n += toolSize + textSize(&p.content)
	}
	return n
}

func (l *turnEvents) size() int {
	n := l.own.memory()
	for i := range l.children {
		n += l.children[i].memory()
	}
	return n
}

func (g *eventGroup) memory() int { return len(g.events)*eventSize + g.size }

func textSize(a *content.Attributes) (n int) {
	for _, attribute := range a.List {
		n += len(attribute.Text)
	}
	return n
}

func valueSize(list []content.Value) (n int) {
	for i := range list {
		n += list[i].Size()
	}
	return n
}
