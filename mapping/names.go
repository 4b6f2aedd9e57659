package mapping

import (
	"github.com/spantee/spantee/mapping/redact"
	"github.com/spantee/spantee/mapping/semconv"
)

// names decides which names and ids may leave the machine at every content level. A
// broken or hostile stream may have a token in place of a tool's name, a status or
// an id.
type names struct {
	redactor *redact.Redactor
	known    map[string]bool // whether a name may be shown
	hidden   int             // names that were not passed on
}

// maxNames is how many decisions are remembered.
const maxNames = 4096

func newNames(redactor *redact.Redactor) *names {
	return &names{redactor: redactor, known: map[string]bool{}}
}

// pass returns a name, or _OTHER if the name may be a secret. Short names and ids
// of a known form pass without the rules, which take time to load.
func (n *names) pass(s string) string {
	if redact.KnownID(s) {
		return s
	}
	harmless, known := n.known[s]
	if !known {
		if len(n.known) >= maxNames {
			clear(n.known)
		}
		harmless = n.redactor.HarmlessName(s)
		n.known[s] = harmless
	}
	if !harmless {
		n.hidden++
		return semconv.ErrorOther
	}
	return s
}

// id returns an id, or _OTHER if a rule takes the id for a secret. Being random
// does not count against an id.
func (n *names) id(s string) string {
	shown := n.idAgain(s)
	if shown != s {
		n.hidden++
	}
	return shown
}

// idAgain is id for a further place of an id, which is counted once.
func (n *names) idAgain(s string) string {
	if redact.KnownID(s) || len(n.redactor.Find(s)) == 0 {
		return s
	}
	return semconv.ErrorOther
}
