package receiver

import (
	"errors"
	"reflect"
	"sync"
	"unicode/utf8"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/spantee/spantee/exporter/internal/field"
)

// A decoded protobuf message takes more memory than its encoding: an empty event is
// two bytes on the wire, and a hundred once decoded. So the cost of a request is
// estimated, and the request checked, without decoding it.

// A shape is a type of message.
type shape struct {
	size   int // in memory, once decoded
	fields map[protowire.Number]fieldShape
}

// A fieldShape is text, a message, or zero for anything else.
type fieldShape struct {
	isText  bool
	message *shape
}

// requestShape is the shape of a request.
var requestShape = sync.OnceValue(func() *shape {
	shapes := map[protoreflect.FullName]*shape{} // a value may contain values
	var shapeOf func(protoreflect.MessageDescriptor) *shape
	shapeOf = func(d protoreflect.MessageDescriptor) *shape {
		if known := shapes[d.FullName()]; known != nil {
			return known
		}
		generated, _ := protoregistry.GlobalTypes.FindMessageByName(d.FullName()) // it is linked in
		const more = 32                                                           // a pointer to it, the wrapper of a oneof, and what the allocator rounds up
		s := &shape{int(reflect.TypeOf(generated.Zero().Interface()).Elem().Size()) + more, map[protowire.Number]fieldShape{}}
		shapes[d.FullName()] = s
		for i := range d.Fields().Len() {
			switch f := d.Fields().Get(i); f.Kind() {
			case protoreflect.StringKind:
				s.fields[f.Number()] = fieldShape{isText: true}
			case protoreflect.MessageKind:
				s.fields[f.Number()] = fieldShape{message: shapeOf(f.Message())}
			}
		}
		return s
	}
	return shapeOf((*tracepb.TracesData)(nil).ProtoReflect().Descriptor())
})

// maxNesting is far beyond what a span has.
const maxNesting = 100

var (
	errTooDeep = errors.New("values are nested too deeply")
	errNotUTF8 = errors.New("text is not UTF-8")
)

// cost returns how much memory an encoded message takes once decoded, and an error if it
// cannot be decoded. It stops past limit.
func cost(b []byte, message *shape, limit, depth int) (total int, err error) {
	if depth > maxNesting {
		return 0, errTooDeep
	}
	total = message.size
	for number, v := range field.All(b, &err) {
		switch inner := message.fields[number]; {
		case v.Bytes == nil:
		case total > limit:
			return total, nil
		case inner.isText && !utf8.Valid(v.Bytes):
			return 0, errNotUTF8
		case inner.message != nil:
			more, err := cost(v.Bytes, inner.message, limit-total, depth+1)
			if err != nil {
				return 0, err
			}
			total += more
		default:
			total += len(v.Bytes) + 24 // a string, and the smallest piece of memory it can be in
		}
	}
	return total, err
}
