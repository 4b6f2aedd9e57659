// Package agent reads what coding agents print. One file per agent turns its
// lines into typed events, in no agent's words and without OpenTelemetry
// values. An agent's quirks stay in its file: repeated texts, forms of ids,
// clocks of its own.
//
//	line -> Decoder -> events
//
// To add an agent, write its Decoder and its entry in [Agents].
package agent

import (
	"slices"
	"time"
)

// An Instant is a number of nanoseconds since 1970, 0 if it is not known.
type Instant int64

// Seconds returns the time from since to t.
func (t Instant) Seconds(since Instant) float64 { return float64(t-since) / 1e9 }

// Milliseconds is an Instant's worth of them.
const Milliseconds = Instant(time.Millisecond)

// An Agent is one that spantee reads.
type Agent struct {
	Flag     string // the value of --agent
	Name     string // gen_ai.agent.name, and the service's name
	Provider string // gen_ai.provider.name, where the stream names none

	// New returns a Decoder for one stream.
	New func() Decoder

	// Proof tells whether a line can come from this agent alone.
	Proof func(*Marks) bool

	// TurnEnds says that the stream has TurnEnd events, which belong to a turn
	// even if it has called tools since.
	TurnEnds bool

	// CoarseStamps says that times are whole seconds: in a live pipe, arrivals
	// tell more.
	CoarseStamps bool

	// Nameless says that lines have no session's id: of several agents in one
	// stream, it is this one that a line without any mark is of.
	Nameless bool

	// EndsAtEOF says that the stream has no result: a run whose last turn was
	// an answer ends well with the stream.
	EndsAtEOF bool
}

// Agents are the agents that spantee reads. Where two could claim a line, the
// first one gets it.
var Agents = []*Agent{
	&cursor,
	&opencode,
	&codex,
	&qwen,
	&amp,
	&claude,
	&pi,
	&gemini,
	&copilot,
	&droid,
	&goose,
}

// Find returns the agent with this flag, nil if there is none.
func Find(flag string) *Agent {
	for _, a := range Agents {
		if a.Flag == flag {
			return a
		}
	}
	return nil
}

// Flags are the values of --agent.
func Flags() (flags []string) {
	for _, a := range Agents {
		flags = append(flags, a.Flag)
	}
	return flags
}

// A Line is one line of a stream, without its end.
type Line struct {
	Text    []byte
	Tail    []byte  // the end of a line past the parse limit, of which Text is the beginning
	Arrival Instant // when the line came
}

// A Decoder reads the lines of one stream.
type Decoder interface {
	// Decode appends the events of a line to dst. They point into the line and
	// into the Decoder, and are valid until the next call.
	Decode(line Line, dst []Event) []Event

	// Flush appends the events that Decode held back, at the end of the stream.
	Flush(dst []Event) []Event
}

// Kind says what an [Event] is.
type Kind uint8

// The kinds of events.
const (
	Malformed Kind = iota // the line is not JSON, or has no type
	Unknown               // the line is of a type that nobody knows
	Ignored               // the line says nothing about the run

	RunStart        // opens a run; Model, Facts, ID: tells it from others as long as its session has no id
	SessionNamed    // the session at hand has the id in ID
	Prompt          // the user's words: Text. Wakes the agent
	TurnStart       // a call of the model begins
	ThinkingDelta   // a piece of the model's thinking: Text, Bytes
	ThinkingMessage // a whole block of thinking that no delta had: Text, Bytes, Start
	ThinkingEnd     // the end of a block of thinking
	TextDelta       // a piece of the model's answer: Text, Bytes
	TextMessage     // a whole text that no delta had: Text, Bytes, Start, Final
	TextEnd         // the end of a text: Final
	TurnEnd         // a call of the model ended: FinishReason, Usage, Final
	ToolStart       // ID, Tool
	ToolEnd         // ID, Tool
	ToolCall        // a call that is printed once, at its end: ID, Tool, Start
	ApprovalStart   // the agent asks its user: ID, Query, CallID, Facts
	ApprovalEnd     // ID, Query, Status, Failed
	TaskEnd         // background work ended: ID, Status, Failed, Wakes, Length, ExitCode
	Notice          // something between the model and the agent: Notice, Facts
	RunError        // the agent speaks of an error: Status, Text. Its run may go on
	RunEnd          // the result: Status, Failed, Length, Usage, Text
)

