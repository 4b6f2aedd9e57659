package agent

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// recorded returns the fixtures of an agent as one stream.
func recorded(t testing.TB, a *Agent) (stream []byte) {
	t.Helper()
	files, err := filepath.Glob("../../testdata/" + a.Flag + "/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatal("no fixtures of", a.Flag, err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		stream = append(append(stream, b...), '\n')
	}
	return stream
}

// TestAnyLineFirst has the lines of each agent begin anywhere, as after tail.
func TestAnyLineFirst(t *testing.T) {
	for _, a := range Agents {
		for file := range bytes.SplitSeq(recorded(t, a), []byte("\n\n")) {
			lines := bytes.Split(file, []byte("\n"))
			for first := range lines {
				d := a.New()
				for _, line := range lines[first:] {
					d.Decode(Line{Text: line, Arrival: 1}, nil)
				}
				d.Flush(0, nil)
			}
		}
	}
}

// FuzzDecoders has every decoder read any two lines: none panics, none takes
// JSON with a type for malformed, and of what is no JSON none makes a run.
func FuzzDecoders(f *testing.F) {
	for _, a := range Agents {
		last := []byte(nil)
		for line := range bytes.Lines(recorded(f, a)) {
			line = bytes.TrimRight(line, "\r\n")
			f.Add(last, line)
			last = line
		}
	}
	f.Add([]byte(`{"type":["x"]}`), []byte(`{"type":"message","message":{"content":[{"type":7,"toolRequest":[]}]},"data":[],"part":3,"item":"x"}`))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		if bytes.ContainsAny(first, "\n") || bytes.ContainsAny(second, "\n") {
			return
		}
		var object map[string]any
		valid := json.Unmarshal(second, &object) == nil && bytes.HasPrefix(second, []byte("{"))
		for _, a := range Agents {
			typ := "type"
			if a == &agy {
				typ = "event"
			}
			name, _ := object[typ].(string)
			typed := valid && name != "" && bytes.Count(second, []byte(`"`+typ+`"`)) == 1
			d := a.New()
			d.Decode(Line{Text: first, Arrival: 1}, nil)
			events := d.Decode(Line{Text: second, Arrival: 2}, nil)
			for i := range events {
				ev := &events[i]
				if ev.Kind == Malformed && typed {
					t.Errorf("%s: valid JSON is malformed", a.Flag)
				}
				if ev.Kind != Malformed && ev.Arrival == 0 && a != &cursor {
					t.Errorf("%s: an event without an arrival", a.Flag)
				}
				if u := ev.Usage; u != nil && (u.Input < 0 || u.Output < 0 || u.Cost < 0) {
					t.Errorf("%s: negative counts %+v", a.Flag, *u)
				}
			}
			d.Decode(Line{Text: second, Tail: []byte(`"}`), Arrival: 3}, nil)
			d.Flush(0, nil)
		}
	})
}

// BenchmarkDecode reads the fixtures of each agent again and again.
func BenchmarkDecode(b *testing.B) {
	for _, a := range Agents {
		b.Run(a.Flag, func(b *testing.B) {
			stream := recorded(b, a)
			var lines [][]byte
			for line := range bytes.Lines(stream) {
				lines = append(lines, bytes.TrimRight(line, "\r\n"))
			}
			d := a.New()
			var events []Event
			read := func() {
				for i := range lines {
					events = d.Decode(Line{Text: lines[i], Arrival: 1}, events[:0])
				}
			}
			b.SetBytes(int64(len(stream)))
			for b.Loop() {
				read()
			}
			b.ReportMetric(testing.AllocsPerRun(10, read)/float64(len(lines)), "allocs/line")
		})
	}
}
