package agent

import (
	"bytes"
	"strings"

	"github.com/spantee/spantee/mapping/jsonscan"
)

// Marks are the parts of a line that show which agent wrote it: its type and the
// names of its members.
type Marks struct {
	Type, Subtype, Session string

	keys [maxMarks]mark
	n    int
}

// A mark is a member of a line, or of its message.
type mark struct {
	name      []byte
	inMessage bool
}

// maxMarks is how many members of a line are looked at. Agents' lines have
// fewer than that.
const maxMarks = 48

// has tells whether the line has a member of this name; "message.role" is that
// of its message.
func (m *Marks) has(key string) bool {
	name, inMessage := strings.CutPrefix(key, "message.")
	for i := range m.keys[:m.n] {
		if k := &m.keys[i]; string(k.name) == name && k.inMessage == inMessage {
			return true
		}
	}
	return false
}

// ReadMarks reads the marks of a line. One that is no JSON object has none.
func ReadMarks(line []byte) (m Marks) {
	r := jsonscan.Reader{B: trimLine(line)}
	if r.Peek() == '{' {
		m.members(&r, false)
	}
	return m
}

func (m *Marks) members(r *jsonscan.Reader, inMessage bool) {
	for key := range r.Members() {
		switch name := string(key); {
		case inMessage:
			r.Skip()
		case name == "type":
			m.Type = string(jsonscan.Unquote(r.Str()))
		case name == "subtype":
			m.Subtype = string(jsonscan.Unquote(r.Str()))
		case name == "session_id":
			m.Session = string(readID(r))
		case name == "message" && r.Peek() == '{':
			m.members(r, true)
		case name == "tools":
			if list := r.Raw(); len(list) > 0 && list[0] == '[' && len(bytes.Trim(list, "[] \t")) == 0 {
				continue // an empty list proves nothing
			}
		default:
			r.Skip()
		}
		if m.n < maxMarks {
			m.keys[m.n] = mark{key, inMessage}
			m.n++
		}
	}
}

// IsObject reports whether a line may be a JSON object.
func IsObject(line []byte) bool {
	line = trimLine(line)
	return len(line) == 0 || line[0] == '{'
}

// MayBegin reports whether a line may begin a run in a form that several agents
// share. Look at its marks first: a decoder would take it for its own agent's.
func MayBegin(line []byte) bool {
	if typ, ok := bytes.CutPrefix(line, []byte(`{"type":"`)); ok && len(typ) > 0 {
		switch typ[0] {
		case 's', 'i', '\\': // "system", "init", or either of them escaped
		default:
			return false // as for most lines
		}
	}
	return bytes.Contains(line[:min(len(line), maxInit)], []byte(`"init"`))
}

// maxInit is how much of a line MayBegin looks at. The longest first lines list tools
// and take a few kilobytes.
const maxInit = 16 << 10

// Agent returns the agent that a line can only have come from, or the name of
// one that spantee does not read. Most lines prove neither.
func (m *Marks) Agent() (agent *Agent, foreign string) {
	if m.n == 0 {
		return nil, ""
	}
	for _, f := range foreignAgents {
		if f.proof(m) {
			return nil, f.name
		}
	}
	for _, a := range Agents {
		if a.IsProof(m) {
			return a, ""
		}
	}
	return nil, ""
}

// foreignAgents are agents that spantee only recognizes, and the members that are
// unique to their lines, taken from recordings.
var foreignAgents = []struct {
	name  string
	proof func(*Marks) bool
}{
	{"Trae", func(m *Marks) bool { return strings.HasPrefix(m.Session, "t-") && m.Type == "system" }},
	{"muse", func(m *Marks) bool { return m.has("schema_version") && m.has("payload_type") }},
	{"Antigravity", func(m *Marks) bool {
		return m.Type == "" && m.has("event") && (m.has("conversation_id") || m.has("step_update") || m.has("result"))
	}},
	{"Kimi", func(m *Marks) bool { return m.Type == "" && m.has("role") && m.has("content") }},
}
