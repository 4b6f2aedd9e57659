package main

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A scenario is a story that any agent can play: what the model answers, and what happens
// meanwhile. Its file is read by parseScenario.
type scenario struct {
	Name, Story string
	Text        string // the file
	Parts       []part
	Files       map[string]string // in the agent's working directory
	Needs       string            // of the agent: a setting that not every agent has
	Signal      *sendSignal
	Ends        string   // endsWell, endsFailed, endsKilled or endsAny
	Doubts      []string // that the run must have
}

// How a run ends.
const (
	endsWell   = "well"   // the trace must say success
	endsFailed = "failed" // the agent gave up: an error, with the agent's words
	endsKilled = "killed" // by the scenario's signal: an error
	endsAny    = "any"    // agents differ, and each may be right
)

// A part is one process of the agent.
type part struct {
	Prompts []string
	Resume  string              // "", "resume" or "fork": the session of the part before
	Answers map[string][]answer // of the model, by whom it answers: mainAgent, or a sub-agent's name
}

const (
	mainAgent = "main"
	auxiliary = "auxiliary" // a request that is no turn of the agent: a title, a token count
)

// An answer is what the model answers to one request.
type answer struct {
	Delay, First time.Duration // until the headers, and from there to the first content
	Steps        []step
	Usage        usage
	Stop         string // "", stopLength or stopRefusal
	Drop         bool   // the connection breaks off after the steps

	Status     int // of a request that fails
	RetryAfter int // seconds
	Code       string
	Message    string
	Always     bool // for every further request, too
	Optional   bool // not every agent asks for it
}

const (
	stopLength  = "length"
	stopRefusal = "refusal"
)

// A usage is what the model states of its tokens. Input includes the cached ones, output
// the reasoning.
type usage struct {
	Input     int `json:"input"`
	Cached    int `json:"cached"`
	Output    int `json:"output"`
	Reasoning int `json:"reasoning"`
}

// A step is a piece of an answer.
type step struct {
	Do         string // say, think, run, read, edit, write, delegate, mcp or call
	Text       string // said, thought, written, or the prompt of a sub-agent
	Name       string // of a command, a tool or a sub-agent; the path of a file
	Old        string // what an edit replaces
	For        time.Duration
	Exit       int
	Flags      []string // ignore, children: of a command
	Background bool
}

// A sendSignal says when the agent gets a signal.
type sendSignal struct {
	Name  string // INT, TERM or KILL
	After string // a command: the signal comes a second after the command began
}

//go:embed scenarios
var scenarioFiles embed.FS

// scenarios returns all, by name.
func scenarios() (map[string]*scenario, error) {
	all := map[string]*scenario{}
	files, err := fs.Glob(scenarioFiles, "scenarios/*.txt")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := scenarioFiles.ReadFile(file)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(strings.TrimPrefix(file, "scenarios/"), ".txt")
		if all[name], err = parseScenario(name, string(text)); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return all, nil
}

// scenarioNames returns the names, sorted.
func scenarioNames(all map[string]*scenario) []string { return slices.Sorted(maps.Keys(all)) }

// A parser reads the lines of a scenario.
type parser struct {
	sc      *scenario
	part    *part
	whose   string  // whose answers follow
	answer  *answer // the open one
	answers int     // so far, so that each states other tokens
}

