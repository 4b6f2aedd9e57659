package agent

import (
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/spantee/spantee/mapping/jsonscan"
)

// Marks are the parts of a line that show which program wrote it: the names of its
// members and of their members, and those values that are strings.
type Marks struct {
	Session string // the session it names, "" if none
	Broken  bool   // it is no JSON
	members []mark
}

// A mark is a member of a line, or of an object that is a member of the line.
type mark struct {
	parent, name []byte
	value        []byte // still escaped, nil unless it is a string
}

// maxMarks is how many members of a line are looked at. Agents' lines have fewer.
const maxMarks = 256

// Read reads the marks of a line. One that is no JSON object has none.
func (m *Marks) Read(line []byte) {
	m.Session, m.members = "", m.members[:0]
	r := jsonscan.Reader{B: trimLine(line)}
	if r.Peek() == '{' {
		m.read(&r, nil)
	}
	m.Broken = r.Bad
}

func (m *Marks) read(r *jsonscan.Reader, parent []byte) {
	for key := range r.Members() {
		if len(m.members) == maxMarks {
			continue
		}
		at := len(m.members)
		m.members = append(m.members, mark{parent: parent, name: key})
		switch c := r.Peek(); {
		case parent == nil && (string(key) == "session_id" || string(key) == "sessionID"):
			m.members[at].value = readID(r)
			m.Session = string(m.members[at].value)
		case parent == nil && c == '{':
			m.read(r, key)
		case c == '"':
			m.members[at].value = r.Str()
		case c == '[' && parent != nil:
			m.members[at].value = list
		}
	}
}

// list is the value of a list in an object that is a member.
var list = []byte{'['}

// A Shape is what the lines of a kind have in common: their members.
type Shape []term

// A term is a member that a line has, or must not have. If there are words or patterns,
// the member is a string that is one of the words or matches one of the patterns.
type term struct {
	parent, name    string
	words, patterns []string
	valued, not     bool
}

// shapes reads shapes:
//
//	type=a|b*    the member is a string that matches one of these patterns
//	!name        there is no such member
//	part.id      the member of a member that is an object
//	part.list=[  such a member that is a list
func shapes(texts ...string) (list []Shape) {
	for _, text := range texts {
		var s Shape
		for word := range strings.FieldsSeq(text) {
			word, not := strings.CutPrefix(word, "!")
			member, values, valued := strings.Cut(word, "=")
			t := term{name: member, valued: valued, not: not}
			if parent, name, nested := strings.Cut(member, "."); nested {
				t.parent, t.name = parent, name
			}
			for value := range strings.SplitSeq(values, "|") {
				if strings.ContainsAny(value, "*?") {
					t.patterns = append(t.patterns, value)
				} else {
					t.words = append(t.words, value)
				}
			}
			s = append(s, t)
		}
		list = append(list, s)
	}
	return list
}

// is reports whether a line has a shape.
func (m *Marks) is(shape Shape) bool {
	for i := range shape {
		if m.has(&shape[i]) == shape[i].not {
			return false
		}
	}
	return true
}

func (m *Marks) has(t *term) bool {
	member := m.find(t.parent, t.name)
	return member != nil && (!t.valued || t.matches(string(jsonscan.Unquote(member.value))))
}

// find returns the member of an object, or of the line if parent is empty; nil if there is
// none.
func (m *Marks) find(parent, name string) *mark {
	for i := range m.members {
		if k := &m.members[i]; string(k.name) == name && string(k.parent) == parent {
			return k
		}
	}
	return nil
}

func (t *term) matches(value string) bool {
	return slices.Contains(t.words, value) || slices.ContainsFunc(t.patterns, func(pattern string) bool {
		ok, _ := path.Match(pattern, value)
		return ok
	})
}

// value returns the string that a member of an object has, "" if there is none.
func (m *Marks) value(parent, name string) string {
	if member := m.find(parent, name); member != nil {
		return string(jsonscan.Unquote(member.value))
	}
	return ""
}

// any reports whether a line has one of these shapes.
func (m *Marks) any(list []Shape) bool { return slices.ContainsFunc(list, m.is) }

// IsObject reports whether a line may be a JSON object.
func IsObject(line []byte) bool {
	line = trimLine(line)
	return len(line) == 0 || line[0] == '{'
}

// Type returns the type of a line as [Event] has it, "" if the line has none.
func (m *Marks) Type() string {
	if m.find("", "type") == nil {
		return ""
	}
	return typeName([]byte(m.value("", "type")), []byte(m.value("", "subtype")))
}

// firstValues returns the strings that the first row has among the members of an object.
func firstValues(rows iter.Seq[*Marks], parent string, names ...string) (values []string) {
	for m := range rows {
		for _, name := range names {
			if value := m.value(parent, name); value != "" {
				values = append(values, value)
			}
		}
		break
	}
	return values
}
