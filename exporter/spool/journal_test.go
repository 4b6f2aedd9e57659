package spool

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// die does to a journal what SIGKILL does: its file stays, its lock goes.
func die(j *Journal) {
	j.close()
	_ = j.lock.Close()
}

func checkpoint(t testing.TB, j *Journal, undelivered Request, open ...*tracepb.Span) {
	t.Helper()
	if err := j.Checkpoint(undelivered, open); err != nil {
		t.Fatal(err)
	}
}

func wantRecovered(t testing.TB, s Spool, spans int) {
	t.Helper()
	n, gaveUp, err := s.Recover()
	if n != spans || gaveUp.Others != 0 || err != nil {
		t.Errorf("recovered %d spans, gave up %d, %v, want %d", n, gaveUp, err, spans)
	}
}

func TestAJournalIsRecoveredFromTheDead(t *testing.T) {
	s := newSpool(t, 1<<20)
	j := s.NewJournal(here)
	checkpoint(t, j, requestOf(t, "old"), spanOf("root"))
	checkpoint(t, j, requestOf(t, "a", "b"), spansOf("chat", "root")...) // replaces it
	j.Append(wire(t, spanOf("tool")))

	wantRecovered(t, s, 0) // it lives
	if entries, err := s.List(); err != nil || len(entries) != 1 || entries[0].State != Open || entries[0].PID != os.Getpid() || entries[0].Destination != here {
		t.Errorf("entries %+v, %v", entries, err)
	}
	for _, f := range filesOf(t, s.Dir) {
		if info, err := os.Stat(filepath.Join(s.Dir, f)); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", f, info.Mode(), err)
		}
	}
	die(j)
	wantRecovered(t, s, 5)
	wantRecovered(t, s, 0)
	want(t, drained(t, s, here), "a", "b", "chat", "root", "tool")
	if left, _ := os.ReadDir(filepath.Join(s.Dir, openDir)); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// A span that has ended since the checkpoint is as it ended.
func TestWhatHasEndedReplacesWhatWasOpen(t *testing.T) {
	tool, root := spanOf("tool"), spanOf("root")
	ended, late := spanOf("tool"), spanOf("late")
	for _, span := range []*tracepb.Span{ended, late} {
		span.ParentSpanId = root.SpanId
	}
	ended.EndTimeUnixNano, late.EndTimeUnixNano = 20, 30
	rootEnded := spanOf("root")
	rootEnded.EndTimeUnixNano = 40

	for name, tt := range map[string]struct {
		undelivered, open, appended []*tracepb.Span
		want                        map[string]uint64 // when they end
	}{
		"appended":                     {nil, []*tracepb.Span{tool, root}, []*tracepb.Span{ended}, map[string]uint64{"tool": 20, "root": 20}},
		"a child nobody knew of":       {nil, []*tracepb.Span{tool, root}, []*tracepb.Span{late}, map[string]uint64{"tool": 2, "root": 30, "late": 30}},
		"the root as well":             {nil, []*tracepb.Span{tool, root}, []*tracepb.Span{ended, rootEnded}, map[string]uint64{"tool": 20, "root": 40}},
		"ended while it was written":   {[]*tracepb.Span{ended}, []*tracepb.Span{tool, root}, nil, map[string]uint64{"tool": 20, "root": 20}},
		"undelivered, and in an ended": {[]*tracepb.Span{rootEnded}, nil, []*tracepb.Span{late}, map[string]uint64{"root": 40, "late": 30}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSpool(t, 1<<20)
			j := s.NewJournal(here)
			checkpoint(t, j, encoded(t, tt.undelivered), tt.open...)
			for _, span := range tt.appended {
				j.Append(wire(t, span))
			}
			die(j)
			wantRecovered(t, s, len(tt.want))
			o := openBox(t, s, here)
			defer o.Close()
			c, _, err := o.Next()
			if err != nil {
				t.Fatal(err)
			}
			rs := c.ResourceSpans[0]
			for _, span := range rs.ScopeSpans[0].Spans {
				if span.EndTimeUnixNano != tt.want[span.Name] {
					t.Errorf("%s ends at %d, want %d", span.Name, span.EndTimeUnixNano, tt.want[span.Name])
				}
			}
			if rs.Resource.GetAttributes()[0].GetKey() != "service.name" || rs.ScopeSpans[0].Scope.GetName() != "spantee" {
				t.Errorf("resource %v, scope %v", rs.Resource, rs.ScopeSpans[0].Scope)
			}
		})
	}
}

