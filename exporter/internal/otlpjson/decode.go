package otlpjson

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
)

// decode converts a valid JSON text of spans.
func decode(b []byte) ([]byte, error) {
	d := decoder{in: reader{b: b}, out: make([]byte, 0, len(b))}
	if err := d.fields(messages[tracesData], 0); err != nil {
		return nil, err
	}
	return d.out, nil
}

type decoder struct {
	in  reader
	out []byte
}

// fields appends the fields of a message.
func (d *decoder) fields(of []field, depth int) error {
	if depth > maxDepth {
		return errTooDeep
	}
	if d.in.peek() != '{' {
		return d.unlike("an object")
	}
	for name := range d.in.members() {
		name = camelCase(name)
		i := slices.IndexFunc(of, func(f field) bool { return f.name == string(name) })
		if i < 0 || d.in.peek() == 'n' { // null: the field is absent
			d.in.value()
			continue
		}
		if err := d.field(of[i], depth); err != nil {
			return fmt.Errorf("%s: %w", of[i].name, err)
		}
	}
	return nil
}

// camelCase returns a name without underscores.
func camelCase(name []byte) []byte {
	if bytes.IndexByte(name, '_') < 0 {
		return name
	}
	var camel []byte
	for i, c := range name {
		if i > 0 && name[i-1] == '_' && 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		if c != '_' {
			camel = append(camel, c)
		}
	}
	return camel
}

// field appends all values of a field.
func (d *decoder) field(f field, depth int) error {
	if f.label != many {
		return d.value(f, depth)
	}
	if d.in.peek() != '[' {
		return d.unlike("an array")
	}
	for i := range d.in.elements() {
		if err := d.value(f, depth); err != nil {
			return fmt.Errorf("%d: %w", i, err)
		}
	}
	return nil
}

func (d *decoder) value(f field, depth int) error {
	k := f.kind
	if k.isMessage() {
		return d.message(f, depth+1)
	}
	if k.wireType() == protowire.BytesType {
		b, err := d.bytes(k)
		if err == nil && b != nil {
			d.out = protowire.AppendBytes(protowire.AppendTag(d.out, f.number, protowire.BytesType), b)
		}
		return err
	}
	n, err := d.number(k)
	if err != nil {
		return err
	}
	d.out = protowire.AppendTag(d.out, f.number, k.wireType())
	switch k.wireType() {
	case protowire.VarintType:
		d.out = protowire.AppendVarint(d.out, n)
	case protowire.Fixed32Type:
		d.out = protowire.AppendFixed32(d.out, uint32(n))
	case protowire.Fixed64Type:
		d.out = protowire.AppendFixed64(d.out, n)
	}
	return nil
}

// message appends a message, whose length is known only afterwards.
func (d *decoder) message(f field, depth int) error {
	d.out = protowire.AppendTag(d.out, f.number, protowire.BytesType)
	start := len(d.out)
	if d.in.peek() == 'n' { // null in an array: pdata, too, takes it for an empty message
		d.in.value()
	} else if err := d.fields(messages[f.kind], depth); err != nil {
		return err
	}
	length := protowire.AppendVarint(nil, uint64(len(d.out)-start))
	d.out = slices.Insert(d.out, start, length...)
	return nil
}

// bytes consumes a string. It returns nil for an id that is missing.
func (d *decoder) bytes(k kind) ([]byte, error) {
	if d.in.peek() != '"' {
		return nil, d.unlike("a string")
	}
	quoted := d.in.value()
	if !utf8.Valid(quoted) {
		return nil, errNotUTF8
	}
	s := unquote(quoted)
	switch k {
	case octets:
		return fromBase64(string(s))
	case traceID:
		return fromHex(s, 16)
	case spanID:
		return fromHex(s, 8)
	}
	return s, nil
}

// fromBase64 decodes either alphabet, padded or not, as protobuf does.
func fromBase64(s string) ([]byte, error) {
	s = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(s, "="))
	b, err := base64.RawStdEncoding.DecodeString(s)
	if err != nil {
		return nil, errors.New("not in base64")
	}
	return b, nil
}

// fromHex returns the bytes of an id, nil if the id is missing: empty, or all zeros.
func fromHex(s []byte, size int) ([]byte, error) {
	id := make([]byte, hex.DecodedLen(len(s)))
	if _, err := hex.Decode(id, s); err != nil || len(id) != size && len(id) > 0 {
		return nil, fmt.Errorf("not an id of %d hex digits", 2*size)
	}
	if len(bytes.Trim(id, "\x00")) == 0 {
		return nil, nil
	}
	return id, nil
}

// number consumes a number and returns it as the wire has it.
func (d *decoder) number(k kind) (uint64, error) {
	start := d.in.i
	quoted := d.in.peek() == '"'
	text := d.in.value()
	if quoted {
		text = unquote(text)
	}
	n, want := parse(k, string(text), quoted)
	if want != "" {
		d.in.i = start
		return 0, d.unlike(want)
	}
	return n, nil
}

// parse returns a number as the wire has it, or what s should have been.
func parse(k kind, s string, quoted bool) (n uint64, want string) {
	var err error
	var signed int64
	switch k {
	case boolean:
		if s == "true" {
			n = 1
		}
		if quoted || s != "true" && s != "false" {
			want = "true or false"
		}
		return n, want
	case spanKind, statusCode:
		names := tracepb.Span_SpanKind_value
		if k == statusCode {
			names = tracepb.Status_StatusCode_value
		}
		if number, known := names[s]; known {
			return uint64(number), ""
		}
		signed, err = strconv.ParseInt(s, 10, 32)
		n, want = uint64(signed), "a number or the name of one"
	case double:
		var f float64
		f, err = strconv.ParseFloat(s, 64)
		n, want = math.Float64bits(f), "a number"
	case uint32s, fixed32s:
		n, err = strconv.ParseUint(s, 10, 32)
		want = "a number from 0 to 4294967295"
	case fixed64s:
		n, err = strconv.ParseUint(s, 10, 64)
		want = "an integer that is not negative"
	default: // int64s: only metrics, which are never read, have others
		signed, err = strconv.ParseInt(s, 10, 64)
		n, want = uint64(signed), "an integer"
	}
	if err != nil {
		return 0, want
	}
	return n, ""
}

// maxShown is how much of a value an error shows.
const maxShown = 40

// unlike returns an error about the next value.
func (d *decoder) unlike(want string) error {
	got := d.in.value()
	if len(got) > maxShown {
		got = append(bytes.ToValidUTF8(got[:maxShown], nil), "..."...)
	}
	return fmt.Errorf("%s (want %s)", got, want)
}
