package follow

import (
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/sessionlog"
)

// A sessionTail is a Tailer with the session of its first log.
type sessionTail struct {
	tail
	*Session
	spans *int // that were handed over
}

func newSessionTail(t *testing.T) sessionTail {
	dir := t.TempDir()
	return sessionTail{newTail(t, start(t, newWatcher(), dir, nil), dir), nil, new(int)}
}

// take reads what the logs have got.
func (t *sessionTail) take() {
	t.Helper()
	t.Wait(t.Context())
	for f, err := range t.Changed() {
		if err != nil {
			t.Fatal(err)
		}
		if t.Session == nil {
			t.Session = t.Tailer.Session(&Log{}, Claims{})
			t.AddFile(f)
			t.wake()
		}
	}
	if err := t.Read(t.count); err != nil {
		t.Fatal(err)
	}
}

func (t *sessionTail) wake() {
	t.Helper()
	again := func(outputs iter.Seq[mapping.Output]) {
		for range outputs {
			continue
		}
	}
	if err := t.Wake(mapping.Options{Source: mapping.Followed}, again); err != nil {
		t.Fatal(err)
	}
}

func (t *sessionTail) count(outputs iter.Seq[mapping.Output]) {
	for out := range outputs {
		if out.Span != nil {
			*t.spans++
		}
	}
}

func row(typ, message string) string {
	return fmt.Sprintf(`{"type":%q,"message":%s,"sessionId":"s","uuid":"%d","isSidechain":false,"timestamp":"2026-11-03T10:00:00.000Z"}`+"\n", typ, message, time.Now().UnixNano())
}

func prompt(text string) string {
	return row("user", fmt.Sprintf(`{"role":"user","content":%q}`, text))
}

func answer(id string) string {
	return row("assistant", fmt.Sprintf(`{"role":"assistant","id":%q,"content":[{"type":"text","text":"done"}],"stop_reason":"end_turn"}`, id))
}

func TestAHalfLineWaits(t *testing.T) {
	s := newSessionTail(t)
	first, second := prompt("one"), answer("m1")
	s.write("a.jsonl", first+second[:len(second)/2])
	s.take()
	if got := s.Files[0].Offset; got != int64(len(first)) {
		t.Errorf("read %d bytes, want %d", got, len(first))
	}
	s.write("a.jsonl", second[len(second)/2:])
	s.take()
	if got := s.Files[0].Offset; got != int64(len(first+second)) || s.HasGrown() {
		t.Errorf("read %d bytes, want %d", got, len(first+second))
	}
}

// A session is read in parts, also in the middle of a line.
func TestLongLines(t *testing.T) {
	s := newSessionTail(t)
	s.write("a.jsonl", prompt("one")+prompt(strings.Repeat("x", 3*maxRead))+answer("m1"))
	reads := 0
	for s.take(); s.HasGrown(); reads++ {
		if err := s.Read(s.count); err != nil {
			t.Fatal(err)
		}
	}
	s.count(s.Take(Step{Pause: true}))
	if *s.spans != 4 || reads < 3 { // two runs, each with a model call
		t.Errorf("%d spans after %d reads", *s.spans, reads)
	}
	if len(s.Steps) != 1 {
		t.Errorf("steps: %+v", s.Steps)
	}
}

// What has led to the end of a run is not kept.
func TestStepsArePruned(t *testing.T) {
	s := newSessionTail(t)
	for i := range 10 {
		s.write("a.jsonl", prompt("go"))
		s.take()
		s.Add(Step{Pause: true})
		s.count(s.Take(Step{Pause: true}))
		s.write("a.jsonl", answer(fmt.Sprint("m", i)))
		s.take()
		s.Add(Step{Pause: true})
		s.count(s.Take(Step{Pause: true}))
		if s.Busy() {
			t.Fatal("the run has not ended")
		}
		s.Prune()
	}
	if len(s.Steps) > 3 {
		t.Errorf("steps: %+v", s.Steps)
	}
	s.Sleep()
	s.wake()
	if s.Busy() {
		t.Error("a run is open after mapping again")
	}
	s.write("a.jsonl", prompt("again")+answer("last"))
	*s.spans = 0
	s.take()
	s.count(s.Take(Step{Pause: true}))
	if *s.spans != 2 {
		t.Errorf("%d spans of the last run", *s.spans)
	}
}

// A file is described once it shows which session it belongs to.
func TestDescribe(t *testing.T) {
	dir := t.TempDir()
	tail := newTail(t, start(t, newWatcher(), dir, nil), dir)
	header := `{"type":"session","version":3,"id":"2","timestamp":"2026-11-03T10:00:00.000Z","cwd":"/","parentSession":"x/1.jsonl"}` + "\n"
	message := `{"type":"message","id":"a","parentId":null,"timestamp":"2026-11-03T10:00:01.000Z","message":{"role":"user","content":"go","timestamp":1793700001000}}` + "\n"
	claude := prompt("go")
	for _, file := range []struct {
		name string
		text []string // until it is described
		kin  string
	}{
		{"2.jsonl", []string{header, message[:90], message[90:]}, "[pi 2.jsonl pi 2 pi 1.jsonl]"},
		{"s.jsonl", []string{strings.ReplaceAll(claude, `"user"`, `"attachment"`), claude[:50], claude[50:]}, ""},
		{"none.jsonl", []string{"{}\n", strings.Repeat("{}\n", maxHead)}, "[]"},
		{"long.jsonl", []string{strings.Replace(claude, `"user"`, `"attachment"`, 1), strings.Replace(claude, "go", strings.Repeat("x", 3*sessionlog.HeadSize), 1)}, ""},
	} {
		for i, text := range file.text {
			tail.write(file.name, text)
			f, err := tail.identify(tail.path(file.name))
			if err != nil {
				t.Fatal(err)
			}
			log, ok := tail.Describe(f)
			if last := i == len(file.text)-1; ok != last || last && file.kin != "" && fmt.Sprint(log.Kin) != file.kin {
				t.Errorf("%s: %v %v after %d parts", file.name, ok, log.Kin, i+1)
			}
		}
	}
}
