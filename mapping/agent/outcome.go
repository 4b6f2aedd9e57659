package agent

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/semconv"
)

// Endings are the kinds of lines that can end a run, by their types. For each of them, they
// list every member that can tell how the run ended, by its path. In a list of objects, the
// last one that tells counts.
//
// A run succeeds if one of these members says so, and nothing denies it: none of them, and no
// unknown member beside them that is set and whose name is about a failure. Agents move what
// they say of a failure, but do not call it something else.
type endings map[string]map[string]verdict

// A verdict returns what a value says of the run.
type verdict func(value []byte) saying

type saying uint8

const (
	nothing saying = iota
	success
	failure
	unclear
)

// succeeded is the verdict of a type that is printed only if the run succeeded.
func succeeded([]byte) saying { return success }

// failedIf is the verdict of a member that says whether the run failed.
func failedIf(value []byte) saying {
	if string(value) == "false" {
		return success
	}
	return failedWith(value)
}

// failedWith is the verdict of a member that says what went wrong.
func failedWith(value []byte) saying {
	if isSet(value) {
		return failure
	}
	return nothing
}

// only is the verdict of a member of which one value is that of runs that succeeded.
func only(value string) verdict {
	return func(v []byte) saying {
		switch v = bytes.Trim(v, `"`); {
		case strings.EqualFold(string(v), value):
			return success
		case isSet(v):
			return failure
		}
		return nothing
	}
}

// oneOf is the verdict of a member with a word, which is one of these if the run succeeded.
func oneOf(values ...string) verdict {
	return func(v []byte) saying {
		switch v = bytes.Trim(v, `"`); {
		case slices.Contains(values, string(v)):
			return success
		case isAboutFailure(v):
			return failure
		case isSet(v):
			return unclear
		}
		return nothing
	}
}

// reason is the verdict of a member that gives the name of a failure, or another reason.
func reason(value []byte) saying {
	if isAboutFailure(value) {
		return failure
	}
	return nothing
}

// subtype is the verdict of a result's subtype. Only "success" and error types are certain:
// others were seen translated.
func subtype(value []byte) saying {
	switch value = bytes.Trim(value, `"`); {
	case string(value) == "success":
		return success
	case bytes.HasPrefix(value, []byte("error")):
		return failure
	}
	return nothing
}

// isSet reports whether a value is there and not empty.
func isSet(value []byte) bool {
	switch string(value) {
	case "", "null", "false", "0", `""`, "[]", "{}":
		return false
	}
	return true
}

// isAboutFailure reports whether a name is about a failure.
func isAboutFailure(name []byte) bool {
	lower := bytes.ToLower(name)
	return slices.ContainsFunc([]string{"error", "fail", "abort"}, func(word string) bool { return bytes.Contains(lower, []byte(word)) })
}

// An outcome is what an object says of how a run ended.
type outcome struct {
	said, denied bool // by known members
	doubted      bool // by an unknown one, or an unknown word
	fault        fault
}

// read reads an object that is at a path in the line, "" for the line.
func (o *outcome) read(r *jsonscan.Reader, members map[string]verdict, path string) {
	for key := range r.Members() {
		name := path + string(key)
		judge, known := members[name]
		switch c := r.Peek(); {
		case known:
			o.judge(key, r.Raw(), judge)
		case c == '{' && holds(members, name):
			o.read(r, members, name+".")
		case c == '[' && holds(members, name):
			var last outcome
			for range r.Elements() {
				var next outcome
				if next.read(r, members, name+"."); next.said || next.denied {
					last = next
				} else {
					last.doubted = last.doubted || next.doubted
				}
			}
			o.said, o.denied, o.doubted = o.said || last.said, o.denied || last.denied, o.doubted || last.doubted
			o.fault = last.fault
		case isAboutFailure(key):
			o.doubted = isSet(r.Raw()) || o.doubted
		}
	}
}

// judge reads the value of a known member.
func (o *outcome) judge(key, value []byte, judge verdict) {
	switch judge(value) {
	case success:
		o.said = true
	case failure:
		o.denied = true
		if c := value[0]; c == '{' || c == '[' || c == '"' && isAboutFailure(key) {
			o.fault = readFault(&jsonscan.Reader{B: value})
		}
	case unclear:
		o.doubted = true
	}
}

// holds reports whether the members at a path include some of these.
func holds(members map[string]verdict, path string) bool {
	for name := range members {
		if strings.HasPrefix(name, path+".") {
			return true
		}
	}
	return false
}

// settle makes the end of a run a failure unless the line says that the run succeeded. The
// decoder may have told that from elsewhere.
func (l *line) settle(end *Event) {
	members := l.ends[string(l.typ)+"/"+string(l.subtype)]
	if members == nil {
		members = l.ends[string(l.typ)]
	}
	var o outcome
	o.read(&jsonscan.Reader{B: l.object}, members, "")
	salvage(l.tail, func(r *jsonscan.Reader, key []byte) { o.judge(key, r.Raw(), members[string(key)]) }, slices.Sorted(maps.Keys(members))...)
	if o.denied {
		end.Facts.status(o.fault.status)
	}
	switch {
	case end.Failed:
		if len(end.Text) == 0 {
			end.Text = o.fault.text
		}
	case o.denied:
		end.Failed, end.Status, end.Text = true, cmp.Or(end.Status, o.fault.name, "error"), o.fault.text
	case o.doubted || !o.said:
		end.Failed, end.Status, end.Text = true, semconv.ErrorOutcomeUnknown, nil
	}
}
