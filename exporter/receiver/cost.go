package receiver

import (
	"errors"
	"unicode/utf8"

	"github.com/spantee/spantee/exporter/internal/field"
)

// A decoded protobuf message takes more memory than its encoding: an empty event is
// two bytes on the wire, and a hundred once decoded. So the cost of a request is
// estimated, and the request checked, without decoding it.

// A kind is the type of a protobuf field: text, a message, or 0 for anything else.
type kind int

const (
	text kind = iota + 1
	exportRequest
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

// kinds are the kinds of fields, by message and number.
var kinds = [...][16]kind{
	exportRequest: {1: resourceSpans},
	resourceSpans: {1: resource, 2: scopeSpans, 3: text},
	resource:      {1: keyValue, 3: entity},
	entity:        {1: text, 2: text, 3: text, 4: text},
	scopeSpans:    {1: scope, 2: span, 3: text},
	scope:         {1: text, 2: text, 3: keyValue},
	span:          {3: text, 5: text, 9: keyValue, 11: event, 13: link, 15: spanStatus},
	event:         {2: text, 3: keyValue},
	link:          {3: text, 4: keyValue},
	spanStatus:    {2: text},
	keyValue:      {1: text, 2: anyValue},
	anyValue:      {1: text, 5: arrayValue, 6: listValue},
	arrayValue:    {1: anyValue},
	listValue:     {1: keyValue},
}

// maxNesting is far beyond what a span has.
const maxNesting = 100

var (
	errTooDeep = errors.New("values are nested too deeply")
	errNotUTF8 = errors.New("text is not UTF-8")
)

// cost returns how much memory an encoded message takes once decoded, and an error if it
// cannot be decoded. It stops past limit.
func cost(b []byte, message kind, limit, depth int) (total int, err error) {
	if depth > maxNesting {
		return 0, errTooDeep
	}
	total = sizes[message]
	for number, v := range field.All(b, &err) {
		var inner kind
		if int(number) < len(kinds[message]) {
			inner = kinds[message][number]
		}
		switch {
		case v.Bytes == nil:
		case total > limit:
			return total, nil
		case inner == text && !utf8.Valid(v.Bytes):
			return 0, errNotUTF8
		case inner > text:
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
