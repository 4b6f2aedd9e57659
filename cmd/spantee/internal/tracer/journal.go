package tracer

import (
	"time"

	"github.com/spantee/spantee/exporter"
)

// A journal decides when spans are saved in case the process is killed: ended spans after
// each piece of the stream, and open spans at checkpoints. A recording needs neither,
// because it can be sent again.
type journal struct {
	active   bool               // checkpoints are made
	exporter *exporter.Exporter // nil if it has no journal

	generation int           // of the runs at the last checkpoint
	changed    bool          // open spans have changed since the last checkpoint
	unsaved    int           // bytes of spans since the last checkpoint or end of a piece
	saved      time.Time     // when the last checkpoint was
	began      time.Time     // when the current one did
	took       time.Duration // how long the last one took, without the disk
}

// maxUnsaved is how many bytes of spans may wait for a checkpoint.
const maxUnsaved = 1 << 20

// begin is called before a piece of the stream is mapped. It does nothing for a
// recording: its end may release all its spans at once, so they must be able to wait for
// room within the piece.
func (j *journal) begin() {
	if j.exporter != nil {
		j.exporter.Begin()
	}
}

// commit ends a piece after which the roots and ids in the journal are still right.
func (j *journal) commit() {
	if j.exporter != nil {
		j.exporter.Commit()
		j.unsaved = 0
	}
}

// due reports whether a checkpoint may be made now. With thousands of open sessions it
// takes a while, so it is made less often, and until then the spans of the current piece
// wait.
func (j *journal) due() bool {
	j.began = time.Now()
	return j.active && (j.began.Sub(j.saved) >= 20*j.took || j.unsaved >= maxUnsaved)
}

// save ends a piece with a checkpoint.
func (j *journal) save(open []exporter.OpenSpan, generation int) {
	j.took = time.Since(j.began)
	if j.exporter != nil {
		_ = j.exporter.Checkpoint(open) // end tells whether the disk takes any
	}
	j.unsaved, j.generation, j.changed = 0, generation, false
	j.saved = time.Now()
}

// end ends the last piece.
func (j *journal) end() error {
	if j.exporter != nil {
		return j.exporter.Checkpoint(nil)
	}
	return nil
}
