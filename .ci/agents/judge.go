package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spantee/spantee/mapping/agent"
)

// The cells of a verdict: each is one fact that a trace is right or wrong about.
const (
	cellScript  = "script"  // every request was scripted, and every script used
	cellBytes   = "bytes"   // what came in went out
	cellExit    = "exit"    // spantee's exit status
	cellAgent   = "agent"   // it was recognized
	cellRuns    = "runs"    // one root for each prompt
	cellStatus  = "status"  // of the root
	cellWords   = "words"   // of a failed root: the model's words or HTTP status
	cellModel   = "model"   //
	cellTokens  = "tokens"  // of the run
	cellCalls   = "calls"   // tokens of each model call
	cellCost    = "cost"    // where the agent states it
	cellChats   = "chats"   // answers, and a last call that failed
	cellRetries = "retries" // calls that failed and were made again
	cellTools   = "tools"   // names and order
	cellCodes   = "codes"   // exit codes of commands
	cellFailed  = "failed"  // which tools failed
	cellNested  = "nested"  // sub-agents under their call
	cellDoubts  = "doubts"  //
	cellUnknown = "unknown" // lines that spantee does not know, or cannot read
	cellOrder   = "order"   // of calls, and children within parents
)

// A finding is a cell that is wrong.
type finding struct {
	Cell, Text string
	Why        string // it is excepted, "" if it is not
	Wrong      bool   // it is excepted, and spantee's fault
}

// A verdict is what is wrong with the trace of one way of reading.
type verdict struct {
	Way      string
	Findings []finding
	Times    *attribution
	spans    []*span
}

func (v *verdict) wrong(cell, format string, args ...any) {
	v.Findings = append(v.Findings, finding{Cell: cell, Text: fmt.Sprintf(format, args...)})
}

// A keptRun is a run with its truth.
type keptRun struct {
	folder   string
	info     *runInfo
	sc       *scenario
	entry    *agentEntry
	requests []*request
	commands []timed
}

func readRun(folder string) (*keptRun, error) {
	k := &keptRun{folder: folder, info: &runInfo{}}
	text, err := os.ReadFile(filepath.Join(folder, "run.json"))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, k.info); err != nil {
		return nil, err
	}
	if k.entry = findEntry(k.info.Agent); k.entry == nil {
		return nil, fmt.Errorf("%s: unknown agent %q", folder, k.info.Agent)
	}
	if text, err = os.ReadFile(filepath.Join(folder, "scenario.txt")); err != nil {
		return nil, err
	}
	if k.sc, err = parseScenario(k.info.Scenario, string(text)); err != nil {
		return nil, err
	}
	all, err := scenarios()
	if err != nil {
		return nil, err
	}
	if now := all[k.info.Scenario]; now != nil { // what is expected may be known better by now
		k.sc.Ends, k.sc.Doubts = now.Ends, now.Doubts
	}
	if text, err = os.ReadFile(filepath.Join(folder, "requests.jsonl")); err != nil {
		return nil, err
	}
	for line := range bytes.Lines(text) {
		r := &request{}
		if err := json.Unmarshal(line, r); err != nil {
			return nil, err
		}
		k.requests = append(k.requests, r)
	}
	k.commands, err = readClock(filepath.Join(folder, clockFile))
	return k, err
}

// name is how a run is called in reports.
func (k *keptRun) name() string {
	name := k.info.Agent + " " + k.info.Scenario
	if k.info.Part > 0 {
		name += fmt.Sprint(".", k.info.Part+1)
	}
	return name
}

// own returns the requests that are a turn of the agent or of its sub-agents.
func (k *keptRun) own() []*request {
	return ownOf(k.requests)
}

// answered returns the requests that have an answer whose tokens were stated.
func (k *keptRun) answered() []*request {
	return slices.DeleteFunc(k.own(), func(r *request) bool { return r.failed() || r.Gone || r.Usage == nil })
}

// roots returns the roots of the run, without those of what its session did earlier.
func (k *keptRun) roots(all map[string]*span) []*span {
	return rootsIn(all, k.info.Start, k.info.End+5)
}

