// Package agent decodes the output of coding agents. The files named after an agent
// decode its lines into typed events that are the same for all agents. Events use the
// names of package semconv, but know no spans. An agent's quirks stay in its files:
// repeated texts, id formats, its own clock.
//
//	line -> Decoder -> events
//
// To add an agent, write its objectDecoder and its entry in [Agents]: see README.md.
//
// In this order, each file uses only the ones after it: command, agents, the agents' own
// files; agent, with Decoder; line; marks, call; read, memory, words, event.
package agent

import (
	"bytes"
	"fmt"
	"iter"

	"github.com/spantee/spantee/mapping/jsonscan"
)

// An Agent is a coding agent whose output spantee can decode.
type Agent struct {
	Flag     string // the value of --agent
	Name     string // gen_ai.agent.name, and the service's name
	Provider string // gen_ai.provider.name, where the stream names none

	Commands []string // the names of its executable
	Packages []string // of npm, which contain the executable

	// objects returns an objectDecoder for one stream.
	objects func() objectDecoder

	// prefix is what old wrappers of the agent write before its lines.
	prefix string

	// last are members that the agent prints at the end of a line. They are read even if the
	// line is past the parse limit.
	last []string

	// Proof are the shapes of lines that no other program in the world is known to
	// print. One member with a common name is no proof.
	Proof []Shape

	// Lines are the shapes of further lines that are the agent's while it has an open
	// run. Lines that name the session need none.
	Lines []Shape

	// Alone are the shapes of lines that prove a run if the agent printed nothing else.
	Alone []Shape

	// TurnEnds says that the stream has TurnEnd events. One that comes after a
	// turn's tool calls still belongs to that turn.
	TurnEnds bool

	// CoarseStamps says that timestamps are whole seconds: in a live pipe, arrival
	// times are more precise.
	CoarseStamps bool

	// Lengths says that lines have no timestamps, but say how long what they are about took.
	Lengths bool

	// EndsOnTime says that a call's end is printed at once, so that its length counts from there.
	// Other agents hold lines back.
	EndsOnTime bool

	// resume are the arguments that have the agent go on with an earlier session.
	resume []string

	// ends are the lines that can end a run: see settle.
	ends endings

	// Log says that the lines come from a session log, a separate file in which every run
	// begins with a RunStart.
	Log bool

	// Kin returns names that a session log shares with related logs: the logs of its
	// sub-agents and forks. It returns none for a file that is not a session log. rows are
	// the log's first rows; all is false if later rows may add names.
	Kin func(path string, rows iter.Seq[*Marks]) (kin []string, all bool)

	// CopiesNameless says that a log may begin with a copy of another log in the same
	// folder, without naming it.
	CopiesNameless bool

	// Folders are where the agent keeps session logs.
	Folders Folders

	// Joined is the session log that has what the stream lacks, if its lines are not the stream's.
	// The stream's decoder is a learner or a completer.
	Joined *Agent
}

// Folders are folders in an agent's own one.
type Folders struct {
	Variable string   // names the agent's own folder; "" if none does
	Default  string   // the agent's own folder otherwise, in the home directory
	Names    []string // in the agent's own folder
	LogOf    string   // pattern of the path of a session's log in the first one, with %s for the session; "" if it is not joined
}

// A Decoder reads an agent's lines in one stream.
type Decoder struct {
	Agent *Agent
	objectDecoder
	r jsonscan.Reader
}

// An objectDecoder decodes the objects of an agent's lines. It gets the members of an
// object, in the line's order, and then appends the events.
type objectDecoder interface {
	// begin returns an empty reader for the next object. If it is the first one of a line,
	// the events of the objects before are not needed any more.
	begin(first bool) lineReader

	// events appends the events of the object. They refer to memory of the line and of the
	// decoder, and are valid until the next call.
	events(dst []Event) []Event

	// Flush appends the events that events held back for the next line of an input, which
	// has ended or paused.
	Flush(input int, dst []Event) []Event
}

// New returns a Decoder for one stream.
func (a *Agent) New() *Decoder { return &Decoder{Agent: a, objectDecoder: a.objects()} }

