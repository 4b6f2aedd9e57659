package main

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A request is what the model's server knows of one request: the truth about the model's time
// and tokens. Times are seconds since 1970, 0 if it did not come to that.
type request struct {
	Number   int     `json:"number"`
	Of       string  `json:"of"`   // whose turn it is: mainAgent, a sub-agent's name, or auxiliary
	Turn     int     `json:"turn"` // of whom it is, from 0
	Model    string  `json:"model"`
	Received float64 `json:"received"`
	First    float64 `json:"first,omitempty"` // content
	Last     float64 `json:"last,omitempty"`  // content
	End      float64 `json:"end,omitempty"`   // the last byte
	Status   int     `json:"status"`
	Dropped  bool    `json:"dropped,omitempty"` // by the script
	Gone     bool    `json:"gone,omitempty"`    // the client went away
	Usage    *usage  `json:"usage,omitempty"`
	Calls    []call  `json:"calls,omitempty"`

	Unscripted bool `json:"unscripted,omitempty"` // the script had no answer for it
}

// A call is a tool call that the model has made.
type call struct {
	Tool string `json:"tool"` // the agent's name of it
	Do   string `json:"do"`
	Name string `json:"name"` // of the command or of the sub-agent
	Exit int    `json:"exit,omitempty"`
}

// A model is a server on loopback that answers as the script says.
type model struct {
	answers   map[string][]answer
	auxiliary func(body, path string) bool // of this agent
	resolve   func(step, *offer) (invocation, error)
	stops     map[string]string // the agent's protocol has several words

	finish string                         // the tool that a sub-agent ends with, "" if there is none
	wait   func(body string) (step, bool) // of an agent whose calls do not wait for their sub-agents

	mu        sync.Mutex
	delegated int // sub-agents that were started
	requests  []*request
	turns     map[string]int
	others    []string // requests that are no model call
	trouble   []string // what makes the scenario fail: something that was not scripted
	server    *http.Server
}

// serve starts the server, and returns its port.
func (m *model) serve() (port int, err error) {
	var config net.ListenConfig
	listener, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	m.turns = map[string]int{}
	m.server = &http.Server{Handler: m}
	go func() { _ = m.server.Serve(listener) }()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

func seconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// A protocol writes an answer in the words of a model's API.
type protocol interface {
	// whole returns an answer that is not streamed.
	whole(*reply) any
	// begin, text, think, call and end are the pieces of a stream.
	begin(*reply)
	text(r *reply, pieces []string, gap time.Duration, cut bool)
	think(r *reply, pieces []string, gap time.Duration)
	call(*reply, invocation)
	end(r *reply)
	failure(a *answer) any
}

// A reply is the answer to one request, while it is written.
type reply struct {
	*request
	answer *answer
	stop   string // in the protocol's words, "" for the usual one
	w      http.ResponseWriter
	items  int // content blocks so far
	output []any
	calls  int
}

// send writes one event of a stream, and notes the time if it is content.
func (r *reply) send(text string, content bool) {
	if _, err := io.WriteString(r.w, text); err != nil {
		panic(errGone)
	}
	if err := http.NewResponseController(r.w).Flush(); err != nil {
		panic(errGone)
	}
	if content {
		now := seconds(time.Now())
		if r.First == 0 {
			r.First = now
		}
		r.Last = now
	}
}

var errGone = errors.New("the client went away")

// protocolOf returns the protocol that a path belongs to, nil if it is no model call.
func protocolOf(path string) protocol {
	switch {
	case strings.HasSuffix(path, "/messages"):
		return anthropic{}
	case strings.HasSuffix(path, "/responses"):
		return &responses{}
	case strings.HasSuffix(path, "/chat/completions"):
		return chat{}
	case strings.Contains(path, "enerateContent"):
		return gemini{}
	}
	return nil
}

func (m *model) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	received := time.Now()
	path := hr.URL.Path
	body, err := readBody(hr)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	switch {
	case strings.HasSuffix(path, "count_tokens"):
		writeJSON(w, http.StatusOK, object{"input_tokens": 100})
		return
	case strings.HasSuffix(path, "countTokens"):
		writeJSON(w, http.StatusOK, object{"totalTokens": 100})
		return
	}
	p := protocolOf(path)
	if p == nil || hr.Method != http.MethodPost {
		m.mu.Lock()
		m.others = append(m.others, hr.Method+" "+path)
		m.mu.Unlock()
		if strings.HasSuffix(path, "/models") {
			writeJSON(w, http.StatusOK, object{"data": []any{}, "models": []any{}})
		} else {
			writeJSON(w, http.StatusNotFound, object{"error": object{"message": "not here"}})
		}
		return
	}
	o := readOffer(path, body)
	r, a := m.next(o, string(body), path)
	r.Received = seconds(received)
	reply := &reply{request: r, answer: a, w: w, stop: m.stops[a.Stop]}
	defer func() {
		if why := recover(); why != nil {
			if err, ok := why.(error); !ok || !errors.Is(err, errGone) {
				panic(why)
			}
			r.Gone = true
		}
		m.mu.Lock()
		m.requests = append(m.requests, r)
		m.mu.Unlock()
	}()
	m.answer(hr, reply, p, o)
}

