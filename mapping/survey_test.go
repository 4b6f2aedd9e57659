package mapping_test

import (
	"strings"
	"testing"
	"time"

	"github.com/spantee/spantee/mapping"
)

// TestEndNow moves recordings by more than a stamp may jump: all that changes is when
// everything was, and that the last run ends now.
func TestEndNow(t *testing.T) {
	now := recorded.Add(1000 * time.Hour)
	for name, in := range fixtures(t) {
		if short(name) == "cursor/absurd-stamp" { // what is absurd depends on when it is
			continue
		}
		t.Run(short(name), func(t *testing.T) {
			want, _ := feed{}.spans(t, in)
			got, _ := feed{opts: mapping.Options{EndNow: true}, start: now}.spans(t, in)
			if len(got) != len(want) {
				t.Fatalf("%d spans, want %d", len(got), len(want))
			}
			var shift time.Duration
			var end uint64
			for i, s := range got {
				if shift == 0 {
					shift = time.Duration(s.StartTimeUnixNano - want[i].StartTimeUnixNano)
				}
				starts := time.Duration(s.StartTimeUnixNano - want[i].StartTimeUnixNano)
				ends := time.Duration(s.EndTimeUnixNano - want[i].EndTimeUnixNano)
				if s.Name != want[i].Name || (starts-shift).Abs() > time.Millisecond || (ends-shift).Abs() > time.Millisecond {
					t.Errorf("%s starts %v and ends %v later, want %s and %v", s.Name, starts, ends, want[i].Name, shift)
				}
				if strings.HasPrefix(s.Name, "invoke_agent") {
					end = max(end, s.EndTimeUnixNano)
				}
			}
			if late := time.Unix(0, int64(end)).Sub(now); len(got) > 0 && late.Abs() > time.Millisecond {
				t.Errorf("the last run ends %v after now", late)
			}
		})
	}
}

// When a recording was written says when the runs were that have no timestamps, and nothing
// of the others.
func TestWritten(t *testing.T) {
	const later = 10_000 * time.Hour
	for name, in := range fixtures(t) {
		before, _ := feed{}.spans(t, in)
		after, _ := feed{opts: mapping.Options{Written: recorded.Add(later)}}.spans(t, in)
		if len(before) != len(after) {
			t.Fatalf("%s: %d spans, want %d", short(name), len(after), len(before))
		}
		shifts := map[string]time.Duration{} // by trace
		for i, s := range after {
			trace := string(before[i].TraceId)
			shift := time.Duration(s.StartTimeUnixNano - before[i].StartTimeUnixNano)
			if _, known := shifts[trace]; !known {
				shifts[trace] = shift
			}
			length := s.EndTimeUnixNano - s.StartTimeUnixNano
			if s.Name != before[i].Name || shift != 0 && shift != later || shift != shifts[trace] || length != before[i].EndTimeUnixNano-before[i].StartTimeUnixNano {
				t.Errorf("%s: %s is %v later and lasts %d ns", short(name), s.Name, shift, length)
			}
		}
	}
}
