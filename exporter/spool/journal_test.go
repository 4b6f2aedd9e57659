package spool

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// A testJournal collects the spans of a piece.
type testJournal struct {
	*Journal
	piece []*Span
	ended []*Span // of all pieces
}

func newJournal(t testing.TB, s Spool) *testJournal {
	t.Helper()
	return &testJournal{Journal: s.NewJournal(here)}
}

// end adds spans to the current piece.
func end(t testing.TB, j *testJournal, spans ...*tracepb.Span) {
	t.Helper()
	j.piece = append(j.piece, encodedSpans(t, spans...)...)
}

// commit ends a piece.
func commit(t testing.TB, j *testJournal, spans ...*tracepb.Span) {
	t.Helper()
	end(t, j, spans...)
	j.Append(background, j.takePiece())
	must(t, j.Err())
}

// checkpoint does the same for a piece after which spans are open.
func checkpoint(t testing.TB, j *testJournal, open ...*tracepb.Span) {
	t.Helper()
	must(t, j.save(encodedSpans(t, open...)))
}

func (j *testJournal) save(open []*Span) error {
	return j.Checkpoint(background, j.takePiece(), open)
}

func (j *testJournal) takePiece() []*Span {
	piece := j.piece
	j.piece, j.ended = nil, append(j.ended, piece...)
	return piece
}

// done says that the spans from, to but not including another, were delivered.
func (j *testJournal) done(from, to int) { j.Done(background, j.ended[from:to]) }

func encodedSpans(t testing.TB, spans ...*tracepb.Span) (all []*Span) {
	t.Helper()
	of := originOf(t)
	for _, span := range spans {
		all = append(all, &Span{Wire: wire(t, span), Of: of})
	}
	return all
}

// die does to a journal what SIGKILL does: its file stays, its lock goes.
func die(t testing.TB, j *testJournal) {
	t.Helper()
	path := j.file.path()
	b, err := os.ReadFile(path)
	must(t, err)
	j.Close(background, "")
	must(t, os.WriteFile(path, b, 0o600))
	must(t, os.WriteFile(j.file.base+lockExt, nil, 0o600))
}

func wantRecovered(t testing.TB, s Spool, spans int) {
	t.Helper()
	if n, err := s.Recover(background); n != spans || err != nil {
		t.Errorf("recovered %d spans, %v, want %d", n, err, spans)
	}
}

func TestAJournalIsRecoveredFromTheDead(t *testing.T) {
	s := newSpool(t, 1<<20)
	j := newJournal(t, s)
	end(t, j, spansOf("a", "b")...)
	checkpoint(t, j, spanOf("root"))
	checkpoint(t, j, spansOf("chat", "root")...)
	commit(t, j, spanOf("tool"))

	wantRecovered(t, s, 0) // it lives
	if entries, err := s.List(background); err != nil || len(entries) != 1 || entries[0].State != Open || entries[0].PID != os.Getpid() || entries[0].Destination != here {
		t.Errorf("entries %+v, %v", entries, err)
	}
	for _, f := range filesOf(t, s.Dir) {
		if info, err := os.Stat(filepath.Join(s.Dir, f)); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", f, info.Mode(), err)
		}
	}
	die(t, j)
	want(t, states(t, s), "killed 5")
	wantRecovered(t, s, 5)
	wantRecovered(t, s, 0)
	want(t, drained(t, s, here), "a", "b", "tool", "chat", "root")
	if left, _ := os.ReadDir(filepath.Join(s.Dir, journalDir)); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// The log of another version is set aside, and its spans are counted.
func TestALogOfAnotherVersionIsSetAside(t *testing.T) {
	s := newSpool(t, 1<<20)
	note, err := encodeNote(Note{Destination: here, Format: logFormat - 1})
	must(t, err)
	path := filepath.Join(s.Dir, "old")
	_, err = s.makeDir()
	must(t, err)
	must(t, os.WriteFile(path, note, 0o600))
	must(t, s.enqueue(path, here, newName(Request{Spans: 3}, len(note), "")))
	o := openBox(t, s, here)
	defer o.Close()
	if c, corrupt, err := nextOf(o); c != nil || corrupt != 3 || err != nil {
		t.Errorf("%+v, %d spans are corrupt, %v", c, corrupt, err)
	}
	want(t, states(t, s), "corrupt 3")
}