// judge compares the spans of one way of reading with the truth. said is what spantee printed.
func (k *keptRun) judge(way string, all map[string]*span, said string) *verdict {
	v := &verdict{Way: way}
	if len(k.info.Trouble) > 0 {
		v.wrong(cellScript, "%s", strings.Join(k.info.Trouble, "; "))
	}
	if k.info.TimedOut {
		v.wrong(cellScript, "the agent did not end within %s", maxRun)
	}
	if way == wayPipe || way == wayExec {
		k.judgeProcess(v)
	}
	for _, found := range driftLine.FindAllStringSubmatch(said, -1) {
		v.wrong(cellUnknown, "%s", found[1])
	}
	roots := k.roots(all)
	if want := len(k.sc.Parts[k.info.Part].Prompts); len(roots) != want {
		v.wrong(cellRuns, "%d runs, want %d", len(roots), want)
	}
	if len(roots) == 0 {
		return v
	}
	var spans []*span
	for _, root := range roots {
		spans = append(spans, root.below()...)
	}
	v.spans = spans
	k.judgeRoot(v, roots[len(roots)-1])
	k.judgeModel(v, spans)
	k.judgeTokens(v, roots, spans)
	k.judgeChats(v, spans)
	k.judgeTools(v, spans)
	k.judgeNesting(v, spans)
	k.judgeOrder(v, spans)
	if k.hasUntimedTool() {
		v.Times = &attribution{Skipped: "a tool of the agent's own has no clock"}
		return v
	}
	v.Times = attribute(k.info, k.requests, k.commands, spans)
	if way == wayRecording || len(v.Times.Pieces) == 0 {
		return v
	}
	lines, err := k.told(way)
	if err != nil {
		v.wrong(cellScript, "%v", err)
	}
	for i := range v.Times.Pieces {
		v.Times.Pieces[i].Cause = k.cause(way, v.Times.Pieces[i], lines)
	}
	return v
}

var driftLine = regexp.MustCompile(`does not know \(([^)]*)\)`)

func (k *keptRun) judgeProcess(v *verdict) {
	if !k.info.SameData {
		v.wrong(cellBytes, "what came out is not what went in")
	}
	if k.info.Way == wayPipe && k.info.Spantee != "0" {
		v.wrong(cellExit, "spantee ended with %s", k.info.Spantee)
	}
}

func (k *keptRun) judgeRoot(v *verdict, root *span) {
	if want := agent.Find(k.entry.Flag).Name; root.text("gen_ai.agent.name") != want {
		v.wrong(cellAgent, "%q, want %q", root.text("gen_ai.agent.name"), want)
	}
	switch k.sc.Ends {
	case endsWell:
		if root.Failed {
			v.wrong(cellStatus, "an error: %s", root.Message)
		}
	case endsFailed, endsKilled:
		if !root.Failed {
			v.wrong(cellStatus, "success, want an error")
		}
	}
	if last := k.own(); k.sc.Ends == endsFailed && root.Failed && len(last) > 0 && last[len(last)-1].Status != 200 {
		k.judgeWords(v, root)
	}
	if n, _ := root.number("spantee.bad_lines"); n > 0 {
		v.wrong(cellUnknown, "%d bad lines", n)
	}
	var doubts []string
	list, _ := root.Attributes["spantee.doubts"].([]any)
	for _, d := range list {
		doubts = append(doubts, fmt.Sprint(d))
	}
	for _, d := range doubts {
		if !slices.Contains(k.sc.Doubts, d) && d != "unknown_lines" && k.sc.Ends == endsWell {
			v.wrong(cellDoubts, "%s", d)
		}
	}
	for _, d := range k.sc.Doubts {
		if !slices.Contains(doubts, d) {
			v.wrong(cellDoubts, "no %s", d)
		}
	}
}

