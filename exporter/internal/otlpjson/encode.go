package otlpjson

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

func encode(wire []byte, message kind) ([]byte, error) {
	e := encoder{out: make([]byte, 0, 2*len(wire))}
	if err := e.message(wire, message, 0); err != nil {
		return nil, err
	}
	return e.out, nil
}

type encoder struct {
	out    []byte
	values []value // of all messages that are being encoded
}

// A value is a value of a field, or several if they are packed.
type value struct {
	of     int // the index of the field in its message
	bytes  []byte
	number uint64
}

// message appends a message. The fields of a message may come in any order, and those of
// a list apart.
func (e *encoder) message(wire []byte, k kind, depth int) error {
	if depth > maxDepth {
		return errTooDeep
	}
	start := len(e.values)
	defer func() { e.values = e.values[:start] }()
	if err := e.split(wire, messages[k]); err != nil {
		return err
	}
	values := e.values[start:]
	if byField := func(a, b value) int { return cmp.Compare(a.of, b.of) }; !slices.IsSortedFunc(values, byField) {
		slices.SortStableFunc(values, byField)
	}
	e.out = append(e.out, '{')
	for len(values) > 0 {
		n := 1
		for n < len(values) && values[n].of == values[0].of {
			n++
		}
		e.comma()
		f := messages[k][values[0].of]
		e.out = append(append(append(e.out, '"'), f.name...), '"', ':')
		if err := e.field(f, values[:n], depth); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		values = values[n:]
	}
	e.out = append(e.out, '}')
	return nil
}

// split appends the values of a message's known fields to e.values.
func (e *encoder) split(wire []byte, fields []field) error {
	start := len(e.values)
	for len(wire) > 0 {
		number, wireType, n := protowire.ConsumeTag(wire)
		if n < 0 {
			return protowire.ParseError(n)
		}
		wire = wire[n:]
		of := slices.IndexFunc(fields, func(f field) bool { return f.number == number })
		if of < 0 {
			if n = protowire.ConsumeFieldValue(number, wireType, wire); n < 0 {
				return protowire.ParseError(n)
			}
			wire = wire[n:]
			continue
		}
		v, f := value{of: of}, fields[of]
		switch want := f.kind.wireType(); {
		case wireType == protowire.BytesType && (want == wireType || f.label == many):
			v.bytes, n = protowire.ConsumeBytes(wire)
		case wireType == want:
			v.number, n = consumeNumber(wire, wireType)
		default:
			return fmt.Errorf("%s: wire type %d", f.name, wireType)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		wire = wire[n:]
		if f.label == choice { // the last one counts
			others := func(v value) bool { return v.of != of && fields[v.of].label == choice }
			e.values = append(e.values[:start], slices.DeleteFunc(e.values[start:], others)...)
		}
		e.values = append(e.values, v)
	}
	return nil
}

func consumeNumber(wire []byte, t protowire.Type) (number uint64, n int) {
	switch t {
	case protowire.VarintType:
		return protowire.ConsumeVarint(wire)
	case protowire.Fixed64Type:
		return protowire.ConsumeFixed64(wire)
	default:
		short, n := protowire.ConsumeFixed32(wire)
		return uint64(short), n
	}
}

// comma appends a comma unless it is at the beginning of an object or array.
func (e *encoder) comma() {
	if last := e.out[len(e.out)-1]; last != '{' && last != '[' {
		e.out = append(e.out, ',')
	}
}

// field appends all values of a field.
func (e *encoder) field(f field, values []value, depth int) error {
	if f.label != many {
		return e.single(f.kind, values, depth)
	}
	e.out = append(e.out, '[')
	for i, v := range values {
		if v.bytes == nil || f.kind.wireType() == protowire.BytesType {
			e.comma()
			if err := e.value(f.kind, v, depth); err != nil {
				return fmt.Errorf("%d: %w", i, err)
			}
			continue
		}
		for packed := v.bytes; len(packed) > 0; {
			number, n := consumeNumber(packed, f.kind.wireType())
			if n < 0 {
				return protowire.ParseError(n)
			}
			packed = packed[n:]
			e.comma()
			e.number(f.kind, number)
		}
	}
	e.out = append(e.out, ']')
	return nil
}

// single appends the value of a field that should occur once. If it does not,
// protobuf merges messages, and uses the last one of other values.
func (e *encoder) single(k kind, values []value, depth int) error {
	v := values[len(values)-1]
	if k.isMessage() && len(values) > 1 {
		v.bytes = nil
		for _, part := range values {
			v.bytes = append(v.bytes, part.bytes...)
		}
	}
	return e.value(k, v, depth)
}

func (e *encoder) value(k kind, v value, depth int) error {
	switch {
	case k.isMessage():
		return e.message(v.bytes, k, depth+1)
	case k == text:
		return e.text(v.bytes)
	case k == octets:
		e.out = append(base64.StdEncoding.AppendEncode(append(e.out, '"'), v.bytes), '"')
	case k == traceID, k == spanID:
		e.out = append(hex.AppendEncode(append(e.out, '"'), v.bytes), '"')
	default:
		e.number(k, v.number)
	}
	return nil
}

func (e *encoder) number(k kind, n uint64) {
	switch k {
	case boolean:
		e.out = strconv.AppendBool(e.out, n != 0)
	case uint32s, fixed32s:
		e.out = strconv.AppendUint(e.out, uint64(uint32(n)), 10)
	case sint32s:
		e.out = strconv.AppendInt(e.out, int64(int32(protowire.DecodeZigZag(n))), 10)
	case spanKind, statusCode, temporality:
		e.out = strconv.AppendInt(e.out, int64(int32(n)), 10)
	case double:
		e.double(math.Float64frombits(n))
	case int64s, sfixed64s:
		e.out = append(strconv.AppendInt(append(e.out, '"'), int64(n), 10), '"')
	case uint64s, fixed64s:
		e.out = append(strconv.AppendUint(append(e.out, '"'), n, 10), '"')
	}
}

// double appends a number as JavaScript writes it, or a name that protobuf has for what
// is no number in JSON.
func (e *encoder) double(d float64) {
	size := math.Abs(d)
	switch {
	case math.IsNaN(d):
		e.out = append(e.out, `"NaN"`...)
	case math.IsInf(d, 1):
		e.out = append(e.out, `"Infinity"`...)
	case math.IsInf(d, -1):
		e.out = append(e.out, `"-Infinity"`...)
	case size != 0 && (size < 1e-6 || size >= 1e21):
		e.out = strconv.AppendFloat(e.out, d, 'e', -1, 64)
	default:
		e.out = strconv.AppendFloat(e.out, d, 'f', -1, 64)
	}
}

var errNotUTF8 = errors.New("text that is not UTF-8")

func (e *encoder) text(s []byte) error {
	if !utf8.Valid(s) {
		return errNotUTF8
	}
	e.out = append(e.out, '"')
	plain := 0 // the index of the first byte that has not been appended
	for i, c := range s {
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		e.out = append(append(e.out, s[plain:i]...), '\\')
		switch c {
		case '"', '\\':
			e.out = append(e.out, c)
		case '\n':
			e.out = append(e.out, 'n')
		case '\r':
			e.out = append(e.out, 'r')
		case '\t':
			e.out = append(e.out, 't')
		default:
			e.out = fmt.Appendf(e.out, "u%04x", c)
		}
		plain = i + 1
	}
	e.out = append(append(e.out, s[plain:]...), '"')
	return nil
}
