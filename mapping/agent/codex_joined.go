package agent

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"github.com/spantee/spantee/mapping/semconv"
)

// learn implements [learner]. A rollout has the model, the settings and, as long as a process
// that resumed the thread has not stated its first total, what the thread had used before.
func (d *codexDecoder) learn(session string, since Instant, rows []byte) (start Event, ok bool) {
	log := newCodexLogDecoder()
	decoder := Decoder{Agent: &codexLog, objectDecoder: log}
	var events []Event
	var total, before Usage
	for row := range bytes.Lines(rows) {
		events = decoder.Decode(Line{Text: row}, events[:0])
		for _, ev := range events {
			if ev.Kind == RunStart && ev.Time >= since && string(ev.Session) == session && len(ev.Parent) == 0 && len(ev.Model) > 0 {
				start, ok, before = ev.Kept(), true, total
			}
		}
		if log.line.total.Known {
			total = log.line.total
		}
	}
	if known := d.used[session]; ok && before.Input >= known.Input && before.Output >= known.Output {
		remember(d.used, []byte(session), before)
	}
	return start, ok
}

// logTail is how much of a log's end is read for the times of a call.
const logTail = 256 << 10

// time adds to the end of a command when it ran by Codex's own clock, and when the model had
// asked for it. On a busy machine the stream prints both seconds later.
func (d *codexDecoder) time(end *Event, session string, since Instant, log func(session string) []byte) {
	command := end.Tool.ArgumentFacts.Find(semconv.ProcessCommandLine)
	if command == nil {
		return
	}
	rows := log(session)
	logs := newCodexLogDecoder()
	decoder := Decoder{Agent: &codexLog, objectDecoder: logs}
	asked := map[string]Instant{}
	var call []byte // the first one of such a command that has no times yet
	matches := func() bool {
		own := logs.line.tool().ArgumentFacts.Find(semconv.ProcessCommandLine)
		return own != nil && runs(command.Text, own.Text)
	}
	for row := range bytes.Lines(rows[max(0, len(rows)-logTail):]) {
		decoder.Decode(Line{Text: row}, nil)
		l := &logs.line
		if string(l.subtype) == "function_call" {
			asked[string(l.ToolCallID)] = l.Time
			if call == nil && since <= l.Time && !d.timed[string(l.ToolCallID)] && matches() {
				call = bytes.Clone(l.ToolCallID)
			}
		} else if string(l.subtype) == "item_completed" && since <= l.Start && l.Start <= l.completed && !d.timed[string(l.ID)] && matches() {
			call, end.Start, end.End = bytes.Clone(l.ID), l.Start, l.completed
			break
		}
	}
	if call == nil {
		return
	}
	remember(d.timed, call, true)
	end.Asked = asked[string(call)]
	if start := commandStart(cmp.Or(end.Start, d.printed), end.Asked); start == end.Asked {
		end.Start = start
	}
}

// commandStart returns when a command began that Codex says began then: with the row of its call, if
// that is shortly before. Codex waits for 150 ms whether a command fails at once.
func commandStart(began, asked Instant) Instant {
	if began-asked <= 300*Milliseconds {
		return asked
	}
	return began
}

// runs reports whether a command line is a command, or a shell's that runs it.
func runs(line, command []byte) bool {
	const quotes = "'\"\\"
	before, ok := bytes.CutSuffix(bytes.TrimRight(line, quotes), bytes.TrimRight(command, quotes))
	return ok && (len(before) == 0 || bytes.ContainsAny(before[len(before)-1:], " "+quotes))
}

// complete implements [completer]. The thread states its total, also of earlier processes, and
// without its sub-agents.
func (d *codexDecoder) complete(end *Event, session string, since Instant, log func(session string) []byte) {
	if end.Kind == ToolEnd {
		d.time(end, session, since, log)
		return
	}
	if !d.agents && end.SessionUsage == nil {
		return
	}
	logs := newCodexLogDecoder()
	decoder := Decoder{Agent: &codexLog, objectDecoder: logs}
	var before, nested Usage
	read := func(input int, thread string) bool {
		rows := log(thread)
		for row := range bytes.Lines(rows) {
			for _, ev := range decoder.Decode(Line{Text: row, Input: input}, nil) {
				if ev.Kind == TurnEnd && ev.Usage != nil && ev.Time >= since && len(ev.Parent) > 0 {
					nested.Add(ev.Usage)
				}
			}
			if t := logs.threads[session]; input == 0 && t != nil && logs.line.Time < since {
				before = t.total
			}
		}
		return rows != nil
	}
	if !read(0, session) || logs.threads[session] == nil {
		return
	}
	own := d.own
	if own == nil && end.SessionUsage != nil {
		rest := end.SessionUsage.copied()
		if rest.Sub(&before); rest.Input < 0 || rest.Output < 0 {
			return
		}
		own, end.SessionUsage = rest, nil
	}
	threads := []string{session}
	for n := 0; n < len(threads) && n < maxJoined; n++ { // in the order of their beginning
		if n > 0 && !read(n, threads[n]) {
			return
		}
		if t := logs.threads[threads[n]]; t != nil {
			threads = append(threads, slices.Sorted(maps.Keys(t.spawned))...)
		}
	}
	if own == nil || len(threads) > maxJoined || d.agents && len(threads) == 1 {
		return
	}
	end.Usage = own.copied()
	end.Usage.Add(&nested)
	end.Facts.bool(semconv.SessionLog)
}

// maxJoined is how many logs of sub-agents are read.
const maxJoined = 64
