package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A shape is the name of a member of a type of lines: names only, no values. The shapes of an
// agent's lines are kept as text, so that a new build's members are lines in a diff.
type shapes map[string]bool

const shapeFolder = ".ci/agents/shapes"

// add adds the shapes of what a run printed and logged.
func (s shapes) add(folder string) error {
	stream, err := os.ReadFile(filepath.Join(folder, "stream.jsonl"))
	if err != nil {
		return err
	}
	s.addLines("stream", stream)
	return filepath.WalkDir(filepath.Join(folder, "logs"), func(path string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil || !d.Type().IsRegular() || filepath.Ext(path) != ".jsonl" {
			return err
		}
		log, err := os.ReadFile(path)
		s.addLines("log", log)
		return err
	})
}

func (s shapes) addLines(where string, text []byte) {
	for line := range bytes.Lines(text) {
		var v object
		if json.Unmarshal(line, &v) == nil {
			s.members(where+" "+lineType(v), "", v, 0)
		}
	}
}

// kinds are the members that say what a line is, beside its type.
var kinds = []string{"subtype", "role"}

// nested are the members that have a type of their own.
var nested = []string{"event", "item", "payload", "message", "data", "part", "attachment", "assistantMessageEvent"}

// lineType says what a line is, by its type and those within it.
func lineType(v object) string {
	words := []string{typeWord(v)}
	for _, name := range nested {
		if within, ok := v[name].(object); ok {
			if word := typeWord(within); word != "" {
				words = append(words, word)
			}
			if deeper, ok := within["item"].(object); ok {
				words = append(words, typeWord(deeper))
			}
		}
	}
	for _, kind := range kinds {
		if word, ok := v[kind].(string); ok {
			words = append(words, word)
		}
	}
	return strings.Join(words, "/")
}

func typeWord(v object) string {
	for _, name := range []string{"type", "role", "kind"} {
		if word, ok := v[name].(string); ok && plainName.MatchString(word) {
			return word
		}
	}
	return ""
}

// plainName is a member's name. Others are keys of a map, such as paths and ids.
var plainName = regexp.MustCompile(`^[A-Za-z_$][A-Za-z_.$-]{0,39}$`)

// maxDepth is how deep members are named: deeper ones are a tool's own.
const maxDepth = 4

func (s shapes) members(line, path string, v any, depth int) {
	switch v := v.(type) {
	case object:
		for name, member := range v {
			if !plainName.MatchString(name) {
				name = "*"
			}
			s[line+" "+path+name] = true
			if depth < maxDepth && name != "arguments" && name != "input" && name != "args" {
				s.members(line, path+name+".", member, depth+1)
			}
		}
	case []any:
		for _, member := range v {
			s.members(line, strings.TrimSuffix(path, ".")+"[].", member, depth)
		}
	}
}

// text is how shapes are kept: a line for each type of lines, with its members.
func (s shapes) text(build string) string {
	types := map[string][]string{}
	for shape := range s {
		i := strings.LastIndexByte(shape, ' ')
		types[shape[:i]] = append(types[shape[:i]], shape[i+1:])
	}
	text := "# " + build + "\n"
	for _, line := range slices.Sorted(maps.Keys(types)) {
		slices.Sort(types[line])
		text += line + "\n"
		for _, member := range types[line] {
			text += "\t" + member + "\n"
		}
	}
	return text
}

// readShapes reads the kept shapes of an agent, none if there are none yet.
func readShapes(path string) (s shapes, build string, err error) {
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return shapes{}, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	s = shapes{}
	line := ""
	for row := range strings.Lines(string(text)) {
		row = strings.TrimSuffix(row, "\n")
		switch {
		case strings.HasPrefix(row, "# "):
			build = row[2:]
		case strings.HasPrefix(row, "\t"):
			s[line+" "+row[1:]] = true
		default:
			line = row
		}
	}
	return s, build, nil
}

// drift says what is in s and not in other, with all members of a new type of lines as one.
func (s shapes) drift(other shapes, sign string) (rows []string) {
	known := map[string]bool{}
	for shape := range other {
		known[shape[:strings.LastIndexByte(shape, ' ')]] = true
	}
	whole := map[string]int{}
	for shape := range s {
		line := shape[:strings.LastIndexByte(shape, ' ')]
		switch {
		case other[shape]:
		case known[line]:
			rows = append(rows, sign+" "+shape)
		default:
			whole[line]++
		}
	}
	for line, members := range whole {
		rows = append(rows, fmt.Sprintf("%s %s, with %d members", sign, line, members))
	}
	slices.Sort(rows)
	return rows
}
