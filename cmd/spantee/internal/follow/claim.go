package follow

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spantee/spantee/exporter/spool"
)

// Claims are the runs that pipes have traced. An agent writes a log of them, too, from which
// they must not be traced again. There is a file for each day, with a line for each run.
type Claims struct{ dir string }

// claimDays is how many days claims are kept.
const claimDays = 30

// ClaimsIn returns the claims in spantee's state folder.
func ClaimsIn(stateDir string) Claims { return Claims{filepath.Join(stateDir, "traced")} }

// Add claims the runs of sessions that begin within a time.
func (c Claims) Add(sessions []string, from, to time.Time) error {
	if err := spool.EnterDir(c.dir, true); err != nil {
		return err
	}
	f, info, err := spool.OpenFile(c.file(to), os.O_WRONLY|os.O_APPEND|os.O_CREATE)
	if err != nil {
		return err
	}
	defer f.Close()
	if info.Size() == 0 {
		c.prune(to)
	}
	var lines []byte
	for _, session := range sessions {
		lines = fmt.Appendf(lines, "%s %d %d\n", claimOf(session), from.UnixMilli(), to.UnixMilli())
	}
	_, err = f.Write(lines)
	return err
}

// Has reports whether a run that began at a time is claimed.
func (c Claims) Has(session string, began time.Time) bool {
	if c.dir == "" {
		return false
	}
	for _, day := range []time.Time{began, began.AddDate(0, 0, 1)} {
		f, _, err := spool.OpenFile(c.file(day), os.O_RDONLY)
		if err != nil {
			continue
		}
		lines, err := io.ReadAll(f)
		f.Close()
		if err == nil && claimed(lines, claimOf(session), began.UnixMilli()) {
			return true
		}
	}
	return false
}

func claimed(lines []byte, claim string, began int64) bool {
	for line := range bytes.Lines(lines) {
		var from, to int64
		rest, same := bytes.CutPrefix(line, []byte(claim))
		if !same {
			continue
		}
		if n, _ := fmt.Sscanf(string(rest), " %d %d", &from, &to); n == 2 && from <= began && began <= to {
			return true
		}
	}
	return false
}

// claimOf does not reveal the session's id.
func claimOf(session string) string {
	sum := sha256.Sum256([]byte(session))
	return hex.EncodeToString(sum[:16])
}

func (c Claims) file(day time.Time) string {
	return filepath.Join(c.dir, day.UTC().Format(time.DateOnly))
}

// prune removes the files of days long past.
func (c Claims) prune(now time.Time) {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return
	}
	oldest := now.UTC().AddDate(0, 0, -claimDays).Format(time.DateOnly)
	for _, e := range entries {
		if e.Name() < oldest {
			_ = os.Remove(filepath.Join(c.dir, e.Name()))
		}
	}
}
