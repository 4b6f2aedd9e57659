package agent

import (
	"strings"

	"github.com/spantee/spantee/mapping/jsonscan"
)

// Marks are what a line shows of whose it is: its type and the names of its
// members.
type Marks struct {
	Type, Subtype, Session string

	keys [maxMarks]string
	n    int
}

// maxMarks is how many members of a line are looked at. Agents' lines have
// fewer than that.
const maxMarks = 48

// has tells whether the line has a member of this name.
func (m *Marks) has(key string) bool {
	for _, k := range m.keys[:m.n] {
		if k == key {
			return true
		}
	}
	return false
}

// marksOf reads the marks of a line, false if it is not a JSON object.
func marksOf(line []byte) (m Marks, ok bool) {
	r := jsonscan.Reader{B: trimLine(line)}
	if r.Peek() != '{' {
		return m, false
	}
	m.members(&r, "")
	return m, true
}

func (m *Marks) members(r *jsonscan.Reader, prefix string) {
	for key := range r.Members() {
		name := prefix + string(key)
		if m.n < maxMarks {
			m.keys[m.n] = name
			m.n++
		}
		value := r.Raw()
		if prefix != "" || len(value) == 0 {
			continue
		}
		switch {
		case value[0] == '"':
			text := string(jsonscan.Unquote(value[1:max(1, len(value)-1)]))
			switch name {
			case "type":
				m.Type = text
			case "subtype":
				m.Subtype = text
			case "session_id":
				m.Session = text
			}
		case value[0] == '{' && name == "message":
			m.members(&jsonscan.Reader{B: value}, "message.")
		case value[0] == '[' && name == "tools" && len(strings.TrimSpace(string(value[1:min(len(value), 64)]))) <= 1:
			m.n-- // an empty list proves nothing
		}
	}
}

// IsObject tells whether a line may be a JSON object.
func IsObject(line []byte) bool {
	line = trimLine(line)
	return len(line) == 0 || line[0] == '{'
}

// Detect returns the agent that a line can only have come from, or the name of
// one that spantee does not read. Most lines prove neither.
func Detect(line []byte) (agent *Agent, foreign string) {
	m, ok := marksOf(line)
	if !ok {
		return nil, ""
	}
	for _, f := range foreignAgents {
		if f.proof(&m) {
			return nil, f.name
		}
	}
	for _, a := range Agents {
		if a.Proof(&m) {
			return a, ""
		}
	}
	return nil, ""
}

// foreignAgents are agents that spantee knows by name only, with what their
// lines alone have: read off recordings of each.
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
