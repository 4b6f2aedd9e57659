package mapping

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/spantee/spantee/mapping/agent"
	"github.com/spantee/spantee/mapping/content"
	"github.com/spantee/spantee/mapping/redact"
)

// Deltas says how the pieces in which a model's answer arrives are recorded.
type Deltas string

// The values of [Options.Deltas].
const (
	DeltasEach    Deltas = "each"    // one event per delta, merged where a trace grows too big
	DeltasMessage Deltas = "message" // one event per message or block of thinking
	DeltasOff     Deltas = "off"     // counts only
)

// A Source is where a stream comes from. That decides what the times say at which its bytes
// come: see clock.
type Source int

// The sources.
const (
	Pipe      Source = iota // an agent that prints it
	Recording               // a file that has all of it
	Followed                // a session log that grows
)

// Options configure a Mapper.
type Options struct {
	// Agent is the agent whose stream it is, one of [Agents]; "" detects it.
	Agent string

	Deltas        Deltas // "" means DeltasEach
	MaxSpanEvents int    // events in a span before they continue in another; 0 means 512

	Content           content.Level    // "" means content.None
	Redactor          *redact.Redactor // removes secrets from content; nil means one with all rules
	MaxAttributeBytes int              // of a string in a span; 0 means 2048, the maximum is [MaxAttribute]

	Source  Source
	Written time.Time // when a Recording was last written

	// Printed says that an agent printed the stream: it is no file that an agent may keep, such
	// as a session log.
	Printed bool

	// ReadLog, if set, returns the session log whose path, in the first of the folders, matches a
	// pattern; nil if there is none. It is called when a run or a call of a live stream ends.
	ReadLog func(folders agent.Folders, pattern string) []byte

	// Since, if set, leaves out runs that began earlier.
	Since time.Time

	// EndNow moves a Recording in time so that its last run ends now.
	EndNow bool

	// Parent, if valid, is the parent of the root spans.
	Parent trace.SpanContext

	// Now returns when the bytes of the current Map came; nil means [time.Now].
	Now func() time.Time

	// Process, if set, is the agent's process: its first run begins in New, and
	// Close emits its roots.
	Process *Process
}

// MaxAttribute is the maximum of Options.MaxAttributeBytes. It is small enough for
// several strings to fit into a request.
const MaxAttribute = 256 << 10

// check fills in defaults, and returns an error for an invalid option.
func (o *Options) check() error {
	o.Deltas, o.Content = cmp.Or(o.Deltas, DeltasEach), cmp.Or(o.Content, content.None)
	switch o.Deltas {
	case DeltasEach, DeltasMessage, DeltasOff:
	default:
		return fmt.Errorf("invalid deltas %q (want each, message or off)", o.Deltas)
	}
	if o.MaxSpanEvents <= 0 {
		o.MaxSpanEvents = 512
	}
	if o.MaxAttributeBytes <= 0 {
		o.MaxAttributeBytes = 2048
	}
	o.MaxAttributeBytes = min(o.MaxAttributeBytes, MaxAttribute)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Redactor == nil {
		var err error
		if o.Redactor, err = redact.New(nil); err != nil {
			return err
		}
	}
	return CheckAgent(o.Agent)
}

// A Run describes one run of an agent, from its first line to its result.
type Run struct {
	Agent, Model, Session    string
	TraceID                  trace.TraceID
	Start                    time.Time
	Spans, Tools, ToolErrors int // so far; background work may end later
	Duration                 time.Duration
	ErrorType                string // "" if it went well
	Status                   string // says more than ErrorType
}

// Stats count what a [Mapper] saw.
type Stats struct {
	Lines            int
	BadLines         int // not JSON, or without a type
	FirstBad         int // the first such line, from 1
	Unknown          int // JSON of an unknown type
	Unidentified     int // lines that do not identify an agent
	EndsWithoutStart int
	Oversize         int // lines past the parse limit, of which only ids and times were read
	Evicted          int // sessions, tasks, calls, approvals and hooks that were ended early because too many were open
	EvictedRuns      int
	UTF16            bool // the first bytes say so: no line can be read
	Runs             int
	Generation       int    // grows when a run begins, gets its final ids, or ends: Open then emits other roots
	Spans            int    // finished
	HeaderOnly       bool   // the only line is the first one of an agent's log, in which no run has begun
	Foreign          string // what the stream looks like, if spantee does not support it
	Agent, Session   string // of the run that began last
}

// Agents are the values of [Options.Agent].
var Agents = agent.Flags()

// A Process is the process of an agent that spantee started.
type Process struct {
	Key        [32]byte     // random: the ids of its first run are derived from it
	Agent      *agent.Agent // whom it runs, unless its stream proves another
	Executable string       // its name, without the path
	Resumes    bool         // its command goes on with an earlier session
	PID        int          // may be set after New: Root is needed to start the process
}

// CheckAgent returns an error unless a value is valid for [Options.Agent].
func CheckAgent(flag string) error {
	if flag != "" && agent.Find(flag) == nil {
		return fmt.Errorf("unknown agent %q (supported: %s)", flag, strings.Join(agent.Flags(), ", "))
	}
	return nil
}
