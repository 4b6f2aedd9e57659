package agent

import "bytes"

// A codexJoined decodes the rollout of a thread whose stream is decoded as well. It keeps
// what the stream lacks: the model, and the tokens of each model call.
type codexJoined struct {
	*codexLogDecoder
	stream *codexDecoder
	thread []byte
	since  Instant // rows before are about earlier runs
	begun  bool    // a run has begun since then
	based  bool    // the baseline of that run has been set
}

// joinLog implements [joiner].
func (d *codexDecoder) joinLog(session string, since Instant) objectDecoder {
	return &codexJoined{codexLogDecoder: newCodexLogDecoder(), stream: d, thread: []byte(session), since: since}
}

func (d *codexJoined) events(dst []Event) []Event {
	kept := dst
	for _, ev := range d.codexLogDecoder.events(dst)[len(dst):] {
		switch {
		case d.line.Time < d.since, !bytes.Equal(ev.Session, d.thread), len(ev.Parent) > 0:
		case ev.Kind == RunStart:
			d.begun, d.based = true, false
			kept = append(kept, ev)
		case ev.Kind == TurnEnd && ev.Usage != nil && d.begun:
			d.setBaseline()
			kept = append(kept, ev)
		}
	}
	return kept
}

// setBaseline records the thread's total before the current run, which the stream's decoder
// subtracts from the next total.
func (d *codexJoined) setBaseline() {
	l := &d.line
	if d.based || !l.total.Known || !l.last.Known {
		return
	}
	d.based = true
	before, known := l.total, d.stream.used[string(d.thread)]
	before.Sub(&l.last)
	if before.Input >= known.Input && before.Output >= known.Output {
		remember(d.stream.used, d.thread, before)
	}
}

// Flush appends nothing: the ends of runs, which the log's decoder holds back, are in the
// stream.
func (d *codexJoined) Flush(_ int, dst []Event) []Event { return dst }
