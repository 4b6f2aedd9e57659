package mapping_test

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/mapping"
)

// TestOpenReplay asks for the open spans of recordings without timestamps, whose times
// all change when a run ends.
func TestOpenReplay(t *testing.T) {
	stamps := regexp.MustCompile(`,"(timestamp_ms|timestamp)":("[^"]*"|\d+)`)
	for name, in := range fixtures(t) {
		agent, _, _ := strings.Cut(short(name), "/")
		var ended [2][]*tracepb.Span
		for ask := range ended {
			m, err := mapping.New(mapping.Options{
				Agent: agent, Replay: now, MaxSpanEvents: 100,
				Now:  func() time.Time { return now },
				Emit: func(b []byte, _ string) { ended[ask] = append(ended[ask], decode(t, b)) },
			})
			if err != nil {
				t.Fatal(err)
			}
			for line := range bytes.Lines(stamps.ReplaceAll(in, nil)) {
				m.Write(line)
				if ask == 1 {
					openSpans(t, m)
				}
			}
			m.Close(false)
		}
		if !bytes.Equal(encode(t, ended[0]), encode(t, ended[1])) {
			t.Errorf("%s: other spans end if open ones are asked for", filepath.Base(name))
		}
	}
}