// An Event is one thing that an agent did. Only some fields have a meaning in
// each kind of event. Texts are as they stand between the quotes of a JSON
// string, still escaped.
type Event struct {
	Kind    Kind
	Session []byte  // "" is that of the line before
	Parent  []byte  // the id of the tool call whose sub-agent this is about
	Time    Instant // when the agent says it was
	Start   Instant // when it began, where that is known to be before it was printed
	Arrival Instant // when its line came

	Text  []byte
	Bytes int // of Text, unescaped

	ID     []byte // pairs starts with ends
	CallID []byte // of the tool call that an approval is for

	Call     []byte // the model call that the event belongs to
	Model    []byte // which model was asked, or answered
	Provider []byte

	Query        string  // what an approval is about
	Status       string  // how it went, in the agent's word
	FinishReason string  // why the model stopped, in the conventions' word
	Notice       string  // an event name of package semconv, "" if the line only has a stamp
	Length       Instant // how long the agent says it took
	ExitCode     Exit

	Failed       bool
	Final        bool // nothing of this turn follows
	Wakes        bool // TaskEnd, Notice: it makes an idle agent call its model again
	StartPending bool // ToolStart: its end will tell when it began
	Estimated    bool // its time is an estimate of the agent's, or an upper bound

	Tool  *Tool
	Usage *Usage
	Facts []Fact
}

// An Exit is an exit code, where there is one.
type Exit struct {
	Code  int64
	Known bool
}

// A Tool is what a line says of a tool call. The start of a call has the
// arguments; its end has the outcome and, not always, the arguments again.
type Tool struct {
	Name       string
	MCP        bool
	Executable string // the program that a shell command runs
	Subagent   string // the type of agent that the call starts, "" if none

	Arguments     []byte // JSON
	Description   []byte // the agent's words on the call
	ArgumentFacts []Fact

	Result       []byte // JSON
	OutcomeFacts []Fact
	ErrorType    string // "" if it went well
	Reason       string // why it failed, in words that are never content
	ErrorText    []byte // why it failed, in the tool's words
	Background   bool   // it runs on after its end
	Task         []byte // under which its TaskEnd will come
}

// Usage is how many tokens were used, and what they cost. Input includes the
// cached tokens.
type Usage struct {
	Input, Output, CacheRead, CacheWrite, Reasoning int64
	Known                                           bool // of tokens
	OutputUnknown                                   bool // but not of these
	OutputOnly                                      bool // nothing is known of the input
	Cost                                            float64
	CostKnown                                       bool // in USD
}

// Level says what a [Fact] tells of content.
type Level uint8

// The levels of facts.
const (
	Harmless Level = iota // a number, or one of a few words
	Detail                // a path, a command, a pattern, a URL
	Full                  // a text
)

// A Fact is an attribute of package semconv with what the agent says of it: a
// number, a flag, or a text.
type Fact struct {
	Key   string
	Kind  FactKind
	Level Level
	Int   int64  // FactInt, FactBool
	Text  []byte // FactText, still escaped; FactJSON
}

// FactKind is the type of a fact's value.
type FactKind uint8

// The types of facts.
const (
	FactInt FactKind = iota
	FactBool
	FactText
	FactJSON
)

// facts collect what a line says, of which a later value replaces an earlier.
type facts []Fact

func (f *facts) set(fact Fact) {
	for i := range *f {
		if (*f)[i].Key == fact.Key {
			(*f)[i] = fact
			return
		}
	}
	*f = append(*f, fact)
}

func (f *facts) remove(key string) {
	*f = slices.DeleteFunc(*f, func(fact Fact) bool { return fact.Key == key })
}

func (f *facts) int(key string, n int64) { f.set(Fact{Key: key, Int: n}) }

func (f *facts) addInt(key string, n int64) {
	for i := range *f {
		if (*f)[i].Key == key {
			(*f)[i].Int += n
			return
		}
	}
	f.int(key, n)
}

func (f *facts) bool(key string) { f.set(Fact{Key: key, Kind: FactBool, Int: 1}) }

func (f *facts) word(key string, s []byte) {
	if len(s) > 0 {
		f.set(Fact{Key: key, Kind: FactText, Text: s})
	}
}

func (f *facts) text(key string, level Level, escaped []byte) {
	if len(escaped) > 0 {
		f.set(Fact{Key: key, Kind: FactText, Level: level, Text: escaped})
	}
}
