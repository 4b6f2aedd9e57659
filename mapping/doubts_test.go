package mapping_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/runs"
)

// TestDoubts reads the doubts of small Cursor streams.
func TestDoubts(t *testing.T) {
	at := func(s int) time.Time { return now.Add(time.Duration(s) * time.Second) }
	text := func(s int, text string) string {
		return stamped(at(s), fmt.Sprintf(`{"type":"assistant","model_call_id":"m-%d","message":{"content":[{"type":"text","text":%q}]}}`, s, text))
	}
	shell := func(s int, id, result string) string {
		call := func(at time.Time, subtype, id, result string) string {
			return stamped(at, fmt.Sprintf(`{"type":"tool_call","subtype":%q,"call_id":%q,"tool_call":{"shellToolCall":{"args":{"command":"go test"}%s}}}`, subtype, id, result))
		}
		if result == "" {
			return call(at(s), "started", id, "")
		}
		return call(at(s), "started", id, "") + "\n" + call(at(s+1), "completed", id, `,"result":`+result)
	}
	const (
		good       = `{"success":{"exitCode":0}}`
		bad        = `{"failure":{"exitCode":1}}`
		timeout    = `{"timeout":{"timeoutMs":30000}}`
		aborted    = `{"failure":{"exitCode":130,"aborted":true}}`
		rejected   = `{"rejected":{"reason":"no"}}`
		hook       = `{"error":{"error":"Hook blocked with message: no"}}`
		background = `{"success":{"exitCode":0,"shellId":7},"isBackground":true}`
	)
	ask := func(s int, id string) string {
		return stamped(at(s), `{"type":"interaction_query","subtype":"request","query_type":"shellRequestQuery","query":{"id":0,"shellRequestQuery":{"args":{"toolCallId":"`+id+`"}}}}`) + "\n" +
			stamped(at(s+1), `{"type":"interaction_query","subtype":"response","query_type":"shellRequestQuery","response":{"id":0,"shellRequestResponse":{"rejected":{}}}}`)
	}
	end := func(text string) string {
		return fmt.Sprintf(`{"type":"result","subtype":"success","is_error":false,"duration_ms":5,"result":%q,"request_id":"r","duration_api_ms":5}`, text)
	}
	failed := `{"type":"result","subtype":"error","is_error":true,"duration_ms":5,"request_id":"r","duration_api_ms":5}`
	ended := stamped(at(40), `{"type":"system","subtype":"task_notification","task_id":"7","status":"success"}`)
	unknown := stamped(at(9), `{"type":"news","subtype":"flash"}`)
	for name, tc := range map[string]struct {
		lines []string
		want  string
	}{
		"none":                          {[]string{initLine, shell(1, "a", good), text(3, "done"), end("done")}, ""},
		"text before the call only":     {[]string{initLine, text(1, "I look."), shell(2, "a", good), end("I look.")}, "ends_on_tool 1"},
		"thoughts are no words":         {[]string{initLine, text(1, "I look."), shell(2, "a", good), thinking(at(4)), end("I look.")}, "ends_on_tool 1"},
		"blank text after the call":     {[]string{initLine, text(1, "I look."), shell(2, "a", good), text(4, " \n"), end("I look.")}, "ends_on_tool 1"},
		"failed, and ends on a tool":    {[]string{initLine, shell(1, "a", good), failed}, ""},
		"the last command failed":       {[]string{initLine, shell(1, "a", good), shell(3, "b", bad), text(5, "done"), end("done")}, "last_command_failed 1"},
		"mended":                        {[]string{initLine, shell(1, "a", bad), shell(3, "b", good), text(5, "done"), end("done")}, ""},
		"failed, then a timeout":        {[]string{initLine, shell(1, "a", bad), shell(3, "b", timeout), text(5, "done"), end("done")}, "last_command_failed 1"},
		"good, then aborted":            {[]string{initLine, shell(1, "a", good), shell(3, "b", aborted), text(5, "done"), end("done")}, ""},
		"good, then in the background":  {[]string{initLine, shell(1, "a", bad), shell(3, "b", background), text(5, "done"), end("done")}, "background_running 1, last_command_failed 1"},
		"background that ended":         {[]string{initLine, shell(1, "a", background), ended, text(50, "done"), end("done")}, ""},
		"refused by its user":           {[]string{initLine, ask(1, "a"), shell(3, "a", rejected), text(5, "done"), end("done")}, "denied 1"},
		"refused before it was printed": {[]string{initLine, ask(1, "a"), text(5, "done"), end("done")}, "denied 1"},
		"refused, without an id":        {[]string{initLine, ask(1, ""), shell(3, "a", rejected), text(5, "done"), end("done")}, "denied 1"},
		"refused by a hook, and again":  {[]string{initLine, shell(1, "a", hook), shell(3, "b", rejected), text(5, "done"), end("done")}, "denied 2"},
		"open calls":                    {[]string{initLine, shell(1, "a", ""), shell(2, "b", ""), text(5, "done"), end("done")}, "open_calls 2"},
		"an id used again":              {[]string{initLine, shell(1, "a", ""), shell(2, "a", good), text(5, "done"), end("done")}, "open_calls 1"},
		"nothing at all":                {[]string{initLine, end("")}, "empty_answer 1, no_work 1"},
		"only thoughts":                 {[]string{initLine, thinking(at(1)), end(" ")}, "empty_answer 1, no_work 1"},
		"an answer, but an empty text":  {[]string{initLine, shell(1, "a", good), text(3, "done"), end("")}, "empty_answer 1"},
		"a lone result":                 {[]string{end("done")}, ""},
		"an empty lone result":          {[]string{end("")}, "empty_answer 1"},
		"unknown lines":                 {[]string{initLine, text(1, "done"), unknown, unknown, end("done")}, "unknown_lines 2"},
		"cut off":                       {[]string{initLine, shell(1, "a", "")}, "open_calls 1"},
	} {
		t.Run(name, func(t *testing.T) {
			var lines []string
			for _, l := range tc.lines {
				lines = append(lines, strings.Split(l, "\n")...)
			}
			spans, _ := feed{}.spans(t, stream(lines...))
			var got []string
			var r runs.Run
			for _, s := range spans {
				wire, err := proto.Marshal(s)
				if err != nil {
					t.Fatal(err)
				}
				facts := new(runs.Span)
				if err := facts.Read(wire); err != nil {
					t.Fatal(err)
				}
				r.Add(facts)
			}
			for _, d := range r.Doubts {
				got = append(got, fmt.Sprint(d.Name, " ", d.Count))
			}
			if got := strings.Join(got, ", "); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