// judgeWords wants the agent's words for a model that failed, where people look.
func (k *keptRun) judgeWords(v *verdict, root *span) {
	const enough = 24 // of the words to know them again
	said, err := k.said()
	words := root.Message[:min(enough, len(root.Message))]
	cut := fmt.Sprintf("(%d bytes)", len(root.Message))
	if err != nil || words == "" || !strings.Contains(said, words) && !strings.Contains(said, cut) {
		v.wrong(cellWords, "%q is nothing that the agent has said", root.Message)
	}
}

// said returns all that the agent printed and logged, without the escapes of JSON.
func (k *keptRun) said() (string, error) {
	var said strings.Builder
	err := filepath.WalkDir(k.folder, func(path string, d fs.DirEntry, err error) error {
		inLogs := strings.HasPrefix(path, filepath.Join(k.folder, "logs"))
		if err != nil || !d.Type().IsRegular() || !inLogs && d.Name() != "stream.jsonl" && d.Name() != "stderr.txt" {
			return err
		}
		text, err := os.ReadFile(path)
		said.Write(text)
		return err
	})
	return strings.NewReplacer(`\\\"`, `"`, `\"`, `"`, `\n`, "\n").Replace(said.String()), err
}

// judgeModel wants the model of the run, and no other.
func (k *keptRun) judgeModel(v *verdict, spans []*span) {
	stated := ""
	for _, s := range spans {
		model := s.text("gen_ai.request.model")
		if model != "" && (stated == "" || model != k.info.Model) {
			stated = model
		}
	}
	if stated != k.info.Model {
		v.wrong(cellModel, "%q, want %q", stated, k.info.Model)
	}
}

var (
	inputKeys  = []string{"spantee.usage.input_tokens", "gen_ai.usage.input_tokens"}
	outputKeys = []string{"spantee.usage.output_tokens", "gen_ai.usage.output_tokens"}
	cachedKeys = []string{"spantee.usage.cache_read_tokens", "gen_ai.usage.cache_read.input_tokens"}
)

func (k *keptRun) judgeTokens(v *verdict, roots, spans []*span) {
	var want, got usage
	var calls, wantCalls []string
	for _, r := range k.answered() {
		want.Input, want.Cached, want.Output = want.Input+r.Usage.Input, want.Cached+r.Usage.Cached, want.Output+r.Usage.Output
		wantCalls = append(wantCalls, fmt.Sprint(r.Usage.Input, "/", r.Usage.Cached, "/", r.Usage.Output))
	}
	for _, root := range roots {
		in := root.firstNumber(inputKeys...)
		out := root.firstNumber(outputKeys...)
		cached := root.firstNumber(cachedKeys...)
		got.Input, got.Cached, got.Output = got.Input+in, got.Cached+cached, got.Output+out
	}
	if slices.ContainsFunc(k.requests, func(r *request) bool { return r.Dropped }) {
		return // an answer that broke off may have stated a part of its tokens
	}
	whole := want // with requests that are no turn, if the agent counts them
	for _, r := range k.requests {
		if r.Of == auxiliary && r.Usage != nil {
			whole.Input, whole.Cached, whole.Output = whole.Input+r.Usage.Input, whole.Cached+r.Usage.Cached, whole.Output+r.Usage.Output
		}
	}
	if got != want && got != whole {
		v.wrong(cellTokens, "%d in, %d cached, %d out, want %d, %d, %d", got.Input, got.Cached, got.Output, want.Input, want.Cached, want.Output)
	}
	for _, s := range spans {
		if s.is("chat") {
			in, _ := s.number("gen_ai.usage.input_tokens")
			cached, _ := s.number("gen_ai.usage.cache_read.input_tokens")
			if out, _ := s.number("gen_ai.usage.output_tokens"); in > 0 || out > 0 {
				calls = append(calls, fmt.Sprint(in, "/", cached, "/", out))
			}
		}
	}
	slices.Sort(calls)
	slices.Sort(wantCalls)
	if !slices.Equal(calls, wantCalls) {
		v.wrong(cellCalls, "input/cached/output %v, want %v", calls, wantCalls)
	}
	if price := k.entry.Price; price != nil {
		cost, wantCost := 0.0, 0.0
		for _, root := range roots {
			for _, key := range []string{"spantee.usage.cost", "gen_ai.usage.cost"} {
				if c, ok := root.Attributes[key].(float64); ok {
					cost += c
					break
				}
			}
		}
		for _, r := range k.answered() {
			wantCost += price.of(r.Usage)
		}
		if math.Abs(cost-wantCost) > 1e-6 {
			v.wrong(cellCost, "%.6f, want %.6f", cost, wantCost)
		}
	}
}

