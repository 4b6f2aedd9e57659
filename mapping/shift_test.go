package mapping_test

import (
	"testing"
	"time"

	"github.com/spantee/spantee/mapping"
)

// TestShift moves recordings by more than a stamp may jump: all that changes is
// when everything was.
func TestShift(t *testing.T) {
	const shift = 1000 * time.Hour
	for name, in := range fixtures(t) {
		if short(name) == "cursor/absurd-stamp" { // what is absurd depends on when it is
			continue
		}
		t.Run(short(name), func(t *testing.T) {
			want, _ := feed{}.spans(t, in)
			got, _ := feed{opts: mapping.Options{Shift: shift}}.spans(t, in)
			if len(got) != len(want) {
				t.Fatalf("%d spans, want %d", len(got), len(want))
			}
			for i, s := range got {
				start := time.Duration(s.StartTimeUnixNano - want[i].StartTimeUnixNano)
				end := time.Duration(s.EndTimeUnixNano - want[i].EndTimeUnixNano)
				if s.Name != want[i].Name || (start-shift).Abs() > time.Millisecond || (end-shift).Abs() > time.Millisecond {
					t.Errorf("%s starts %v and ends %v later, want %s and %v", s.Name, start, end, want[i].Name, shift)
				}
			}
		})
	}
}
