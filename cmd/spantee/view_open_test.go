package main

import (
	"testing"
	"time"

	"github.com/spantee/spantee/exporter/viewer"
	"github.com/spantee/spantee/mapping"
)

// As long as a viewer may still be started, open spans are shown once a second. Before
// the first one, nothing wakes spantee.
func TestNothingTicksBeforeTheFirstSpan(t *testing.T) {
	feed := viewer.NewFeed("http://127.0.0.1:1", true, "spantee/test", nil, 0)
	defer feed.Close()
	tr := &tracing{options: new(options), say: new(reporter), live: true, arrival: time.Now()}
	tr.open = openSpans{feed: feed}
	var err error
	tr.mapper, err = mapping.New(mapping.Options{Agent: "cursor", Now: func() time.Time { return tr.arrival }, Emit: tr.emit})
	if err != nil {
		t.Fatal(err)
	}
	if next := tr.tick(); next != 0 {
		t.Errorf("ticks after %v, although nothing has begun", next)
	}
	tr.consume([]byte(`{"type":"system","subtype":"init","model":"GPT-5","session_id":"s"}`+"\n"), time.Now())
	if next := tr.tick(); next != time.Second {
		t.Errorf("ticks after %v while a span is open", next)
	}
}
