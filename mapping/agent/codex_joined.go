package agent

import "bytes"

// learn implements [learner]. A rollout has the model, the settings and, as long as a process
// that resumed the thread has not stated its first total, what the thread had used before.
func (d *codexDecoder) learn(session string, since Instant, rows []byte) (start Event, ok bool) {
	log := newCodexLogDecoder()
	decoder := Decoder{Agent: &codexLog, objectDecoder: log}
	var events []Event
	var before Usage
	for row := range bytes.Lines(rows) {
		events = decoder.Decode(Line{Text: row}, events[:0])
		if log.line.Time < since && log.line.total.Known {
			before = log.line.total
		}
		for _, ev := range events {
			if ev.Kind == RunStart && ev.Time >= since && string(ev.Session) == session && len(ev.Parent) == 0 && len(ev.Model) > 0 {
				start, ok = ev.Kept(), true
			}
		}
	}
	if known := d.used[session]; ok && before.Input >= known.Input && before.Output >= known.Output {
		remember(d.used, []byte(session), before)
	}
	return start, ok
}
