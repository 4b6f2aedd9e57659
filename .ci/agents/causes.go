package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The edges of the truth.
const (
	edgeAsked    = "asked"    // a request came
	edgeAnswered = "answered" // its last byte went
	edgeBegan    = "began"    // a command
	edgeEnded    = "ended"
)

// A sign is a line that tells an edge: where one is near the edge and the trace is not,
// spantee has read it wrongly.
type sign struct {
	Agent, Way, Edge string
	Line             string // a part of it
	Member           string // with the time in ms since 1970; "" for the time of the line
}

// signs are what agents are known to tell in time.
var signs = []sign{
	{"claude", wayPipe, edgeAsked, `"requesting"`, ""},
	{"claude", wayLog, edgeAsked, `"type":"api-request"`, ""},
	{"claude", wayPipe, edgeBegan, `"task_started"`, ""},
	{"claude", wayPipe, edgeEnded, `"tool_result"`, ""},
	{"claude", wayLog, edgeEnded, `"tool_result"`, ""},
	{"codex", wayLog, edgeBegan, `"CommandExecution"`, "started_at_ms"},
	{"codex", wayLog, edgeEnded, `"CommandExecution"`, "completed_at_ms"},
	{"codex", wayPipe, edgeBegan, `"item.started"`, ""},
	{"codex", wayPipe, edgeEnded, `"item.completed"`, ""},
	{"codex", wayLog, edgeAnswered, `"token_usage_record"`, ""},
	{"copilot", wayPipe, edgeAsked, `"model.call_start"`, ""},
	{"copilot", wayPipe, edgeAnswered, `"model.call_final_result"`, ""},
	{"copilot", wayLog, edgeAnswered, `"session.usage_record"`, ""},
	{"copilot", wayPipe, edgeEnded, `"tool.execution_complete"`, ""},
	{"opencode", wayPipe, edgeAsked, `"step_start"`, ""},
	{"opencode", wayPipe, edgeAnswered, `"step_finish"`, ""},
	{"opencode", wayPipe, edgeBegan, `"tool_use"`, "start"},
	{"opencode", wayPipe, edgeEnded, `"tool_use"`, "end"},
	{"pi", wayPipe, edgeAsked, `"turn_start"`, ""},
	{"pi", wayPipe, edgeAsked, `"role":"assistant"`, "timestamp"},
	{"pi", wayLog, edgeAsked, `"role":"assistant"`, "timestamp"},
	{"pi", wayPipe, edgeAnswered, `"message_end"`, ""},
	{"pi", wayPipe, edgeBegan, `"tool_execution_start"`, ""},
	{"pi", wayPipe, edgeEnded, `"tool_execution_end"`, ""},
	{"gemini", wayPipe, edgeBegan, `"tool_use"`, ""},
	{"gemini", wayPipe, edgeEnded, `"tool_result"`, ""},
	{"qwen", wayPipe, edgeEnded, `"tool_result"`, ""},
}

// near is how close a line is to the edge that it tells.
const nearEdge = 0.1

// A toldLine is a line of a way of reading.
type toldLine struct {
	at   float64 // it arrived or, in a log, what it is stamped with
	text []byte
}

// told returns the lines of a way of reading.
func (k *keptRun) told(way string) (lines []toldLine, err error) {
	if way == wayLog || way == wayFollow {
		err = filepath.WalkDir(filepath.Join(k.folder, "logs"), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			text, err := os.ReadFile(path)
			for line := range bytes.Lines(text) {
				var v struct {
					Timestamp string `json:"timestamp"`
				}
				if json.Unmarshal(line, &v) == nil {
					if at, err := time.Parse(time.RFC3339, v.Timestamp); err == nil {
						lines = append(lines, toldLine{seconds(at), line})
					}
				}
			}
			return err
		})
		return lines, err
	}
	p, err := newPlayer(k, "", false)
	if err != nil {
		return nil, err
	}
	offset, i := 0, 0
	for line := range bytes.Lines(p.stream) {
		offset += len(line)
		for i < len(p.arrivals)-1 && p.arrivals[i].bytes < offset {
			i++
		}
		if len(p.arrivals) > 0 {
			lines = append(lines, toldLine{p.arrivals[i].at, line})
		}
	}
	return lines, nil
}

// edgeAt returns which edge of the truth a time is, "" if it is none.
func (k *keptRun) edgeAt(t float64) string {
	for _, r := range k.own() {
		switch t {
		case r.Received:
			return edgeAsked
		case r.over():
			return edgeAnswered
		}
	}
	if t == k.info.End {
		return edgeEnded // of what was killed
	}
	for _, c := range k.commands {
		switch t {
		case c.Begin:
			return edgeBegan
		case c.End:
			return edgeEnded
		}
	}
	return ""
}

// cause says to which line a stretch is put down.
func (k *keptRun) cause(way string, p piece, lines []toldLine) string {
	edge, at, drawn := k.edgeAt(p.From), p.From, p.To
	if edge == "" {
		edge, at, drawn = k.edgeAt(p.To), p.To, p.From
	}
	if edge == "" || edge == edgeAsked && p.True == "model" {
		for _, r := range k.own() {
			if r.failed() && p.From < r.End+longPiece && p.To > r.End {
				return "the wait between two attempts"
			}
		}
	}
	if edge == "" {
		return "no edge of the truth is near"
	}
	readAs := way
	if way == wayFollow {
		readAs = wayLog
	}
	for _, s := range signs {
		if s.Agent != k.info.Agent || s.Way != readAs || s.Edge != edge {
			continue
		}
		for _, line := range lines {
			if bytes.Contains(line.text, []byte(s.Line)) && s.tells(line, at) {
				return fmt.Sprintf("%s: READ WRONGLY, %s %s tells it", edge, strings.Trim(s.Line, `"`), s.Member)
			}
		}
	}
	between := 0
	for _, line := range lines {
		if math.Abs(line.at-drawn) < nearEdge {
			between++
		}
	}
	switch {
	case between == 0:
		return edge + ": not printed"
	case drawn < at:
		return edge + ": told early"
	}
	return edge + ": printed late"
}

// tells reports whether the line's time, or that of its member, is near an edge.
func (s *sign) tells(line toldLine, edge float64) bool {
	if s.Member == "" {
		return math.Abs(line.at-edge) < nearEdge
	}
	for rest := string(line.text); ; {
		_, after, found := strings.Cut(rest, `"`+s.Member+`":`)
		if !found {
			return false
		}
		var ms float64
		if _, err := fmt.Sscan(strings.FieldsFunc(after+" ", func(c rune) bool { return c == ',' || c == '}' })[0], &ms); err == nil && math.Abs(ms/1e3-edge) < nearEdge {
			return true
		}
		rest = after
	}
}