// What a piece adds is there whole or not at all.
func TestAPieceIsNotWrittenBeforeItEnds(t *testing.T) {
	s := newSpool(t, 1<<20)
	j := newJournal(t, s)
	checkpoint(t, j, spanOf("old"))
	end(t, j, spanOf("tool"))
	j.done(0, 0) // which has nothing to write
	die(t, j)
	wantRecovered(t, s, 1)
	want(t, drained(t, s, here), "old")
}

func TestWhatIsDeliveredIsNotRecovered(t *testing.T) {
	s := newSpool(t, 1<<20)
	j := newJournal(t, s)
	checkpoint(t, j, spansOf("chat", "root")...)
	commit(t, j, spansOf("a", "b", "c", "chat", "d")...)
	j.done(1, 2)
	j.done(3, 4)
	die(t, j)
	wantRecovered(t, s, 4)
	want(t, drained(t, s, here), "a", "c", "d", "root") // and the chat is not open again
}

// In a log that is written anew, the spans have other numbers.
func TestWhatIsDeliveredAfterANewLog(t *testing.T) {
	s := newSpool(t, 1<<20)
	j := newJournal(t, s)
	checkpoint(t, j)
	commit(t, j, spansOf("a", "b", "c")...)
	j.done(0, 1)
	j.size = 1 << 30
	end(t, j, spanOf("d"))
	checkpoint(t, j)
	commit(t, j, spanOf("e"))
	j.done(2, 4)
	die(t, j)
	wantRecovered(t, s, 2)
	want(t, drained(t, s, here), "b", "e")
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
		before, open, after []*tracepb.Span
		want                map[string]uint64 // when they end
	}{
		"afterwards":             {nil, []*tracepb.Span{tool, root}, []*tracepb.Span{ended}, map[string]uint64{"tool": 20, "root": 20}},
		"a child nobody knew of": {nil, []*tracepb.Span{tool, root}, []*tracepb.Span{late}, map[string]uint64{"tool": 2, "root": 30, "late": 30}},
		"the root as well":       {nil, []*tracepb.Span{tool, root}, []*tracepb.Span{ended, rootEnded}, map[string]uint64{"tool": 20, "root": 40}},
		"before":                 {[]*tracepb.Span{ended}, []*tracepb.Span{tool, root}, nil, map[string]uint64{"tool": 20, "root": 20}},
		"in one that has ended":  {[]*tracepb.Span{rootEnded}, nil, []*tracepb.Span{late}, map[string]uint64{"root": 40, "late": 30}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSpool(t, 1<<20)
			j := newJournal(t, s)
			end(t, j, tt.before...)
			checkpoint(t, j, tt.open...)
			commit(t, j, tt.after...)
			die(t, j)
			wantRecovered(t, s, len(tt.want))
			o := openBox(t, s, here)
			defer o.Close()
			c, err := o.Next(background)
			if err != nil {
				t.Fatal(err)
			}
			for _, span := range decode(c.Spans) {
				if span.EndTimeUnixNano != tt.want[span.Name] {
					t.Errorf("%s ends at %d, want %d", span.Name, span.EndTimeUnixNano, tt.want[span.Name])
				}
			}
			if r := Requests(c.Spans); len(r) != 1 || !r[0][0].Of.equal(originOf(t)) {
				t.Errorf("%d requests", len(r))
			}
		})
	}
}

// A checkpoint after a change of ids supersedes what was open by the old ones,
// and so does the log that is written anew.
func TestOldIdsAreSuperseded(t *testing.T) {
	for _, compacted := range []bool{false, true} {
		s := newSpool(t, 1<<20)
		j := newJournal(t, s)
		checkpoint(t, j, spansOf("old chat", "old root")...)
		end(t, j, spanOf("tool"))
		if compacted {
			j.size = 1 << 30
		}
		checkpoint(t, j, spansOf("new chat", "new root")...)
		die(t, j)
		wantRecovered(t, s, 3)
		want(t, drained(t, s, here), "tool", "new chat", "new root")
	}
}

func TestALogIsWrittenAnewWhenItHasGrown(t *testing.T) {
	s := newSpool(t, 64<<20)
	j := newJournal(t, s)
	long := spanOf("long")
	long.TraceState = string(make([]byte, 10_000))
	checkpoint(t, j, long)
	most := int64(0)
	for i := range 300 {
		commit(t, j, spanOf("gone"))
		j.done(i, i+1)
		checkpoint(t, j, long)
		info, err := os.Stat(j.file.path())
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, info.Size())
	}
	if most < slack || most > slack+40_000 { // 3 MB were written in all
		t.Errorf("the log had %d bytes", most)
	}
	commit(t, j, spanOf("last"))
	die(t, j)
	wantRecovered(t, s, 2)
	want(t, drained(t, s, here), "last", "long")
}