// Decode appends the events of every JSON object of a line to dst. They are valid until
// the next call.
func (d *Decoder) Decode(text Line, dst []Event) []Event {
	d.r = jsonscan.Reader{B: bytes.TrimPrefix(trimLine(text.Text), []byte(d.Agent.prefix))}
	for r := &d.r; !r.End(); {
		reader := d.begin(r.I == 0)
		l := reader.head()
		l.Arrival, l.input, l.path, l.recorded = text.Arrival, text.Input, text.Path, text.Recorded
		l.ends = d.Agent.ends
		start := r.I
		for key := range r.Members() {
			reader.field(r, key)
		}
		l.object = r.B[start:r.I]
		cut := r.Bad && text.Tail != nil
		if cut {
			l.tail = text.Tail
			salvage(l.tail, reader.field, d.Agent.last...)
		}
		if len(l.typ) == 0 || r.Bad && !cut {
			return append(dst, Event{Kind: Malformed})
		}
		from := len(dst)
		dst = d.events(dst)
		onlyNames(dst[from:])
		for i := from; i < len(dst); i++ {
			ev := &dst[i]
			if ev.Arrival == 0 { // the event was not held back
				ev.Arrival = text.Arrival
			}
			if ev.Kind == Unknown {
				ev.Type = typeName(l.typ, l.subtype)
			}
		}
	}
	return dst
}

// Flush appends the events that were held back: see objectDecoder.
func (d *Decoder) Flush(input int, dst []Event) []Event {
	from := len(dst)
	dst = d.objectDecoder.Flush(input, dst)
	onlyNames(dst[from:])
	return dst
}

// onlyNames removes what is no name of a model or of a provider.
func onlyNames(events []Event) {
	for i := range events {
		ev := &events[i]
		ev.Model, ev.Provider = modelName(ev.Model), modelName(ev.Provider)
		for k := range ev.Models {
			ev.Models[k].Model = modelName(ev.Models[k].Model)
		}
	}
}

// A starter is the decoder of a stream of which it matters how its process began.
type starter interface {
	started(at Instant, resumes bool)
}

// Started says when the process that prints the stream was started, and whether to go on with
// an earlier session.
func (d *Decoder) Started(at Instant, resumes bool) {
	if s, ok := d.objectDecoder.(starter); ok {
		s.started(at, resumes)
	}
}

// A learner is the decoder of a stream that lacks what its agent's session log has.
type learner interface {
	learn(session string, since Instant, rows []byte) (start Event, ok bool)
}

// A completer is the decoder of a stream whose ends, of runs or of calls, lack what the session log has.
type completer interface {
	complete(end *Event, session string, since Instant, log func(session string) []byte)
}

// Complete adds to the end of a run what it lacks, such as token counts, from the log of its
// session and those of its sub-agents, and to the end of a call its times. since is when the
// run began.
func (d *Decoder) Complete(end *Event, session string, since Instant, log func(session string) []byte) {
	if stream, lacks := d.objectDecoder.(completer); lacks {
		stream.complete(end, session, since, log)
	}
}

// LogOf returns the folders of the agent's session logs, and a pattern of the path of a
// session's log in the first of them: "" if the log has nothing that the stream lacks.
func (a *Agent) LogOf(session string) (folders Folders, pattern string) {
	if folders = a.Folders; a.Joined != nil {
		folders = a.Joined.Folders
	}
	if folders.LogOf == "" {
		return folders, ""
	}
	return folders, fmt.Sprintf(folders.LogOf, session)
}

// Learn reads rows of the log of a session in the stream, and returns the beginning of the
// session's last run since a time: its model and facts. It returns false if the log does not
// have it, or the stream lacks nothing.
func (d *Decoder) Learn(session string, since Instant, rows []byte) (start Event, ok bool) {
	if stream, lacks := d.objectDecoder.(learner); lacks {
		start, ok = stream.learn(session, since, rows)
		start.Model, start.Provider = modelName(start.Model), modelName(start.Provider)
	}
	return start, ok
}