// A price is of a million tokens, in dollars.
type price struct{ Input, Cached, Output float64 }

func (p *price) of(u *usage) float64 {
	return (float64(u.Input-u.Cached)*p.Input + float64(u.Cached)*p.Cached + float64(u.Output)*p.Output) / 1e6
}

// judgeChats wants a chat for each answer, and for a last call that failed. What was asked
// again is an event of its chat, or that of the next one if what failed is a chat, too.
func (k *keptRun) judgeChats(v *verdict, spans []*span) {
	last := map[string]*request{}
	want, broken, again := 0, 0, 0
	for _, r := range k.own() {
		if before := last[r.Of]; before != nil && before.failed() {
			again++
		}
		if !r.failed() {
			want++
		}
		last[r.Of] = r
	}
	for _, r := range last {
		if r.failed() {
			want++
			broken++
		}
	}
	chats, failed, retries := 0, 0, 0
	for _, s := range spans {
		if s.is("chat") {
			chats++
			if s.Failed {
				failed++
			}
			for _, e := range s.Events {
				if strings.HasPrefix(e, "retry") || e == "connection.lost" {
					retries++
				}
			}
		}
	}
	if repeated := failed - broken; repeated > 0 && repeated <= again {
		chats -= repeated
	}
	if chats != want {
		v.wrong(cellChats, "%d, want %d", chats, want)
	}
	if retries != again {
		v.wrong(cellRetries, "%d, want %d", retries, again)
	}
}

