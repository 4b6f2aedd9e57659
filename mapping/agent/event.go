package agent

import (
	"bytes"
	"slices"
	"time"
)

// An Instant is a number of nanoseconds since 1970, 0 if it is not known.
type Instant int64

// Seconds returns the time from since to t.
func (t Instant) Seconds(since Instant) float64 { return float64(t-since) / 1e9 }

// Milliseconds is the number of nanoseconds in a millisecond.
const Milliseconds = Instant(time.Millisecond)

// Known says how a time is known, the most trusted first.
type Known int8

// How a time can be known.
const (
	Stated   Known = iota - 1 // by the agent's own clock, of that very thing
	Stamped                   // by the stamp of the line that tells it
	Arrived                   // by when that line came, because it has no stamp
	Inferred                  // not: it was computed, or lies between two times that are known
)

// A Line is one line of a stream, without its end.
type Line struct {
	Text    []byte
	Tail    []byte  // the end of a line past the parse limit, of which Text is the beginning
	Arrival Instant // when the line came
	Input   int     // which of the inputs that are read together it is from
	Path    string  // of that input, if it is a session log

	Recorded bool // Arrival is the line's place in a recording, not a time
}

// Kind says what an [Event] is.
type Kind uint8

// The kinds of events.
const (
	Malformed Kind = iota // the line is not JSON, or has no type
	Unknown               // the line has an unknown type: Type
	Ignored               // the line says nothing about the run

	RunStart        // a run begins: Model, Facts, and ID, which identifies the run until its session has an id
	SessionNamed    // the current session gets the id in ID
	Prompt          // the user's prompt: Text. An idle agent calls its model again
	TurnStart       // a model call begins: Asks, Start
	ThinkingDelta   // a piece of the model's thinking: Text
	ThinkingMessage // a whole block of thinking that came without deltas: Text, Start
	ThinkingEnd     // the end of a block of thinking
	TextDelta       // a piece of the model's answer: Text
	OtherOutput     // the model has begun to write something else, such as the arguments of a call
	TextMessage     // a whole text that came without deltas: Text, Start, Final
	TextEnd         // the end of a text: Final, FirstToken
	TurnEnd         // a model call ended: FinishReason, Usage, Final
	ToolStart       // ID, Tool
	ToolRuns        // a call, which may have waited for others, runs: ID
	ToolEnd         // ID, Tool, Length, Start, End, Asked
	ToolCall        // a tool call that is printed only at its end: ID, ToolCallID, Tool, Start, End
	ApprovalStart   // the agent asks its user: ID, Query, ToolCallID, Facts
	ApprovalEnd     // ID, Query if the line has it, Status, Failed
	HookStart       // the agent runs a program of the user's: ID, Query, ToolCallID
	HookEnd         // ID, Query, ToolCallID, Status, Failed, Length, Facts
	TaskEnd         // background work ended: ID, Status, Failed, Wakes, Length, ExitCode
	Notice          // something between the model and the agent: Notice, Facts
	RunError        // the agent reports an error: Status, Text, Notice, Facts. The run may go on
	RunUsage        // what the run, or the session, has used, if the result does not say: Usage, SessionUsage, Models, Facts
	RunEnd          // the result: Status, Failed, Length, FirstToken, Usage, SessionUsage, Models, Text, Facts, NoEnd, Early
)

// An Event is one thing that an agent did. Its Kind tells which fields count: a decoder
// may set others, too. Texts are still escaped, as between the quotes of a JSON string.
//
// It is one type for all kinds, with many fields, so that a decoder can fill it in the
// order of a line's members before it knows the kind, and so that the events of a stream
// share one slice.
type Event struct {
	Kind    Kind
	Session []byte  // nil for the session of the agent's line before
	Parent  []byte  // the id of the tool call whose sub-agent this is about
	Among   []byte  // which of the call's sub-agents, if it may have several
	Time    Instant // the time that the agent states
	Known   Known   // how Time is known: Stated, Stamped, or Inferred if it may have happened earlier
	Late    bool    // Time is not when the line was printed: in a live stream, its arrival tells more
	Start   Instant // when it began by the agent's own clock, if that was before it was printed
	End     Instant // when it ended by that clock, if it states that
	Asked   Instant // ToolEnd: when the model had asked for the call, if that is known
	Arrival Instant // when its line came
	Type    string  // of its line, if unknown; set by Decoder

	Text []byte

	ID         []byte // pairs starts with ends
	ToolCallID []byte // of the tool call that an approval or a hook is for, or of the script that made a ToolCall

	ModelCallID []byte // the model call that the event belongs to
	Model       []byte // which model was asked, or answered
	Provider    []byte

	Query        string  // what an approval, or a hook, is about
	Status       string  // the outcome, in the agent's terms
	FinishReason string  // why the model stopped, in the conventions' terms
	Notice       string  // an event name of package semconv, "" if only the timestamp matters
	Length       Instant // how long the agent says it took
	FirstToken   Instant // how long the agent says a model call, or a run, took until its first token
	ExitCode     Exit

	Failed bool
	Final  bool // nothing else of this turn follows
	Wakes  bool // TaskEnd, Notice: it makes an idle agent call its model again
	Asks   bool // TurnStart: the agent asks its model now, or did at Start
	NoEnd  bool // RunEnd: nothing says so, but the build's runs end like this
	Early  bool // RunEnd: its Length is the time until the agent first answered, though it went on

	Tool   *Tool
	Usage  *Usage
	Models []ModelUsage
	Facts  Facts

	SessionUsage *Usage // RunEnd: of the whole session, since its last RunEnd that states one
}

