// Package field reads encoded protobuf messages field by field, which is faster than
// decoding them.
package field

import "google.golang.org/protobuf/encoding/protowire"

// A Value is the value of a field: its bytes, or its number. It is empty if the field is a
// group.
type Value struct {
	Bytes  []byte
	Number uint64
}

// Each calls do with every field of an encoded message.
func Each(message []byte, do func(protowire.Number, Value)) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		var v Value
		switch kind {
		case protowire.BytesType:
			v.Bytes, n = protowire.ConsumeBytes(message)
		case protowire.VarintType:
			v.Number, n = protowire.ConsumeVarint(message)
		case protowire.Fixed64Type:
			v.Number, n = protowire.ConsumeFixed64(message)
		case protowire.Fixed32Type:
			var short uint32
			short, n = protowire.ConsumeFixed32(message)
			v.Number = uint64(short)
		default:
			n = protowire.ConsumeFieldValue(number, kind, message)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		do(number, v)
		message = message[n:]
	}
	return nil
}