// A power cut leaves any part of a journal, a kill a part of its last span.
func TestATornJournal(t *testing.T) {
	s := newSpool(t, 1<<20)
	j := s.NewJournal(here)
	checkpoint(t, j, requestOf(t, "a", "b"), spansOf("chat", "root")...)
	whole, err := os.ReadFile(j.path(waitingExt))
	if err != nil {
		t.Fatal(err)
	}
	ends := []int{len(whole)}
	appended := []string{"tool1", "tool2", "chat2"}
	for _, name := range appended {
		j.Append(wire(t, spanOf(name)))
		if whole, err = os.ReadFile(j.path(waitingExt)); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, len(whole))
	}
	die(j)
	all := append([]string{"a", "b", "chat", "root"}, appended...)
	for cut := range len(whole) + 1 {
		_, rest, err := decodeNote(whole[:cut])
		if err != nil {
			continue
		}
		var got []string
		for _, span := range recovered(rest).ScopeSpans[0].Spans {
			got = append(got, span.Name)
		}
		least := 0
		for i, end := range ends {
			if cut >= end {
				least = 4 + i
			}
		}
		if len(got) < least || !slices.Equal(got, all[:len(got)]) {
			t.Errorf("of %d bytes %q, want %q", cut, got, all[:least])
		}
	}
	for _, cut := range []int{0, 1, 10, len(j.note) - 1, len(j.note), len(j.note) + 1, ends[0] - 1, ends[0], ends[0] + 1, len(whole) - 1} {
		s := newSpool(t, 1<<20)
		path := filepath.Join(s.Dir, openDir, "123-abc"+waitingExt)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		n, _, err := s.Recover()
		if names := drained(t, s, here); err != nil || n != len(names) || !slices.Equal(names, all[:n]) {
			t.Errorf("of %d bytes: %d, %q, %v", cut, n, names, err)
		}
		if aside := len(filesOf(t, s.Dir)); aside != map[bool]int{true: 1}[cut < len(j.note)] {
			t.Errorf("of %d bytes: %d files are left", cut, aside)
		}
	}
}

func TestCloseKeepsAJournal(t *testing.T) {
	for name, tt := range map[string]struct {
		use  func(*Journal)
		keep bool
		kept bool
		left int
	}{
		"all delivered":  {func(j *Journal) { checkpoint(t, j, requestOf(t, "a")) }, false, false, 0},
		"some are not":   {func(j *Journal) { checkpoint(t, j, requestOf(t, "a")) }, true, true, 1},
		"never written":  {func(*Journal) {}, true, false, 0},
		"only appended":  {func(j *Journal) { j.Append(wire(t, spanOf("a"))) }, true, false, 0},
		"appended first": {func(j *Journal) { j.Append(wire(t, spanOf("a"))); checkpoint(t, j, requestOf(t, "a")) }, true, true, 1},
		"an append failed": {func(j *Journal) {
			checkpoint(t, j, requestOf(t, "a"))
			j.f.Close()
			j.Append(wire(t, spanOf("b")))
		}, true, false, 1},
		"a checkpoint failed": {func(j *Journal) {
			checkpoint(t, j, requestOf(t, "a"))
			dir := j.dir
			j.dir = filepath.Join(dir, "missing")
			if j.Checkpoint(requestOf(t, "b"), nil) == nil {
				t.Error("it did not fail")
			}
			j.dir = dir
			j.Append(wire(t, spanOf("b")))
		}, true, false, 1},
		"and the next did not": {func(j *Journal) {
			checkpoint(t, j, requestOf(t, "a"))
			j.f.Close()
			j.Append(wire(t, spanOf("b")))
			checkpoint(t, j, requestOf(t, "a", "b"))
		}, true, true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSpool(t, 1<<20)
			j := s.NewJournal(here)
			tt.use(j)
			if kept := j.Close(tt.keep); kept != tt.kept {
				t.Errorf("kept %v, want %v", kept, tt.kept)
			}
			if err := j.Checkpoint(requestOf(t, "late"), nil); err != nil {
				t.Error(err)
			}
			j.Append(wire(t, spanOf("late")))
			wantRecovered(t, s, tt.left)
			if left, _ := os.ReadDir(filepath.Join(s.Dir, openDir)); len(left) > 0 {
				t.Errorf("left %v", left)
			}
		})
	}
}

func TestAppendIsWhatACheckpointWouldHave(t *testing.T) {
	s := newSpool(t, 1<<20)
	j := s.NewJournal(here)
	defer j.Close(false)
	checkpoint(t, j, Request{})
	before, err := os.ReadFile(j.path(waitingExt))
	if err != nil {
		t.Fatal(err)
	}
	span := spanOf("a")
	span.TraceState = string(bytes.Repeat([]byte("x"), 1<<20))
	j.Append(wire(t, span))
	after, err := os.ReadFile(j.path(waitingExt))
	if err != nil || !bytes.HasPrefix(after, before) {
		t.Fatal("Append did more than to append", err)
	}
	if got := recovered(after[len(before):]).ScopeSpans[0].Spans; len(got) != 1 || got[0].TraceState != span.TraceState {
		t.Errorf("%d spans", len(got))
	}
}
