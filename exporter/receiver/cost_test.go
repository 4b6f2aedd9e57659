package receiver

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Messages that cost does not know would count as their encodings.
func TestNestedMessages(t *testing.T) {
	seen := map[messageKind]bool{}
	var check func(messageKind, protoreflect.MessageDescriptor)
	check = func(k messageKind, d protoreflect.MessageDescriptor) {
		if seen[k] {
			return
		}
		seen[k] = true
		for i := range d.Fields().Len() {
			f := d.Fields().Get(i)
			inner, known := nested[k][f.Number()]
			if known != (f.Kind() == protoreflect.MessageKind) {
				t.Errorf("%s: known %v", f.FullName(), known)
			}
			if known {
				check(inner, f.Message())
			}
		}
	}
	check(exportRequest, (*tracepb.TracesData)(nil).ProtoReflect().Descriptor())
	if len(seen) != len(nested) {
		t.Errorf("%d messages, want %d", len(seen), len(nested))
	}
}

// A request that would take too much memory once decoded is refused, whatever takes it.
func TestMaxCost(t *testing.T) {
	r, err := Start(Config{MaxCost: 100 << 10, Handle: func(context.Context, []*tracepb.ResourceSpans) (none Rejected, err error) { return none, nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	list := func(format, element string, n int) []byte {
		return fmt.Appendf(nil, format, bytes.Repeat([]byte(","+element), n)[1:])
	}
	for name, request := range map[string]func(n int) []byte{
		"entities": func(n int) []byte { return list(`{"resourceSpans":[{"resource":{"entityRefs":[%s]}}]}`, `{}`, n) },
		"keys": func(n int) []byte {
			return list(`{"resourceSpans":[{"resource":{"entityRefs":[{"idKeys":[%s]}]}}]}`, `""`, n)
		},
		"events": func(n int) []byte {
			return list(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"events":[%s]}]}]}]}`, `{}`, n)
		},
		"resources": func(n int) []byte { return list(`{"resourceSpans":[%s]}`, `{}`, n) },
	} {
		if code, answer := post(t, r, request(100), typeJSON); code != http.StatusOK {
			t.Errorf("100 %s: %d %s", name, code, answer)
		}
		if code, answer := post(t, r, request(10_000), typeJSON); code != http.StatusBadRequest {
			t.Errorf("10,000 %s: %d %s", name, code, answer)
		}
	}
	data := &tracepb.TracesData{ResourceSpans: make([]*tracepb.ResourceSpans, 10_000)}
	for i := range data.ResourceSpans {
		data.ResourceSpans[i] = new(tracepb.ResourceSpans)
	}
	b, err := proto.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	if code, answer := post(t, r, b, typeProtobuf); code != http.StatusBadRequest {
		t.Errorf("protobuf: %d %s", code, answer)
	}
}