// judgeTools wants a span for each call that the model made, in their order.
func (k *keptRun) judgeTools(v *verdict, spans []*span) {
	var want, got []string
	var commands []call
	for _, r := range k.own() {
		if r.Dropped {
			continue
		}
		for _, c := range r.Calls {
			if c.Do == "finish" { // an answer in the form of a call
				continue
			}
			want = append(want, k.toolName(v.Way, c))
			if c.Do == "run" || c.Do == "mcp" {
				commands = append(commands, c)
			}
		}
	}
	var tools []*span
	for _, s := range spans {
		if s.is("execute_tool") {
			tools = append(tools, s)
			got = append(got, s.text("gen_ai.tool.name"))
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		v.wrong(cellTools, "%v, want %v", got, want)
	}
	denied := k.sc.Needs == "deny" || k.sc.Needs == "hook-denies"
	for _, c := range commands {
		i := slices.IndexFunc(tools, func(s *span) bool { return s.command() == c.Name })
		if i < 0 {
			v.wrong(cellTools, "no call has the command %s", c.Name)
			continue
		}
		s := tools[i]
		began, ended := k.commandTime(c.Name)
		code, _ := s.number("process.exit.code")
		if c.Do == "run" && ended && code != c.Exit {
			v.wrong(cellCodes, "%s: %d, want %d", c.Name, code, c.Exit)
		}
		wantFailed := c.Exit != 0 || denied || began && !ended && !k.background(c.Name)
		if s.Failed != wantFailed {
			v.wrong(cellFailed, "%s: failed is %t, want %t", c.Name, s.Failed, wantFailed)
		}
	}
	for _, r := range k.own() {
		for _, c := range r.Calls {
			if c.Do != "call" {
				continue
			}
			if i := slices.IndexFunc(tools, func(s *span) bool { return s.text("gen_ai.tool.name") == c.Tool }); i >= 0 && !tools[i].Failed {
				v.wrong(cellFailed, "%s does not exist, and did not fail", c.Tool)
			}
		}
	}
}

func (k *keptRun) background(name string) bool {
	for _, list := range k.sc.Parts[k.info.Part].Answers {
		for _, a := range list {
			for _, s := range a.Steps {
				if s.Name == name && s.Background {
					return true
				}
			}
		}
	}
	return false
}

// commandTime reports whether a command began and ended while its agent ran.
func (k *keptRun) commandTime(name string) (began, ended bool) {
	for _, c := range k.commands {
		if c.Name == name {
			return true, c.End != 0 && c.End < k.info.End && (k.info.Signaled == 0 || c.End < k.info.Signaled)
		}
	}
	return false, false
}

// toolName is what a call's tool is called in the trace: the agent's name, unless its output
// has another one.
func (k *keptRun) toolName(way string, c call) string {
	if c.Do == "mcp" { // the server's name is an attribute
		return c.Name
	}
	if name := k.entry.StreamTools[c.Tool+" "+c.Do]; name != "" && way != wayLog && way != wayFollow {
		return name
	}
	return c.Tool
}

// judgeNesting wants each sub-agent's steps under the call that started it, or under what that left
// running.
func (k *keptRun) judgeNesting(v *verdict, spans []*span) {
	asked := map[string]bool{}
	for _, r := range k.own() {
		if r.Of != mainAgent {
			asked[r.Of] = true
		}
	}
	if len(asked) == 0 {
		return
	}
	nested := 0
	for _, s := range spans {
		if !s.is("execute_tool") && !s.is("background ") {
			continue
		}
		for _, c := range s.Children {
			if c.is("invoke_agent") {
				nested++
			}
		}
	}
	if nested != len(asked) {
		v.wrong(cellNested, "%d sub-agents under their calls, want %d", nested, len(asked))
	}
}

// judgeOrder wants children within their parents, and the main agent's steps in the order in
// which they happened.
func (k *keptRun) judgeOrder(v *verdict, spans []*span) {
	for _, s := range spans {
		for _, c := range s.Children {
			if !c.is("background") && (c.Start < s.Start || c.End > s.End) {
				v.wrong(cellOrder, "%s is not within %s", c.Name, s.Name)
				return
			}
		}
		if s.End < s.Start {
			v.wrong(cellOrder, "%s ends before it starts", s.Name)
			return
		}
	}
	k.judgeCallTimes(v, spans)
	var last float64
	for _, c := range k.commands {
		for _, s := range spans {
			if s.is("execute_tool") && s.command() == c.Name {
				if s.Start < last {
					v.wrong(cellOrder, "%s starts before the call ahead of it", s.Name)
					return
				}
				if len(k.sc.Parts[k.info.Part].Answers) == 1 && !k.parallel() {
					last = s.Start
				}
			}
		}
	}
}

// judgeCallTimes wants each call between the request whose answer made it and the end of the
// next answer. What was read without times is left out.
func (k *keptRun) judgeCallTimes(v *verdict, spans []*span) {
	if v.Way == wayRecording {
		return
	}
	own := k.own()
	for i, r := range own {
		after := slices.IndexFunc(own[i+1:], func(next *request) bool { return next.Of == r.Of && !next.failed() && next.Last > 0 })
		for _, c := range r.Calls {
			j := slices.IndexFunc(spans, func(s *span) bool { return s.is("execute_tool") && s.command() == c.Name })
			if c.Do != "run" || j < 0 || spans[j].estimated() {
				continue
			}
			if s := spans[j]; s.Start < r.Received {
				v.wrong(cellOrder, "%s starts before the model was asked for it", s.Name)
			} else if after >= 0 && !k.background(c.Name) && s.End > own[i+1+after].Last {
				v.wrong(cellOrder, "%s ends after the next answer", s.Name)
			}
		}
	}
}

// hasUntimedTool reports whether a call ran that no clock has timed, such as an edit.
func (k *keptRun) hasUntimedTool() bool {
	return slices.ContainsFunc(k.requests, func(r *request) bool {
		return slices.ContainsFunc(r.Calls, func(c call) bool { return slices.Contains([]string{"read", "edit", "write", "call"}, c.Do) })
	})
}

// parallel reports whether calls run side by side.
func (k *keptRun) parallel() bool {
	return slices.ContainsFunc(k.requests, func(r *request) bool { return len(r.Calls) > 1 })
}