func parseScenario(name, text string) (*scenario, error) {
	p := &parser{sc: &scenario{Name: name, Text: text, Files: map[string]string{}, Ends: endsWell}}
	p.begin("")
	for i, line := range strings.Split(text, "\n") {
		if err := p.line(strings.TrimSpace(line)); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	p.close()
	for i := range p.sc.Parts {
		if part := &p.sc.Parts[i]; len(part.Prompts) == 0 {
			part.Prompts = []string{"Please do the thing."}
		}
	}
	return p.sc, nil
}

func (p *parser) begin(resume string) {
	p.close()
	p.sc.Parts = append(p.sc.Parts, part{Resume: resume, Answers: map[string][]answer{}})
	p.part, p.whose = &p.sc.Parts[len(p.sc.Parts)-1], mainAgent
}

// close adds the open answer to its part.
func (p *parser) close() {
	if p.answer != nil {
		p.part.Answers[p.whose] = append(p.part.Answers[p.whose], *p.answer)
		p.answer = nil
	}
}

func (p *parser) line(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	switch word {
	case "":
	case "#":
		p.sc.Story = strings.TrimSpace(p.sc.Story + " " + rest)
	case "prompt":
		p.part.Prompts = append(p.part.Prompts, rest)
	case "resume", "fork":
		p.begin(word)
		if rest != "" {
			p.part.Prompts = []string{rest}
		}
	case "sub-agent":
		p.close()
		p.whose = rest
	case "main":
		p.close()
		p.whose = mainAgent
	case "file":
		path, content, ok := strings.Cut(rest, ": ")
		if !ok {
			return fmt.Errorf("invalid file %q (want PATH: CONTENT)", rest)
		}
		p.sc.Files[path] = strings.ReplaceAll(content, `\n`, "\n")
	case "needs":
		p.sc.Needs = rest
	case "ends":
		if !slices.Contains([]string{endsWell, endsFailed, endsKilled, endsAny}, rest) {
			return fmt.Errorf("invalid end %q (want well, failed, killed or any)", rest)
		}
		p.sc.Ends = rest
	case "doubt":
		p.sc.Doubts = append(p.sc.Doubts, rest)
	case "signal":
		name, command, ok := strings.Cut(rest, " in ")
		if !ok || !slices.Contains([]string{"INT", "TERM", "KILL"}, name) {
			return fmt.Errorf("invalid signal %q (want INT, TERM or KILL in COMMAND)", rest)
		}
		p.sc.Signal = &sendSignal{Name: name, After: command}
	case "answer":
		return p.beginAnswer(rest)
	case "error":
		return p.fail(rest)
	default:
		return p.step(word, rest)
	}
	return nil
}

// beginAnswer reads "answer [optional] [wait TIME] [cached N] [reasoning N]".
func (p *parser) beginAnswer(rest string) error {
	p.close()
	k := p.answers
	p.answers++
	a := &answer{
		Delay: 200 * time.Millisecond, First: 400 * time.Millisecond,
		Usage: usage{Input: 1000 + 111*k, Cached: 100 + k, Output: 40 + 7*k},
	}
	p.answer = a
	words := strings.Fields(rest)
	if len(words) > 0 && words[0] == "optional" {
		a.Optional, words = true, words[1:]
	}
	for len(words) > 1 {
		var err error
		switch words[0] {
		case "wait":
			a.First, err = time.ParseDuration(words[1])
		case "cached":
			a.Usage.Cached, err = strconv.Atoi(words[1])
		case "reasoning":
			a.Usage.Reasoning, err = strconv.Atoi(words[1])
		default:
			err = fmt.Errorf("unknown %q (want wait, cached or reasoning)", words[0])
		}
		if err != nil {
			return err
		}
		words = words[2:]
	}
	if len(words) > 0 {
		return fmt.Errorf("unknown %q", words[0])
	}
	return nil
}

// fail reads "error STATUS [retry-after N] [code CODE] [always] [: MESSAGE]".
func (p *parser) fail(rest string) error {
	p.close()
	rest, message, _ := strings.Cut(rest, ": ")
	words := strings.Fields(rest)
	if len(words) == 0 {
		return fmt.Errorf("an error needs a status")
	}
	a := &answer{Delay: 200 * time.Millisecond, Message: message}
	var err error
	if a.Status, err = strconv.Atoi(words[0]); err != nil {
		return err
	}
	for words = words[1:]; len(words) > 0; words = words[1:] {
		switch {
		case words[0] == "always":
			a.Always = true
			continue
		case len(words) < 2:
			return fmt.Errorf("unknown %q", words[0])
		case words[0] == "retry-after":
			if a.RetryAfter, err = strconv.Atoi(words[1]); err != nil {
				return err
			}
		case words[0] == "code":
			a.Code = words[1]
		default:
			return fmt.Errorf("unknown %q (want retry-after, code or always)", words[0])
		}
		words = words[1:]
	}
	if a.Message == "" {
		a.Message = fmt.Sprintf("scripted %d", a.Status)
	}
	p.answer = a
	p.close()
	return nil
}

func (p *parser) step(word, rest string) error {
	if p.answer == nil {
		return fmt.Errorf("%q is outside an answer", word)
	}
	s := step{Do: word}
	switch word {
	case "say", "think":
		s.Text = rest
	case "run", "mcp":
		if err := s.command(rest); err != nil {
			return err
		}
	case "read", "call":
		s.Name = rest
	case "write":
		s.Name, s.Text, _ = strings.Cut(rest, ": ")
	case "edit":
		path, change, ok := strings.Cut(rest, ": ")
		if s.Old, s.Text, _ = strings.Cut(change, " -> "); !ok || s.Text == "" {
			return fmt.Errorf("invalid edit %q (want PATH: OLD -> NEW)", rest)
		}
		s.Name = path
	case "delegate":
		s.Name, s.Text = rest, "["+rest+"] Please do your part."
	case "stop":
		p.answer.Stop = rest
		return nil
	case "drop":
		p.answer.Drop = true
		return nil
	default:
		return fmt.Errorf("unknown %q", word)
	}
	p.answer.Steps = append(p.answer.Steps, s)
	return nil
}

// command reads "NAME for TIME [exit N] [ignore] [children] [background]".
func (s *step) command(text string) error {
	words := strings.Fields(text)
	if len(words) < 3 || words[1] != "for" {
		return fmt.Errorf("invalid command %q (want NAME for TIME)", text)
	}
	var err error
	s.Name = words[0]
	if s.For, err = time.ParseDuration(words[2]); err != nil {
		return err
	}
	for words = words[3:]; len(words) > 0; words = words[1:] {
		switch words[0] {
		case "exit":
			if len(words) < 2 {
				return fmt.Errorf("exit needs a status")
			}
			if s.Exit, err = strconv.Atoi(words[1]); err != nil {
				return err
			}
			words = words[1:]
		case "ignore", "children":
			s.Flags = append(s.Flags, words[0])
		case "background":
			s.Background = true
		default:
			return fmt.Errorf("unknown %q (want exit, ignore, children or background)", words[0])
		}
	}
	return nil
}
