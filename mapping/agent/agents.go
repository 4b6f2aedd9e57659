package agent

import "slices"

// Agents are the agents that spantee supports. If two could claim a line, the first
// one gets it.
var Agents = []*Agent{
	&cursor,
	&opencode,
	&codex,
	&codexLog,
	&qwen,
	&amp,
	&claude,
	&claudeLog,
	&pi,
	&piLog,
	&gemini,
	&agy,
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

// OneOf reports whether a line may be an agent's in a stream that has lines of the agent.
func (m *Marks) OneOf(a *Agent) bool { return m.any(a.Lines) || m.any(a.Proof) }

// Alone returns the agent whose run a line is if nothing else was printed, nil if there is none.
func (m *Marks) Alone() *Agent {
	for _, a := range Agents {
		if m.any(a.Alone) {
			return a
		}
	}
	return nil
}

// OfAny reports whether a line may be some agent's, or the first one of its run.
func (m *Marks) OfAny() bool { return m.Begins() || slices.ContainsFunc(Agents, m.OneOf) }

// Begins reports whether a line is the first one of a run, whoever wrote it.
func (m *Marks) Begins() bool { return m.any(firstLines) }

var firstLines = shapes("type=system subtype=init", "type=init|session|thread.started|session.start")

// Agent returns the agent that a line is proof of, or the foreign kind that the line
// belongs to. Most lines prove neither. before is the foreign kind of the stream so far.
func (m *Marks) Agent(before *Foreign) (agent *Agent, foreign *Foreign) {
	if len(m.members) == 0 {
		return nil, nil
	}
	if before != nil && m.any(before.rows) {
		return nil, before
	}
	for _, a := range Agents {
		if m.any(a.Proof) {
			return a, nil
		}
	}
	for i := range foreignLines {
		if f := &foreignLines[i]; m.any(f.shapes) {
			return nil, f
		}
	}
	return nil, nil
}

// A Foreign is a kind of lines that spantee does not support, but recognizes, so that it can
// report what the stream is.
type Foreign struct {
	Name   string
	shapes []Shape
	rows   []Shape // of the lines that follow, which look like an agent's
}

var foreignLines = []Foreign{
	{Name: "messages of @cursor/sdk", shapes: shapes("type=system|user|assistant|thinking|tool_call|status agent_id run_id")},
	{Name: "Trae", shapes: shapes("session_id=t-* type=system")},
	{Name: "muse", shapes: shapes("schema_version payload_type payload")},
	{Name: "OpenHands", shapes: shapes("id timestamp source=agent|user|environment action|observation", "kind=*Event id timestamp source")},
	{Name: "Kilo, Roo or Cline", shapes: shapes("type=say say", "type=ask ask")},
	{Name: "Auggie", shapes: shapes("type=result request_id session_id result !uuid")},
	{Name: "a result that several agents print", shapes: shapes("type=result subtype is_error session_id")},

	{
		Name: "a session log of TraeX", shapes: shapes("type=session_meta payload.model_provider=trae"),
		rows: shapes("type=turn_context|response_item|event_msg|compacted timestamp payload"),
	},
	{Name: "a session log of iFlow", shapes: shapes("type sessionId=session-* uuid isSidechain")},
	{Name: "a session log of Gemini CLI", shapes: shapes("sessionId projectHash startTime", "type=user|gemini|info id timestamp content", "$set", "sessionId messageId type message timestamp")},
	{Name: "a session log of opencode", shapes: shapes("id=msg_* sessionID role", "id=prt_* sessionID messageID", "id=ses_* projectID time.created")},
	{Name: "a transcript of Cursor", shapes: shapes("!type role message.content")},

	{Name: "a chat log", shapes: shapes("!type role content", "!type role tool_calls", "!type role parts")},
	{Name: "messages of the Agent Client Protocol", shapes: shapes("jsonrpc method=session/*")},
	{Name: "messages of a language server", shapes: shapes("jsonrpc method=textDocument/*|window/*|workspace/*")},
	{Name: "JSON-RPC messages", shapes: shapes("jsonrpc")},
	{Name: "the events of a model's API", shapes: shapes("type=message_start message.type", "type=content_block_start|content_block_delta index", "type=response.* sequence_number", "object=chat.completion*")},
	{Name: "messages of Slack", shapes: shapes("type=message text ts", "type=event_callback event")},
	{Name: "CloudEvents", shapes: shapes("specversion id source type")},
	{Name: "a container's log", shapes: shapes("log stream=stdout|stderr time")},
}
