package agent

import "slices"

// A codexJoined decodes the rollout of a thread whose stream is decoded as well. It keeps
// what the stream lacks: the model, and the tokens of each model call.
type codexJoined struct {
	*codexLogDecoder
	stream *codexDecoder
	since  Instant // when the stream began: rows before are about earlier turns
	begun  bool    // there was a row since then
}

// join implements [joiner].
func (d *codexDecoder) join(since Instant) objectDecoder {
	return &codexJoined{codexLogDecoder: newCodexLogDecoder(), stream: d, since: since}
}

func (d *codexJoined) events(dst []Event) []Event {
	thread, before := d.files[d.line.input], Usage{}
	if thread != nil {
		before = thread.total
	}
	from := len(dst)
	dst = d.codexLogDecoder.events(dst)
	if d.line.Time < d.since {
		return dst[:from]
	}
	if !d.begun && thread != nil {
		d.begun = true
		if before.Known { // the stream's totals are those of the thread
			remember(d.stream.used, thread.id, before)
		}
	}
	added := slices.DeleteFunc(dst[from:], func(ev Event) bool {
		return ev.Kind != RunStart && (ev.Kind != TurnEnd || ev.Usage == nil)
	})
	return dst[:from+len(added)]
}

// Flush appends nothing: ends of runs, which the log's decoder holds back, are in the
// stream.
func (d *codexJoined) Flush(_ int, dst []Event) []Event { return dst }
