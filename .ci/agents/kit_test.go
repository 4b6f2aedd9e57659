package main

import (
	"bytes"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// All scenarios can be read, have a story, and end as they say.
func TestScenarios(t *testing.T) {
	all, err := scenarios()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 30 {
		t.Errorf("only %d scenarios", len(all))
	}
	for name, sc := range all {
		if sc.Story == "" {
			t.Errorf("%s has no story", name)
		}
		for i, part := range sc.Parts {
			if len(part.Answers[mainAgent]) == 0 {
				t.Errorf("%s: part %d has no answer", name, i)
			}
		}
	}
}

func TestParseScenario(t *testing.T) {
	sc, err := parseScenario("x", `# One.
# Two.
file a.txt: one\nline
error 429 retry-after 2 code busy always: Come again.
answer optional wait 0.7s reasoning 5
  think Hm.
  run A for 1.5s exit 3 ignore
  edit a.txt: one -> two
  stop length
resume Again.
answer
  drop
signal TERM in A
ends killed
doubt denied
`)
	if err != nil {
		t.Fatal(err)
	}
	want := &answer{
		Delay: 200 * time.Millisecond, First: 700 * time.Millisecond, Optional: true, Stop: stopLength,
		Usage: usage{Input: 1000, Cached: 100, Output: 40, Reasoning: 5},
		Steps: []step{{Do: "think", Text: "Hm."}, {Do: "run", Name: "A", For: 1500 * time.Millisecond, Exit: 3, Flags: []string{"ignore"}}, {Do: "edit", Name: "a.txt", Old: "one", Text: "two"}},
	}
	main := sc.Parts[0].Answers[mainAgent]
	if len(main) != 2 || !reflect.DeepEqual(&main[1], want) {
		t.Errorf("the answers are %+v", main)
	}
	if e := main[0]; e.Status != 429 || e.RetryAfter != 2 || e.Code != "busy" || !e.Always || e.Message != "Come again." {
		t.Errorf("the error is %+v", e)
	}
	if sc.Story != "One. Two." || sc.Files["a.txt"] != "one\nline" || sc.Ends != endsKilled || *sc.Signal != (sendSignal{"TERM", "A"}) || sc.Doubts[0] != "denied" {
		t.Errorf("the scenario is %+v", sc)
	}
	if p := sc.Parts[1]; p.Resume != "resume" || p.Prompts[0] != "Again." || !p.Answers[mainAgent][0].Drop {
		t.Errorf("the second part is %+v", p)
	}
	for _, wrong := range []string{"say outside", "answer x", "answer\nrun A", "answer\nrun A for 1s exit", "error", "error x", "signal HUP in A", "ends badly", "answer\ndance", "file a"} {
		if _, err := parseScenario("x", wrong); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
}

// Each protocol streams what the script says, and the server writes down when and how much.
func TestProtocols(t *testing.T) {
	requests := map[string]struct{ body, want string }{
		"/v1/messages":                           {`{"model":"m","stream":true,"tools":[{"name":"Bash","input_schema":{"properties":{"command":{}}}}]}`, `"type":"message_stop"`},
		"/v1/responses":                          {`{"model":"m","stream":true,"tools":[{"type":"function","name":"exec_command","parameters":{"properties":{"cmd":{}}}}]}`, `"type":"response.completed"`},
		"/v1/chat/completions":                   {`{"model":"m","stream":true,"tools":[{"type":"function","function":{"name":"bash","parameters":{"properties":{"command":{}}}}}]}`, `[DONE]`},
		"/v1beta/models/m:streamGenerateContent": {`{"tools":[{"functionDeclarations":[{"name":"run_shell_command","parametersJsonSchema":{"properties":{"command":{}}}}]}]}`, `"finishReason":"STOP"`},
	}
	sc, err := parseScenario("x", "error 401: No key.\nanswer wait 0s reasoning 3\nthink Hm.\nsay Hello.\nrun A for 1s\n")
	if err != nil {
		t.Fatal(err)
	}
	for path, r := range requests {
		t.Run(path[1:], func(t *testing.T) {
			t.Parallel()
			resolver := &resolver{clock: "/bin/clock", work: "/work"}
			m := &model{answers: sc.Parts[0].Answers, resolve: resolver.resolve, turns: map[string]int{}}
			server := httptest.NewServer(m)
			defer server.Close()
			if code, body := post(t, server.URL+path, r.body); code != 401 || !strings.Contains(body, "No key.") {
				t.Errorf("the first answer is %d %s", code, body)
			}
			code, body := post(t, server.URL+path, r.body)
			if code != 200 || !strings.Contains(body, r.want) {
				t.Errorf("the second answer is %d %s", code, body)
			}
			post(t, server.URL+path, r.body)
			server.Close()
			if len(m.requests) != 3 || len(m.trouble) != 1 || len(m.unused()) != 0 {
				t.Fatalf("%d requests, trouble %v, unused %v", len(m.requests), m.trouble, m.unused())
			}
			ok := m.requests[1]
			if ok.Model != "m" || ok.Usage == nil || ok.Usage.Reasoning != 3 || ok.First == 0 || ok.Last < ok.First || ok.End < ok.Last || len(ok.Calls) != 1 || ok.Calls[0].Name != "A" {
				t.Errorf("the second request is %+v", ok)
			}
		})
	}
}

func post(t *testing.T, url, body string) (code int, text string) {
	t.Helper()
	answer, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer answer.Body.Close()
	var b strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := answer.Body.Read(buf)
		b.Write(buf[:n])
		if err != nil {
			return answer.StatusCode, b.String()
		}
	}
}

// A script that nothing asked for is found.
func TestUnusedScript(t *testing.T) {
	sc, err := parseScenario("x", "answer\nsay A.\nanswer optional\nsay B.\nsub-agent sub1\nanswer\nsay C.\n")
	if err != nil {
		t.Fatal(err)
	}
	m := &model{answers: sc.Parts[0].Answers, turns: map[string]int{mainAgent: 1}}
	if unused := m.unused(); len(unused) != 1 || !strings.Contains(unused[0], "sub1") {
		t.Errorf("unused are %v", unused)
	}
}

// The truth: asked at 10, answered until 12; a command from 12 to 15; asked at 15.5, answered
// until 17; the agent ends at 18.
func truth() (*runInfo, []*request, []timed) {
	return &runInfo{Start: 8, End: 18}, []*request{
		{Number: 1, Of: mainAgent, Received: 10, Last: 12, End: 12, Status: 200},
		{Number: 2, Of: mainAgent, Received: 15.5, Last: 17, End: 17, Status: 200},
	}, []timed{{Name: "A", Begin: 12, End: 15}}
}

func chatSpan(from, to float64) *span { return &span{Name: "chat m", Start: from, End: to} }

func callSpan(to float64) *span {
	return &span{Name: "execute_tool bash", Start: 12, End: to, Attributes: map[string]any{"process.command_line": "/x/bin/clock A 3 0"}}
}

func TestAttribution(t *testing.T) {
	info, requests, commands := truth()
	marked := callSpan(16)
	marked.Attributes["spantee.time.estimated"] = true
	for name, test := range map[string]struct {
		spans                          []*span
		wrong, unmarked, startup, edge float64
		kinds                          map[string]float64
	}{
		"right":           {[]*span{chatSpan(10, 12), callSpan(15), chatSpan(15.5, 17)}, 0, 0, 0, 0, map[string]float64{}},
		"start-up":        {[]*span{chatSpan(8.5, 12), callSpan(15), chatSpan(15.5, 17)}, 0, 0, 1.5, 0, map[string]float64{}},
		"a late end":      {[]*span{chatSpan(10, 12), callSpan(16), chatSpan(16, 17)}, 1, 1, 0, 1, map[string]float64{"own as tool": 0.5, "model as tool": 0.5}},
		"a marked end":    {[]*span{chatSpan(10, 12), marked, chatSpan(16, 17)}, 1, 0, 0, 1, map[string]float64{"own as tool": 0.5, "model as tool": 0.5}},
		"nothing":         {nil, 6.5, 6.5, 0, 0, map[string]float64{"model as own": 3.5, "tool as own": 3}},
		"a parent's call": {[]*span{chatSpan(10, 12), {Name: "execute_tool task", Start: 12, End: 15, Children: []*span{callSpan(15)}}, callSpan(15), chatSpan(15.5, 17)}, 0, 0, 0, 0, map[string]float64{}},
	} {
		a := attribute(info, requests, commands, test.spans)
		if !near(a.Wrong, test.wrong) || !near(a.Unmarked, test.unmarked) || !near(a.Startup, test.startup) || !near(a.Edge, test.edge) || a.Run != 8 {
			t.Errorf("%s: %s", name, a)
		}
		for kind, want := range test.kinds {
			if !near(a.Kinds[kind], want) {
				t.Errorf("%s: %s is %g, want %g", name, kind, a.Kinds[kind], want)
			}
		}
		if len(a.Kinds) != len(test.kinds) {
			t.Errorf("%s: %v", name, a.Kinds)
		}
	}
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

// The wait for another attempt is the call's; the time of a sub-agent's request is not.
func TestModelTimes(t *testing.T) {
	got := modelTimes([]*request{
		{Of: mainAgent, Received: 1, End: 2, Status: 500},
		{Of: "sub1", Received: 3, End: 4, Status: 200},
		{Of: auxiliary, Received: 4, End: 9, Status: 200},
		{Of: mainAgent, Received: 5, End: 6, Last: 6, Status: 200},
	})
	if want := []interval{{1, 5}, {3, 4}, {5, 6}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A killed command ends with its agent.
func TestKilledCommand(t *testing.T) {
	info, requests, _ := truth()
	a := attribute(info, requests[:1], []timed{{Name: "A", Begin: 12}}, []*span{chatSpan(10, 12), callSpan(18)})
	if !near(a.Wrong, 0) {
		t.Errorf("%s", a)
	}
}

func TestReadClock(t *testing.T) {
	path := filepath.Join(t.TempDir(), clockFile)
	if err := os.WriteFile(path, []byte("A begin 1.5\nB begin 2\nA end 3.25 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := readClock(path)
	if want := []timed{{"A", 1.5, 3.25, 7}, {"B", 2, 0, 0}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestExceptions(t *testing.T) {
	x, err := readExceptions("# x\nuntold pi * recording,log model: no line has it\nwrong pi tool pipe tokens: doubled\nwrong codex * * *: all\n")
	if err != nil {
		t.Fatal(err)
	}
	k := &keptRun{info: &runInfo{Agent: "pi", Scenario: "tool"}}
	r := &result{run: k, verdicts: []*verdict{{Way: wayLog, Findings: []finding{{Cell: cellModel}, {Cell: cellTokens}}}, {Way: wayPipe}}}
	x.excuse(r)
	if f := r.verdicts[0].Findings; f[0].Why == "" || f[1].Why != "" || r.verdicts[0].right() {
		t.Errorf("%+v", f)
	}
	if got := x.passing(); len(got) != 1 || !strings.Contains(got[0], "doubled") {
		t.Errorf("passing are %v", got)
	}
	for _, wrong := range []string{"wrong a b c d", "bad a b c d: why", "wrong a b c: why"} {
		if _, err := readExceptions(wrong); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
	if _, err := readExceptions(exceptionsText); err != nil {
		t.Errorf("exceptions.txt: %v", err)
	}
}

// A member with a telling name is unread if no span changes with it.
func TestUnread(t *testing.T) {
	k, err := readRun("testdata/kept/codex/fail")
	if err != nil {
		t.Fatal(err)
	}
	files, err := recordedBy(k)
	if err != nil {
		t.Fatal(err)
	}
	files = files[:1] // what it printed
	before, err := unread(files)
	if err != nil {
		t.Fatal(err)
	}
	const planted = "stream turn.completed usage.retry_count"
	files[0].text = bytes.Replace(files[0].text, []byte(`"usage":{`), []byte(`"usage":{"retry_count":1,`), 1)
	after, err := unread(files)
	if err != nil {
		t.Fatal(err)
	}
	if want := slices.Sorted(slices.Values(append(before, planted))); !slices.Equal(after, want) || slices.Contains(after, "stream turn.completed usage.input_tokens") {
		t.Errorf("unread are %q, want %q", after, want)
	}
	if _, err := readReasons(unreadText); err != nil {
		t.Errorf("unread.txt: %v", err)
	}
	for _, wrong := range []string{"codex stream a b", "codex stream a: why", "codex stream a b c: why"} {
		if _, err := readReasons(wrong); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
}

func TestShapes(t *testing.T) {
	was, now := shapes{}, shapes{}
	was.addLines("stream", []byte(`{"type":"a","b":{"c":1,"/x/y":2}}`+"\n"+`{"type":"gone","x":1}`+"\nno JSON\n"))
	now.addLines("stream", []byte(`{"type":"a","b":{"c":1,"/x/z":2,"new":[{"d":1}]}}`+"\n"+`{"type":"n","item":{"type":"m"}}`+"\n"))
	if got, want := now.drift(was, "new:"), []string{"new: stream a b.new", "new: stream a b.new[].d", "new: stream n/m, with 3 members"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := was.drift(now, "gone:"), []string{"gone: stream gone, with 2 members"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	path := filepath.Join(t.TempDir(), "a.txt")
	if err := os.WriteFile(path, []byte(now.text("1.2")), 0o600); err != nil {
		t.Fatal(err)
	}
	read, build, err := readShapes(path)
	if err != nil || build != "1.2" || !reflect.DeepEqual(read, now) {
		t.Errorf("%v, %q, %v", read, build, err)
	}
}

// What is kept has no long texts but the scenario's, and each piece still ends where it ended.
func TestCutter(t *testing.T) {
	long := strings.Repeat("x", maxKept+1)
	c := &cutter{own: []string{"This is the scenario's."}}
	got := c.line([]byte(`{"a":["` + long + `"],"b":"` + long + ` This is the scenario's.","n":12345678901234567890}` + "\n"))
	if want := `{"a":["(101 bytes)"],"b":"` + long + ` This is the scenario's.","n":12345678901234567890}` + "\n"; string(got) != want {
		t.Errorf("%s, want %s", got, want)
	}
	first, second := `{"a":1}`+"\n", `{"a":"`+long+`"}`+"\n"
	text, at := c.stream([]byte(first + second + "{"))
	for from, want := range map[int]int{3: 3, 8: 8, 12: 12, 8 + len(second): len(text) - 1, 9 + len(second): len(text)} {
		if got := at(from); got != want {
			t.Errorf("%d is at %d, want %d", from, got, want)
		}
	}
}
