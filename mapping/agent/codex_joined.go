package agent

import "bytes"

// A codexJoined decodes the rollout of a thread whose stream is decoded as well. It keeps
// what the stream lacks: the model, and the tokens of each model call.
type codexJoined struct {
	*codexLogDecoder
	stream  *codexDecoder
	thread  []byte
	since   Instant // rows before are about earlier runs
	begun   bool    // a run has begun since then
	counted bool    // a model call of that run has been counted
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
			d.begun, d.counted = true, false
			kept = append(kept, ev)
		case ev.Kind == TurnEnd && ev.Usage != nil && d.begun:
			d.count()
			kept = append(kept, ev)
		}
	}
	return kept
}

// count tells the stream's decoder, which subtracts one total of the thread from the next,
// what the thread had used before the current run.
func (d *codexJoined) count() {
	l := &d.line
	if d.counted || !l.total.Known || !l.last.Known {
		return
	}
	d.counted = true
	before, known := l.total, d.stream.used[string(d.thread)]
	before.Sub(&l.last)
	if before.Input >= known.Input && before.Output >= known.Output {
		remember(d.stream.used, d.thread, before)
	}
}

// Flush appends nothing: the ends of runs, which the log's decoder holds back, are in the
// stream.
func (d *codexJoined) Flush(_ int, dst []Event) []Event { return dst }
