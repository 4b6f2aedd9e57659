package viewer

import (
	"strings"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/exporter/runs"
)

const keyService = "service.name"

// end returns the end of a span, which is never before its start, whatever the
// sender's clock did.
func end(s *tracepb.Span) uint64 { return max(s.GetStartTimeUnixNano(), s.GetEndTimeUnixNano()) }

func value(attrs []*commonpb.KeyValue, key string) *commonpb.AnyValue {
	for _, kv := range attrs {
		if kv.GetKey() == key {
			return kv.GetValue()
		}
	}
	return nil
}

func text(attrs []*commonpb.KeyValue, key string) string { return value(attrs, key).GetStringValue() }

// microseconds converts an instant: JSON and JavaScript hold microseconds since
// 1970 exactly.
func microseconds(nanos uint64) int64 { return int64(nanos / 1000) }

const (
	// maxDetail is more than a row of the page can show.
	maxDetail = 300

	// maxAnswer bounds an answer to the page, in bytes of text.
	maxAnswer = 4 << 20
)

// cutText shortens s to about limit bytes, with a mark where it was cut.
func cutText(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

// detail returns what a tool call was about, on one line, and whether it is a path.
func detail(s *runs.Span) (line string, isPath bool) {
	line, isPath = s.Detail()
	return cutText(line, maxDetail), isPath
}
