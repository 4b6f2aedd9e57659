package runs

import (
	"math"
	"strconv"
	"strings"

	"github.com/spantee/spantee/mapping/semconv"
)

// A Doubt is a fact that makes a run's success doubtful, and how often it holds.
type Doubt struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// doubtful are the doubts by name, each with the attribute that says how often it holds, ""
// if it holds once in a run, and with words for one and for N.
var doubtful = map[string]struct{ count, one, several string }{
	semconv.DoubtBackground:    {semconv.RunningTasks, "1 task still running in the background", "N tasks still running in the background"},
	semconv.DoubtBadLines:      {semconv.CutLines, "1 line that is a part of an event", "N lines that are parts of events"},
	semconv.DoubtDenied:        {semconv.DeniedCalls, "1 call refused", "N calls refused"},
	semconv.DoubtEmptyAnswer:   {"", "the final answer is empty", "N final answers are empty"},
	semconv.DoubtEndsOnTool:    {"", "no answer after the last tool call", "N runs without an answer after the last tool call"},
	semconv.DoubtCommandFailed: {"", "the last command failed", "the last command failed in N runs"},
	semconv.DoubtNoEnd:         {"", "no line says that the last step ended", "in N runs no line says that the last step ended"},
	semconv.DoubtNoWork:        {"", "no tool call and no answer", "N runs without a tool call or an answer"},
	semconv.DoubtOpenCalls:     {semconv.OpenCalls, "1 call never ended", "N calls never ended"},
	semconv.DoubtUnknownLines:  {semconv.UnknownLines, "1 line of an unknown type", "N lines of unknown types"},
}

// Words says the doubt in words.
func (d Doubt) Words() string {
	if d.Count > 1 {
		return strings.Replace(doubtful[d.Name].several, "N", strconv.Itoa(d.Count), 1)
	}
	return doubtful[d.Name].one
}

// String says the doubt in words, with its name for grep.
func (d Doubt) String() string { return d.Words() + " (" + d.Name + ")" }

// Doubts returns the doubts that a root states, sorted by their names. It leaves out what
// is none.
func (s *Span) Doubts() (doubts []Doubt) {
	for _, name := range s.List(semconv.Doubts) {
		if d, known := doubtful[name]; known && len(doubts) < len(doubtful) {
			count := min(max(s.Int(d.count), 1), math.MaxInt32)
			doubts = append(doubts, Doubt{name, int(count)})
		}
	}
	return doubts
}
