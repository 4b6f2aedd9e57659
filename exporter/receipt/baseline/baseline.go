// Package baseline compares runs with earlier ones of the same service and agent:
//
//	file -> Open -> History -> Compare -> what is usual, and how a run differs in words
//	runs -> Add -> file
//
// The file has one run per line, as in a receipt, the latest last.
package baseline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/spantee/spantee/exporter/receipt"
	"github.com/spantee/spantee/exporter/spool"
)

const (
	// MaxRuns is how many runs a file keeps.
	MaxRuns = 1000

	maxSize = 64 << 20 // a file of MaxRuns runs has some 2 MB
)

// An Entry is a line of a file.
type Entry struct {
	SchemaVersion int    `json:"schema_version"`
	Service       string `json:"service"`
	receipt.Run
}

// NewEntry returns the entry of a run. The usage of its models and sub-agents, of which there
// may be many, is left out, as are its failed tools, which may have content.
func NewEntry(service string, run receipt.Run) Entry {
	run.Models, run.Subagents, run.FailedTools = []receipt.Model{}, []receipt.Subagent{}, []receipt.FailedTool{}
	return Entry{receipt.SchemaVersion, service, run}
}

// A History is the runs in a file.
type History struct {
	lines   [][]byte // of runs
	runs    []Entry
	damaged [][]byte // other lines
}

// Open reads a file, which need not exist. It returns an error for a file of another version,
// and for one of something else.
func Open(name string) (*History, error) {
	h := new(History)
	if info, err := os.Stat(name); err == nil && info.Size() > maxSize {
		return nil, errors.New("too large for a baseline")
	}
	text, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		var e Entry
		err := json.Unmarshal(line, &e) // which goes on after a field of another type
		switch {
		case len(line) == 0:
		case e.SchemaVersion != receipt.SchemaVersion && e.SchemaVersion != 0:
			return nil, fmt.Errorf("has runs of version %d (want %d)", e.SchemaVersion, receipt.SchemaVersion)
		case err != nil || e.SchemaVersion == 0 || e.Agent == "":
			h.damaged = append(h.damaged, line)
		default:
			h.lines, h.runs = append(h.lines, line), append(h.runs, e)
		}
	}
	if len(h.damaged) > 0 && len(h.runs) == 0 {
		return nil, errors.New("is not a baseline: no line is a run")
	}
	return h, nil
}

// add adds a run in place of itself: a recording may be replayed again.
func (h *History) add(e Entry) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(h.runs, func(old Entry) bool { return same(&old, &e.Run) }); i >= 0 {
		h.lines, h.runs = slices.Delete(h.lines, i, i+1), slices.Delete(h.runs, i, i+1)
	}
	h.lines, h.runs = append(h.lines, line), append(h.runs, e)
	if more := len(h.runs) - MaxRuns; more > 0 {
		h.lines, h.runs = h.lines[more:], h.runs[more:]
	}
	return nil
}

// same reports whether two runs are one. Runs of several agents may share a trace.
func same(a *Entry, b *receipt.Run) bool {
	return a.TraceID == b.TraceID && a.SessionID == b.SessionID && a.Start.Equal(b.Start)
}

// Add adds runs to a file, while no other process does, for which it waits until ctx ends, or
// longer while other processes go on adding theirs. It does not wait for a frozen disk. Damaged lines are moved to a file beside it, whose name is
// returned.
func Add(ctx context.Context, name string, runs []Entry) (setAside string, err error) {
	lock, err := lockFile(ctx, name)
	if err != nil {
		return "", err
	}
	return spool.Await(func() (string, error) {
		defer lock.Close()
		return addLocked(name, runs)
	})
}

// On a starved machine, a crowd takes its turns slowly.
const (
	// changing is how long ago another process must have written for Add to wait on.
	changing = 10 * time.Second

	// lastTries is how often Add tries in any case, about three seconds, once it need not wait any more. Tries are
	// counted, because a busy machine, which delays other processes, delays them as well.
	lastTries = 500
)

// lockFile takes the lock of a file.
func lockFile(ctx context.Context, name string) (*os.File, error) {
	var turn time.Time // when another process last wrote
	last, _ := os.Stat(name)
	for tries := 0; ; {
		f, err := spool.Await(func() (*os.File, error) { return spool.TryLock(name + ".lock") })
		if f != nil || err != nil {
			return f, err
		}
		if now, err := os.Stat(name); err == nil && (last == nil || !os.SameFile(last, now)) {
			turn, last, tries = time.Now(), now, 0
		}
		if ctx.Err() != nil {
			tries++
		}
		if tries > lastTries && time.Since(turn) > changing {
			return nil, errors.New("other processes have it locked")
		}
		time.Sleep(time.Millisecond + rand.N(10*time.Millisecond))
	}
}

func addLocked(name string, runs []Entry) (setAside string, err error) {
	h, err := Open(name)
	if err != nil {
		return "", err
	}
	for _, e := range runs {
		if err := h.add(e); err != nil {
			return "", err
		}
	}
	if len(h.damaged) > 0 { // first, or a kill could lose them
		setAside = name + ".damaged"
		if err := appendLines(setAside, h.damaged); err != nil {
			return "", err
		}
	}
	return setAside, receipt.ReplaceFile(name, joinLines(h.lines))
}

func appendLines(name string, lines [][]byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(joinLines(lines))
	return errors.Join(err, f.Sync(), f.Close())
}

func joinLines(lines [][]byte) []byte { return append(bytes.Join(lines, []byte("\n")), '\n') }