func TestCloseKeepsAJournal(t *testing.T) {
	for name, tt := range map[string]struct {
		use  func(*testJournal)
		keep bool
		kept bool
		left int
	}{
		"all delivered": {func(j *testJournal) { end(t, j, spanOf("a")); checkpoint(t, j) }, false, false, 0},
		"some are not":  {func(j *testJournal) { end(t, j, spanOf("a")); checkpoint(t, j) }, true, true, 1},
		"never written": {func(*testJournal) {}, true, false, 0},
		"no checkpoint": {func(j *testJournal) { end(t, j, spanOf("a")); j.Append(background, j.takePiece()) }, true, true, 1},
		"a write failed": {func(j *testJournal) {
			end(t, j, spanOf("a"))
			checkpoint(t, j)
			j.file.f.Close()
			end(t, j, spanOf("b"))
			j.Append(background, j.takePiece())
			if j.Err() == nil {
				t.Error("nobody was told")
			}
		}, true, true, 2},
		"and the next did not": {func(j *testJournal) {
			end(t, j, spanOf("a"))
			checkpoint(t, j)
			j.file.f.Close()
			end(t, j, spanOf("b"))
			j.Append(background, j.takePiece())
			if j.Err() == nil {
				t.Error("nobody was told")
			}
			end(t, j, spanOf("c"))
			must(t, j.save(nil))
		}, true, true, 3},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSpool(t, 1<<20)
			j := newJournal(t, s)
			tt.use(j)
			reason := ""
			if tt.keep {
				reason = "the collector hangs"
			}
			if kept := j.Close(background, reason); kept != tt.kept {
				t.Errorf("kept %v, want %v", kept, tt.kept)
			}
			checkpoint(t, j, spanOf("late"))
			commit(t, j, spanOf("late"))
			recovered := tt.left // a log that a process has closed needs no recovery
			if tt.kept {
				recovered = 0
			}
			wantRecovered(t, s, recovered)
			if left := len(drained(t, s, here)); left != tt.left {
				t.Errorf("%d spans are left, want %d", left, tt.left)
			}
			if left, _ := os.ReadDir(filepath.Join(s.Dir, journalDir)); len(left) > 0 {
				t.Errorf("left %v", left)
			}
		})
	}
}

// A power cut leaves any part of a log, a kill a part of its last frame.
func TestATornJournal(t *testing.T) {
	s := newSpool(t, 1<<20)
	j := newJournal(t, s)
	end(t, j, spansOf("a", "b")...)
	checkpoint(t, j, spansOf("chat", "root")...)
	read := func() []byte {
		b, err := os.ReadFile(j.file.path())
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	frames := []int{len(read())}
	wants := [][]string{{"a", "b", "chat", "root"}, {"a", "b", "tool", "chat", "root"}, {"a", "b", "tool", "chat", "c", "root"}, {"a", "b", "tool", "chat", "c", "new"}}
	commit(t, j, spanOf("tool"))
	frames = append(frames, len(read()))
	commit(t, j, spansOf("chat", "c")...)
	frames = append(frames, len(read()))
	checkpoint(t, j, spanOf("new"))
	whole := read()
	frames = append(frames, len(whole))
	die(t, j)
	for cut := range len(whole) + 1 {
		var expected []string
		for i, end := range frames {
			if cut >= end {
				expected = wants[i]
			}
		}
		l := new(log)
		if err := l.decode(whole[:cut]); err != nil && expected != nil {
			t.Errorf("of %d bytes: %v", cut, err)
		}
		if names := namesIn(l.spans()...); !slices.Equal(names, expected) {
			t.Errorf("of %d bytes: %q, want %q", cut, names, expected)
		}
	}
	for _, cut := range []int{0, 1, 10, 50, frames[0] - 1, frames[0], frames[0] + 1, len(whole) - 1} {
		s := newSpool(t, 1<<20)
		dir, err := s.makeDir(journalDir)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "123-abc"+waitingExt), whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recover(background); err != nil {
			t.Error(err)
		}
		var left []string
		entries, err := os.ReadDir(dir)
		must(t, err)
		for _, e := range entries {
			left = append(left, e.Name())
		}
		if cut <= 50 { // in its note
			want(t, left, corruptDir)
		} else {
			want(t, left)
		}
	}
}
