package runs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spantee/spantee/mapping/semconv"
)

// Turns names model calls by their turn and the tools that this called. Spans may be added in any
// order.
type Turns struct{ tools map[Turn][]string }

// A Turn is a model call of an agent.
type Turn struct {
	Trace, Agent string // ids, in bytes
	Number       int64  // 0 if it is not known
}

const (
	maxTurns = 4096 // whose tools are known
	maxLedTo = 3    // tools that are named of a turn
)

// TurnOf returns the turn that a model call is, or that called a tool.
func TurnOf(s *Span) Turn {
	return Turn{string(s.TraceID), string(s.Parent), s.Int(semconv.TurnNumber)}
}

// Add adds a finished span.
func (t *Turns) Add(s *Span) {
	if s.Kind() != Tool {
		return
	}
	turn := TurnOf(s)
	if led := t.tools[turn]; len(led) <= maxLedTo && (led != nil || len(t.tools) < maxTurns) {
		if t.tools == nil {
			t.tools = map[Turn][]string{}
		}
		t.tools[turn] = append(led, s.ToolName())
	}
}

// Name returns a name such as "turn 3 → read, shell". A turn that called no tool has its reply
// there.
func (t *Turns) Name(turn Turn, reply string) string {
	led := t.tools[turn]
	switch {
	case len(led) == 0:
		led = []string{reply}
	case len(led) > maxLedTo:
		led = append(slices.Clone(led[:maxLedTo]), "…")
	}
	return fmt.Sprintf("turn %d → %s", turn.Number, strings.Join(led, ", "))
}

// Reply says what a model call ended with that called no tool: its failure, or an answer.
func (s *Span) Reply() string {
	if s.Failed {
		return s.Failure()
	}
	return "answer"
}
