package receiver

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spantee/spantee/exporter/internal/field"
)

// A decoded protobuf message takes more memory than its encoding: an empty event is
// two bytes on the wire, and a hundred once decoded. So the cost of a request is
// estimated before it is decoded.

// A messageKind is the type of a protobuf message.
type messageKind int

const (
	exportRequest messageKind = iota
	resourceSpans
	resource
	entity
	scopeSpans
	scope
	span
	event
	link
	spanStatus
	keyValue
	anyValue
	arrayValue
	listValue
)

// sizes are the sizes of the generated structs plus the pointers to them, rounded
// up to the allocator's size classes.
var sizes = [...]int{
	exportRequest: 80, resourceSpans: 120, resource: 120, entity: 152, scopeSpans: 120, scope: 136, span: 360, event: 136, link: 168,
	spanStatus: 72, keyValue: 88, anyValue: 96, arrayValue: 72, listValue: 72,
}

// nested are the fields that are messages themselves.
var nested = [...]map[protowire.Number]messageKind{
	exportRequest: {1: resourceSpans},
	resourceSpans: {1: resource, 2: scopeSpans},
	resource:      {1: keyValue, 3: entity},
	entity:        {},
	scopeSpans:    {1: scope, 2: span},
	scope:         {3: keyValue},
	span:          {9: keyValue, 11: event, 13: link, 15: spanStatus},
	event:         {3: keyValue},
	link:          {4: keyValue},
	spanStatus:    {},
	keyValue:      {2: anyValue},
	anyValue:      {5: arrayValue, 6: listValue},
	arrayValue:    {1: anyValue},
	listValue:     {1: keyValue},
}

// maxNesting is far beyond what a span has.
const maxNesting = 100

var errTooDeep = errors.New("values are nested too deeply")

// cost returns how much memory an encoded message takes once decoded. It stops
// counting past limit.
func cost(b []byte, kind messageKind, limit, depth int) (total int, err error) {
	if depth > maxNesting {
		return 0, errTooDeep
	}
	total = sizes[kind]
	for number, v := range field.All(b, &err) {
		inner, isMessage := nested[kind][number]
		switch {
		case v.Bytes == nil:
		case total > limit:
			return total, nil
		case isMessage:
			more, err := cost(v.Bytes, inner, limit-total, depth+1)
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
