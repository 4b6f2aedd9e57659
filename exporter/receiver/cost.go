package receiver

import (
	"errors"
	"unicode/utf8"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/spantee/spantee/exporter/internal/field"
)

// A decoded protobuf message takes more memory than its encoding: an empty event is
// two bytes on the wire, and a hundred once decoded. So the cost of a request is
// estimated, and the request checked, without decoding it.

const (
	// messageCost is what a message takes once decoded, or a little more, whatever its type.
	// Only a span takes three times as much, but most have fields that count, too.
	messageCost = 96

	// bytesCost is the header of a string, and the smallest piece of memory it can be in.
	bytesCost = 24

	// maxNesting is far beyond what a span has.
	maxNesting = 100
)

var (
	errTooDeep = errors.New("values are nested too deeply")
	errNotUTF8 = errors.New("text is not UTF-8")
)

// costOf returns how much memory a request takes once decoded, and an error if it cannot be
// decoded. It stops past limit.
func costOf(request []byte, limit int) (int, error) {
	return cost(request, (*tracepb.TracesData)(nil).ProtoReflect().Descriptor(), limit, 0)
}

func cost(b []byte, message protoreflect.MessageDescriptor, limit, depth int) (total int, err error) {
	if depth > maxNesting {
		return 0, errTooDeep
	}
	total = messageCost
	for number, v := range field.All(b, &err) {
		if v.Bytes == nil {
			continue
		}
		if total > limit {
			return total, nil
		}
		var kind protoreflect.Kind // zero if the field is unknown
		f := message.Fields().ByNumber(number)
		if f != nil {
			kind = f.Kind()
		}
		switch {
		case kind == protoreflect.StringKind && !utf8.Valid(v.Bytes):
			return 0, errNotUTF8
		case kind == protoreflect.MessageKind:
			more, err := cost(v.Bytes, f.Message(), limit-total, depth+1)
			if err != nil {
				return 0, err
			}
			total += more
		default:
			total += len(v.Bytes) + bytesCost
		}
	}
	return total, err
}
