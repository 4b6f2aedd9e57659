package mapping_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

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
			if got := doubtsOf(t, stream(lines...)); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// doubtsOf returns the doubts of the last run of a stream.
func doubtsOf(t *testing.T, in []byte) string {
	t.Helper()
	spans, _ := feed{}.spans(t, in)
	var doubts []runs.Doubt
	for _, s := range spans {
		if facts := runs.Of(s); facts.StatesTotals() && facts.MayBeRoot() {
			doubts = facts.Doubts()
		}
	}
	var got []string
	for _, d := range doubts {
		got = append(got, fmt.Sprint(d.Name, " ", d.Count))
	}
	return strings.Join(got, ", ")
}

// TestDoubtsOfAgents reads the doubts of small streams of other agents.
func TestDoubtsOfAgents(t *testing.T) {
	const claude = `{"type":"system","subtype":"init","cwd":"/x","session_id":"s","tools":["Bash"],"model":"claude-opus-5","permissionMode":"default","claude_code_version":"2.1.281"}`
	claudeSays := func(id, part string) string {
		return `{"type":"assistant","message":{"model":"claude-opus-5","id":"` + id + `","type":"message","role":"assistant","content":[` + part + `]},"parent_tool_use_id":null,"session_id":"s"}`
	}
	claudeText := func(id, text string) string { return claudeSays(id, fmt.Sprintf(`{"type":"text","text":%q}`, text)) }
	claudeShell := func(id string) string {
		return claudeSays("m"+id, `{"type":"tool_use","id":"`+id+`","name":"Bash","input":{"command":"go test"}}`)
	}
	claudeResult := func(id, content string, failed bool) string {
		return fmt.Sprintf(`{"type":"user","message":{"role":"user","content":[{"tool_use_id":%q,"type":"tool_result","content":%q,"is_error":%v}]},"parent_tool_use_id":null,"session_id":"s"}`, id, content, failed)
	}
	claudeEnd := func(text string) string {
		return fmt.Sprintf(`{"type":"result","subtype":"success","is_error":false,"duration_ms":9,"num_turns":2,"result":%q,"session_id":"s","total_cost_usd":0.1}`, text)
	}

	const codex, codexEnd = `{"type":"thread.started","thread_id":"01a1f0c2-91d4-7f31-8a55-3c7e5d0b9a11"}` + "\n" + `{"type":"turn.started"}`, `{"type":"turn.completed","usage":{"input_tokens":5,"output_tokens":4}}`
	codexItem := func(event, id, rest string) string {
		return `{"type":"item.` + event + `","item":{"id":"` + id + `",` + rest + `}}`
	}
	codexShell := func(id, status, code string) string {
		command := `"type":"command_execution","command":"/bin/bash -lc 'go test'","aggregated_output":"",`
		started := codexItem("started", id, command+`"exit_code":null,"status":"in_progress"`)
		if status == "" {
			return started
		}
		return started + "\n" + codexItem("completed", id, command+`"exit_code":`+code+`,"status":"`+status+`"`)
	}
	codexText := codexItem("completed", "item_9", `"type":"agent_message","text":"Done."`)

	const gemini, geminiEnd = `{"type":"init","timestamp":"2026-10-02T09:00:00.000Z","session_id":"s","model":"gemini-3-pro"}`, `{"type":"result","timestamp":"2026-10-02T09:00:09.000Z","status":"success","stats":{"total_tokens":9,"input_tokens":5,"output_tokens":4}}`
	const geminiText = `{"type":"message","timestamp":"2026-10-02T09:00:08.000Z","role":"assistant","content":"Done.","delta":true}`
	geminiShell := func(id, status string) string {
		return `{"type":"tool_use","timestamp":"2026-10-02T09:00:02.000Z","tool_name":"run_shell_command","tool_id":"` + id + `","parameters":{"command":"go test"}}` + "\n" +
			`{"type":"tool_result","timestamp":"2026-10-02T09:00:07.000Z","tool_id":"` + id + `","status":"` + status + `","output":""}`
	}

	for name, tc := range map[string]struct {
		lines []string
		want  string
	}{
		"claude, none":                  {[]string{claude, claudeShell("a"), claudeResult("a", "ok", false), claudeText("z", "Done."), claudeEnd("Done.")}, ""},
		"claude, ends on a tool":        {[]string{claude, claudeText("y", "I test."), claudeShell("a"), claudeResult("a", "ok", false), claudeEnd("")}, "empty_answer 1, ends_on_tool 1"},
		"claude, failed test":           {[]string{claude, claudeShell("a"), claudeResult("a", "Exit code 1\nFAIL", true), claudeText("z", "Done."), claudeEnd("Done.")}, "last_command_failed 1"},
		"claude, mended":                {[]string{claude, claudeShell("a"), claudeResult("a", "Exit code 1", true), claudeShell("b"), claudeResult("b", "ok", false), claudeText("z", "Done."), claudeEnd("Done.")}, ""},
		"claude, without a permission":  {[]string{claude, claudeShell("a"), `{"type":"system","subtype":"permission_denied","tool_name":"Bash","tool_use_id":"a","message":"not on the list","session_id":"s"}`, claudeResult("a", "not on the list", true), claudeText("z", "I may not."), claudeEnd("I may not.")}, "denied 1"},
		"claude, no result of the call": {[]string{claude, claudeShell("a"), claudeText("z", "Done."), claudeEnd("Done.")}, "open_calls 1"},
		"claude, nothing":               {[]string{claude, claudeEnd("")}, "empty_answer 1, no_work 1"},
		"codex, none":                   {[]string{codex, codexShell("item_1", "completed", "0"), codexText, codexEnd}, ""},
		"codex, ends on a tool":         {[]string{codex, codexText, codexShell("item_1", "completed", "0"), codexEnd}, "ends_on_tool 1"},
		"codex, failed and declined":    {[]string{codex, codexShell("item_1", "failed", "1"), codexShell("item_2", "declined", "null"), codexText, codexEnd}, "denied 1, last_command_failed 1"},
		"codex, nothing":                {[]string{codex, codexEnd}, "empty_answer 1, no_work 1"},
		"gemini, none":                  {[]string{gemini, geminiShell("a", "success"), geminiText, geminiEnd}, ""},
		"gemini, ends on a tool":        {[]string{gemini, geminiText, geminiShell("a", "success"), geminiEnd}, "ends_on_tool 1"},
		"gemini, failed test, silent":   {[]string{gemini, geminiShell("a", "error"), geminiEnd}, "empty_answer 1, ends_on_tool 1, last_command_failed 1"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := doubtsOf(t, []byte(strings.Join(tc.lines, "\n")+"\n")); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
