package mappingtest_test

import (
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/mapping/mappingtest"
)

// span makes a span of one trace; start and end are microseconds.
func span(id, parent byte, start, end uint64) *tracepb.Span {
	s := &tracepb.Span{
		TraceId: make([]byte, 16), SpanId: []byte{id, 0, 0, 0, 0, 0, 0, 0},
		StartTimeUnixNano: start * 1000, EndTimeUnixNano: end * 1000,
	}
	if parent != 0 {
		s.ParentSpanId = []byte{parent, 0, 0, 0, 0, 0, 0, 0}
	}
	return s
}

func TestCriticalPath(t *testing.T) {
	for _, test := range []struct {
		name      string
		spans     []*tracepb.Span // the first is the root
		own       []int           // of each span on the path, microseconds
		uncovered int             // of the root
	}{
		{
			"a touching sibling is passed over",
			[]*tracepb.Span{span(1, 0, 1000, 1100), span(2, 1, 1000, 1050), span(3, 1, 1050, 1100)},
			[]int{50, 0, 50},
			0,
		},
		{
			"a microsecond between them is enough",
			[]*tracepb.Span{span(1, 0, 1000, 1100), span(2, 1, 1000, 1049), span(3, 1, 1050, 1100)},
			[]int{1, 49, 50},
			1,
		},
		{
			"parallel siblings: the one that ends last",
			[]*tracepb.Span{span(1, 0, 1000, 1100), span(2, 1, 1000, 1060), span(3, 1, 1000, 1090), span(4, 1, 1092, 1100)},
			[]int{2, 0, 90, 8},
			2,
		},
		{
			"grandchildren take their parent's time",
			[]*tracepb.Span{span(1, 0, 1000, 1100), span(2, 1, 1010, 1090), span(3, 2, 1020, 1080)},
			[]int{20, 20, 60},
			20,
		},
		{
			"a child is cut to its parent, one outside is dropped with its own",
			[]*tracepb.Span{
				span(1, 0, 1000, 1100), span(2, 1, 990, 1050), span(3, 1, 1060, 1200),
				span(4, 1, 1100, 1150), span(5, 4, 1101, 1120),
			},
			[]int{10, 50, 40, 0, 0},
			10,
		},
		{
			"of two that end together, the one that started first",
			[]*tracepb.Span{span(1, 0, 1000, 1100), span(3, 1, 1040, 1100), span(2, 1, 1000, 1100)},
			[]int{0, 0, 100},
			0,
		},
		{
			"a sibling within another",
			[]*tracepb.Span{span(1, 0, 1000, 1100), span(2, 1, 1000, 1090), span(3, 1, 1010, 1020)},
			[]int{10, 90, 0},
			10,
		},
		{
			"a span of no length",
			[]*tracepb.Span{span(1, 0, 1000, 1100), span(2, 1, 1000, 1049), span(3, 1, 1050, 1050), span(4, 1, 1051, 1100)},
			[]int{2, 49, 0, 49},
			2,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := mappingtest.CriticalPath(test.spans)
			var sum time.Duration
			for i, want := range test.own {
				got := path.Of(test.spans[i])
				sum += got
				if got != time.Duration(want)*time.Microsecond {
					t.Errorf("span %d has %s of the path, want %d us", i+1, got, want)
				}
			}
			if sum != 100*time.Microsecond {
				t.Errorf("the path is %s long, want 100 us", sum)
			}
			if got := mappingtest.Uncovered(test.spans[0], test.spans); got != time.Duration(test.uncovered)*time.Microsecond {
				t.Errorf("uncovered: %s, want %d us", got, test.uncovered)
			}
		})
	}
}

// A consumer below a producer is not waited for.
func TestCriticalPathOfMessages(t *testing.T) {
	root, producer, consumer := span(1, 0, 1000, 1100), span(2, 1, 1010, 1090), span(3, 2, 1020, 1080)
	producer.Kind, consumer.Kind = tracepb.Span_SPAN_KIND_PRODUCER, tracepb.Span_SPAN_KIND_CONSUMER
	path := mappingtest.CriticalPath([]*tracepb.Span{consumer, producer, root})
	if got := path.Of(producer); got != 80*time.Microsecond {
		t.Errorf("the producer has %s of the path, want 80 us", got)
	}
	if got := path.Of(consumer); got != 0 {
		t.Errorf("the consumer has %s of the path, want none", got)
	}
	producer.Kind = tracepb.Span_SPAN_KIND_INTERNAL
	path = mappingtest.CriticalPath([]*tracepb.Span{consumer, producer, root})
	if got := path.Of(consumer); got != 60*time.Microsecond {
		t.Errorf("below another span the consumer has %s of the path, want 60 us", got)
	}
}