// answer writes the answer, or fails as the script says.
func (m *model) answer(hr *http.Request, r *reply, p protocol, o *offer) {
	a := r.answer
	if !sleep(hr, a.Delay) {
		panic(errGone)
	}
	if r.Status = http.StatusOK; a.Status != 0 {
		if r.Status = a.Status; a.RetryAfter > 0 {
			r.w.Header().Set("Retry-After", strconv.Itoa(a.RetryAfter))
		}
		writeJSON(r.w, a.Status, p.failure(a))
		r.End = seconds(time.Now())
		return
	}
	var todo []func()
	var plain []string
	for _, s := range m.withFinish(r, o) {
		switch s.Do {
		case "say":
			todo = append(todo, func() { p.text(r, pieces(s.Text), 100*time.Millisecond, a.Drop) })
			plain = append(plain, s.Text)
		case "think":
			todo = append(todo, func() { p.think(r, pieces(s.Text), 200*time.Millisecond) })
		default:
			inv, err := m.resolve(s, o)
			if err != nil {
				m.mu.Lock()
				m.trouble = append(m.trouble, err.Error())
				m.mu.Unlock()
				todo = append(todo, func() { p.text(r, []string{err.Error()}, 0, false) })
				continue
			}
			if s.Do == "delegate" {
				m.mu.Lock()
				m.delegated++
				m.mu.Unlock()
			}
			r.Calls = append(r.Calls, call{Tool: inv.Tool, Do: s.Do, Name: s.Name, Exit: s.Exit})
			todo = append(todo, func() { p.call(r, inv) })
		}
	}
	u := a.Usage
	r.Usage = &u
	if !o.stream {
		writeJSON(r.w, http.StatusOK, p.whole(&reply{request: r.request, answer: a, output: []any{strings.Join(plain, " ")}}))
		r.End = seconds(time.Now())
		return
	}
	r.w.Header().Set("Content-Type", "text/event-stream")
	r.w.Header().Set("Request-Id", fmt.Sprintf("req_%03d", r.Number))
	p.begin(r)
	if !sleep(hr, a.First) {
		panic(errGone)
	}
	for _, do := range todo {
		do()
	}
	if a.Drop {
		r.Dropped, r.Usage = true, nil
		r.End = seconds(time.Now())
		if conn, _, err := http.NewResponseController(r.w).Hijack(); err == nil {
			conn.Close() //nolint:errcheck // it is to break off
		}
		return
	}
	p.end(r)
	r.End = seconds(time.Now())
}

// withFinish returns the steps of an answer. Some agents want their sub-agents to call a tool
// with their last words.
func (m *model) withFinish(r *reply, o *offer) []step {
	steps := r.answer.Steps
	_, offered := o.tools[m.finish]
	if !offered || len(steps) == 0 || slices.ContainsFunc(steps, func(s step) bool { return s.Do != "say" && s.Do != "think" }) {
		return steps
	}
	return append(slices.Clone(steps), step{Do: "finish", Name: m.finish, Text: steps[len(steps)-1].Text})
}

// next returns the request's entry, and the answer that the script has for it.
func (m *model) next(o *offer, body, path string) (*request, *answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turns["all"]++
	r := &request{Number: m.turns["all"], Model: o.model}
	if r.Of = m.whose(o, body, path); r.Of == auxiliary {
		return r, &answer{Steps: []step{{Do: "say", Text: "ok"}}, Usage: usage{Input: 10, Output: 2}}
	}
	if r.Of == mainAgent && m.wait != nil && m.delegated > 0 && m.subAgentsWork() {
		if s, ok := m.wait(body); ok {
			return r, &answer{Steps: []step{s}, Usage: usage{Input: 900, Cached: 90, Output: 30}}
		}
	}
	r.Turn = m.turns[r.Of]
	m.turns[r.Of]++
	script := m.answers[r.Of]
	switch {
	case r.Turn < len(script):
		return r, &script[r.Turn]
	case len(script) > 0 && script[len(script)-1].Always:
		return r, &script[len(script)-1]
	}
	r.Unscripted = true
	asked := strings.Join(strings.Fields(o.firstPrompt), " ")
	m.trouble = append(m.trouble, fmt.Sprintf("request %d of %s was not scripted, which ends in %q", r.Turn+1, r.Of, asked[max(0, len(asked)-160):]))
	return r, &answer{Steps: []step{{Do: "say", Text: "This was not scripted."}}, Usage: usage{Input: 7, Output: 7}}
}

// subAgentsWork reports whether a sub-agent has not asked for all its answers.
func (m *model) subAgentsWork() bool {
	for whose, script := range m.answers {
		if whose != mainAgent && m.turns[whose] < len(script) {
			return true
		}
	}
	return false
}

var marker = regexp.MustCompile(`\[(sub\d+)\]`)

// whose returns whose turn a request is: a sub-agent has its name in its prompt.
func (m *model) whose(o *offer, body, path string) string {
	if m.auxiliary != nil && m.auxiliary(body, path) || len(o.tools) == 0 {
		return auxiliary
	}
	if found := marker.FindStringSubmatch(o.firstPrompt); found != nil {
		return found[1]
	}
	return mainAgent
}

// unused returns the scripts that nothing asked for.
func (m *model) unused() (names []string) {
	for whose, script := range m.answers {
		asked := m.turns[whose]
		if asked < len(script) && !script[asked].Optional {
			names = append(names, fmt.Sprintf("%d of the %d answers of %s were not asked for", len(script)-asked, len(script), whose))
		}
	}
	return names
}

func readBody(hr *http.Request) ([]byte, error) {
	var from io.Reader = hr.Body
	if hr.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(hr.Body)
		if err != nil {
			return nil, err
		}
		from = unzipped
	}
	return io.ReadAll(from)
}

// sleep waits, and returns false if the client went away.
func sleep(hr *http.Request, d time.Duration) bool {
	select {
	case <-hr.Context().Done():
		return false
	case <-time.After(d):
		return true
	}
}

// pieces cuts a text as a model does.
func pieces(text string) (list []string) {
	const n = 4
	size := max(1, (len(text)+n-1)/n)
	for ; len(text) > size; text = text[size:] {
		list = append(list, text[:size])
	}
	return append(list, text)
}

type object = map[string]any

func jsonText(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, jsonText(v))
}