// inferIf says that the event's time is a guess, if that is so.
func (ev *Event) inferIf(guess bool) {
	if guess {
		ev.Known = Inferred
	}
}

// endTask makes the event the end of background work with its exit code.
func (ev *Event) endTask() {
	if ev.Kind, ev.Status = TaskEnd, "success"; ev.ExitCode.Code != 0 {
		ev.Status, ev.Failed = "error", true
	}
}

// Kept returns a copy of an event that outlives its line.
func (ev *Event) Kept() Event {
	kept := *ev
	cloneAll(&kept.Session, &kept.Parent, &kept.Among, &kept.Text, &kept.ID, &kept.ToolCallID, &kept.ModelCallID, &kept.Model, &kept.Provider)
	kept.Facts = ev.Facts.kept()
	if ev.Tool != nil {
		own := *ev.Tool
		cloneAll(&own.Arguments, &own.Result, &own.ErrorText, &own.Task)
		own.ArgumentFacts, own.OutcomeFacts = own.ArgumentFacts.kept(), own.OutcomeFacts.kept()
		kept.Tool = &own
	}
	return kept
}

func cloneAll(texts ...*[]byte) {
	for _, b := range texts {
		*b = bytes.Clone(*b)
	}
}

// An Exit is an exit code, if known.
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
	Skill      string // the skill that the call loads, "" if none

	Arguments     []byte // JSON
	ArgumentFacts Facts

	Result        []byte // JSON
	OutcomeFacts  Facts
	ErrorType     string // "" if it went well
	Reason        string // why it failed, in words that are never content
	ErrorText     []byte // why it failed, in the tool's words
	Reported      bool   // the tool itself said that it failed, as MCP's isError does
	SubagentError string // how its sub-agent failed, "" if it ended well or with the call
	Background    bool   // it keeps running in the background after the call ends
	Task          []byte // the ID of its TaskEnd, or the task that it waited for
}

// Usage is how many tokens were used, and what they cost. Input includes the
// cached tokens.
type Usage struct {
	Input, Output, CacheRead, CacheWrite, Reasoning int64
	CacheWriteHour                                  int64 // of CacheWrite, for the cache that lasts an hour and costs more
	WebSearches                                     int64 // by the model's API, which cost extra
	Known                                           bool  // token counts are stated
	OutputUnknown                                   bool  // except the output tokens
	OutputOnly                                      bool  // the input tokens are unknown
	Cost                                            float64
	CostKnown                                       bool // Cost, in USD, is stated
}

// A ModelUsage is what one model used in a run.
type ModelUsage struct {
	Model []byte
	Usage
}

// Level says how much content a [Fact] reveals.
type Level uint8

// The levels of facts.
const (
	Harmless Level = iota // a number, or one of a few words
	Detail                // a path, a command, a pattern, a URL
	Full                  // a text
)

// A Fact is an attribute of package semconv and its value as the agent states it: a
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

// Facts are facts with different keys: a later value of a key replaces an earlier one.
type Facts []Fact

// Find returns the fact of a key, nil if there is none.
func (f Facts) Find(key string) *Fact {
	for i := range f {
		if f[i].Key == key {
			return &f[i]
		}
	}
	return nil
}

// number returns the number of a key's fact, 0 if there is none.
func (f Facts) number(key string) int64 {
	if fact := f.Find(key); fact != nil {
		return fact.Int
	}
	return 0
}

// Set adds a fact.
func (f *Facts) Set(fact Fact) {
	if old := f.Find(fact.Key); old != nil {
		*old = fact
		return
	}
	*f = append(*f, fact)
}

func (f Facts) kept() Facts {
	f = slices.Clone(f)
	for i := range f {
		f[i].Text = bytes.Clone(f[i].Text)
	}
	return f
}

func (f *Facts) remove(key string) {
	*f = slices.DeleteFunc(*f, func(fact Fact) bool { return fact.Key == key })
}

// merge sets the facts of others.
func (f *Facts) merge(others Facts) {
	for _, fact := range others {
		f.Set(fact)
	}
}

func (f *Facts) int(key string, n int64) { f.Set(Fact{Key: key, Int: n}) }

func (f *Facts) addInt(key string, n int64) { f.int(key, f.number(key)+n) }

func (f *Facts) bool(key string) { f.Set(Fact{Key: key, Kind: FactBool, Int: 1}) }

func (f *Facts) json(key string, raw []byte) {
	f.Set(Fact{Key: key, Kind: FactJSON, Level: Full, Text: raw})
}

func (f *Facts) word(key string, s []byte) { f.text(key, Harmless, s) }

func (f *Facts) text(key string, level Level, escaped []byte) {
	if len(escaped) > 0 {
		f.Set(Fact{Key: key, Kind: FactText, Level: level, Text: escaped})
	}
}
