package agent

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkDecode reads the fixtures of each agent, over and over.
func BenchmarkDecode(b *testing.B) {
	for _, a := range Agents {
		files, err := filepath.Glob("../../testdata/" + a.Flag + "/*.jsonl")
		if err != nil {
			b.Fatal(err)
		}
		for _, file := range files {
			stream, err := os.ReadFile(file)
			if err != nil {
				b.Fatal(err)
			}
			lines := bytes.Split(bytes.TrimSpace(stream), []byte("\n"))
			b.Run(a.Flag+"/"+filepath.Base(file), func(b *testing.B) {
				decoder := a.New()
				var events []Event
				b.SetBytes(int64(len(stream)))
				b.ReportAllocs()
				for b.Loop() {
					for _, line := range lines {
						events = decoder.Decode(Line{Text: line, Arrival: 1}, events[:0])
					}
				}
				b.ReportMetric(float64(len(lines)), "lines/op")
			})
		}
	}
}
