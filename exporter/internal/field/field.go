// Package field reads encoded protobuf messages field by field, which is faster than
// decoding them.
package field

import (
	"iter"

	"google.golang.org/protobuf/encoding/protowire"
)

// A Content is the value of a field: its bytes, or its number. It is empty if the field is a
// group.
type Content struct {
	Bytes  []byte
	Number uint64
	Whole  []byte // with the tag
}

// All yields the fields of an encoded message. If it is malformed, the sequence ends there,
// and malformed, unless nil, is set.
func All(message []byte, malformed *error) iter.Seq2[protowire.Number, Content] {
	return func(yield func(protowire.Number, Content) bool) {
		for len(message) > 0 {
			number, kind, tag := protowire.ConsumeTag(message)
			n := tag
			var v Content
			if number > protowire.MaxValidNumber {
				n = -1
			} else if tag >= 0 {
				switch rest := message[tag:]; kind {
				case protowire.BytesType:
					v.Bytes, n = protowire.ConsumeBytes(rest)
				case protowire.VarintType:
					v.Number, n = protowire.ConsumeVarint(rest)
				case protowire.Fixed64Type:
					v.Number, n = protowire.ConsumeFixed64(rest)
				case protowire.Fixed32Type:
					var short uint32
					short, n = protowire.ConsumeFixed32(rest)
					v.Number = uint64(short)
				default:
					n = protowire.ConsumeFieldValue(number, kind, rest)
				}
			}
			if n < 0 {
				if malformed != nil {
					*malformed = protowire.ParseError(n)
				}
				return
			}
			v.Whole, message = message[:tag+n], message[tag+n:]
			if !yield(number, v) {
				return
			}
		}
	}
}

// Of yields the fields with one number.
func Of(message []byte, number protowire.Number) iter.Seq[Content] {
	return func(yield func(Content) bool) {
		for n, v := range All(message, nil) {
			if n == number && !yield(v) {
				return
			}
		}
	}
}
