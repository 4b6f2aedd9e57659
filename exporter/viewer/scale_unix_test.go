//go:build unix

package viewer

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// processor is the processor time of this process.
func processor(t *testing.T) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// Whatever a store has, it takes little memory, and finds what is there. The pace is only
// printed.
func TestStoreScales(t *testing.T) {
	sessions, err := strconv.Atoi(os.Getenv("SPANTEE_SESSIONS"))
	if err != nil {
		t.Skip("measures the memory of its process: set SPANTEE_SESSIONS, and run it alone")
	}
	path := newPath(t)
	s := openStore(t, path)
	requests := make(chan []*tracepb.ResourceSpans, 10)
	go func() {
		for n := 0; n < sessions; n += 50 {
			var request []*tracepb.ResourceSpans
			for i := range 50 {
				request = append(request, nth(n+i, 9)...)
			}
			requests <- request
		}
		close(requests)
	}()
	begin, used := time.Now(), processor(t)
	for request := range requests {
		s.Add(request)
	}
	received, adding := time.Since(begin), processor(t)-used
	s.Add(nth(sessions, 10_000))
	search := func() time.Duration { // it does not wait for the index, and says what is not there yet
		begin := time.Now()
		if l := s.List(Query{Search: "failing", Limit: 100}); l.Total != sessions+1 || l.Unindexed == 0 || l.Matching > l.Total {
			t.Errorf("%d of %d found, %d not indexed", l.Matching, l.Total, l.Unindexed)
		}
		return time.Since(begin)
	}
	first, slowest := search(), time.Duration(0)
	indexed := make(chan error)
	go func() { indexed <- s.index(func() bool { return false }) }()
	for range 20 {
		slowest = max(slowest, search())
	}
	t.Logf("pace: first search %v, slowest of 20 while indexing %v", first, slowest)
	s.ok(<-indexed)
	t.Logf("pace: %d spans: received %.0f a second and processor %v, indexed after %v, %v of processor time", sessions*10, float64(sessions*10)/received.Seconds(), adding, time.Since(begin), processor(t)-used)
	s.Close()

	begin = time.Now()
	s = openStore(t, path)
	defer s.Close()
	t.Logf("pace: start: %v", time.Since(begin))
	for name, q := range map[string]Query{
		"list": {}, "sorted": {Sort: "duration"}, "page": {Offset: sessions / 2}, "agent": {Agent: "cursor-agent"}, "failed": {Failed: true},
		"rare": {Search: "number" + strconv.Itoa(sessions/2)}, "common": {Search: "failing"}, "prefix": {Search: "fail"}, "phrase": {Search: `"failing test"`}, "field": {Search: "tool:shell agent:cursor"},
		"two": {Search: "package17 Test5"},
	} {
		q.Limit = 100
		for range 2 {
			begin, used := time.Now(), processor(t)
			l := s.List(q)
			if want := map[string]int{"rare": 1, "two": l.Matching, "failed": 0}; l.Total != sessions+1 || l.Matching != cmp.Or(want[name], map[bool]int{true: l.Total}[name != "failed"]) {
				t.Errorf("%s: %d of %d", name, l.Matching, l.Total)
			}
			t.Logf("pace: %s: %d of %d in %v, %v of processor time", name, l.Matching, l.Total, time.Since(begin), processor(t)-used)
		}
	}
	begin, used = time.Now(), processor(t)
	o, _ := s.Overview(idOf(span(sessions+1, 1, 0, "", 0, 0)), 0)
	for o.More {
		o, _ = s.Overview(idOf(span(sessions+1, 1, 0, "", 0, 0)), o.Seq)
	}
	if o.Session.Spans != 10_001 {
		t.Errorf("%d spans", o.Session.Spans)
	}
	t.Logf("pace: a session of 10,000 spans: %v, %v of processor time", time.Since(begin), processor(t)-used)
	for _, q := range []RunsQuery{{By: "day"}, {By: "agent"}, {By: "day", Query: Query{Since: 1}}, {By: "day", Query: Query{Search: "failing"}}} {
		begin, used = time.Now(), processor(t)
		if r := s.Runs(q); r.All.Runs != sessions+1 && q.Since == 0 {
			t.Errorf("%d runs", r.All.Runs)
		}
		t.Logf("pace: runs by %s, since %d, %q: %v, %v of processor time", q.By, q.Since, q.Search, time.Since(begin), processor(t)-used)
	}
	status, err := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		var most int // KiB
		if v, ok := strings.CutPrefix(line, "VmHWM:"); err == nil && ok {
			if _, err := fmt.Sscan(v, &most); err != nil || most > 150<<10 {
				t.Errorf("%d KiB of memory, %v", most, err)
			}
			t.Logf("pace: at most %d MiB of memory", most>>10)
		}
	}
}
