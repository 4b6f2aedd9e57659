package runs

import (
	"math"

	"github.com/spantee/spantee/mapping/semconv"
)

// A Doubt is a fact that makes a run's success doubtful, and how often it holds.
type Doubt struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// doubtCounts are the doubts by name, each with the attribute that says how often it holds,
// "" if it holds once.
var doubtCounts = map[string]string{
	semconv.DoubtBackground:    semconv.RunningTasks,
	semconv.DoubtDenied:        semconv.DeniedCalls,
	semconv.DoubtEmptyAnswer:   "",
	semconv.DoubtEndsOnTool:    "",
	semconv.DoubtCommandFailed: "",
	semconv.DoubtNoWork:        "",
	semconv.DoubtOpenCalls:     semconv.OpenCalls,
	semconv.DoubtUnknownLines:  semconv.UnknownLines,
}

// Doubts returns the doubts that a root states, sorted by their names. It leaves out what
// is none.
func (s *Span) Doubts() (doubts []Doubt) {
	for _, name := range s.List(semconv.Doubts) {
		if key, known := doubtCounts[name]; known && len(doubts) < len(doubtCounts) {
			count := min(max(s.Int(key), 1), math.MaxInt32)
			doubts = append(doubts, Doubt{name, int(count)})
		}
	}
	return doubts
}
