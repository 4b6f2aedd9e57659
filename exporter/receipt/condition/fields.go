package condition

import (
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"time"

	"go.starlark.net/starlark"

	"github.com/spantee/spantee/exporter/receipt"
)

// A kind is the type of a value as conditions know it.
type kind int

const (
	number kind = iota + 1
	text
	boolean
	list
	dict
	object
)

func (k kind) String() string {
	return [...]string{number: "number", text: "text", boolean: "boolean", list: "list", dict: "dict", object: "object"}[k]
}

var (
	receiptType = reflect.TypeFor[receipt.Receipt]()
	timeType    = reflect.TypeFor[time.Time]()
)

// fieldOf finds a field of a receipt or of an object in it by its name in JSON.
func fieldOf(t reflect.Type, name string) (reflect.StructField, error) {
	for _, f := range reflect.VisibleFields(t) {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name {
			return f, nil
		}
	}
	return reflect.StructField{}, fmt.Errorf("unknown field %s", name)
}

// kindOf returns the kind of a field.
func kindOf(t reflect.Type, name string) (kind, error) {
	f, err := fieldOf(t, name)
	if err != nil {
		return 0, err
	}
	if f.Type.Kind() == reflect.Pointer && f.Type.Elem().Kind() != reflect.Struct {
		f.Type = f.Type.Elem()
	}
	switch f.Type.Kind() {
	case reflect.Bool:
		return boolean, nil
	case reflect.String:
		return text, nil
	case reflect.Slice:
		return list, nil
	case reflect.Map:
		return dict, nil
	case reflect.Struct, reflect.Pointer:
		if f.Type == timeType {
			return text, nil
		}
		return object, nil
	}
	return number, nil
}

// kindOfMember returns the kind of a field of an object.
func kindOfMember(name, member string) (kind, error) {
	k, err := kindOf(receiptType, name)
	if err != nil {
		return 0, err
	}
	if k != object {
		return 0, fmt.Errorf("%s is a %s, which has no fields", name, k)
	}
	f, _ := fieldOf(receiptType, name)
	if f.Type.Kind() == reflect.Pointer {
		f.Type = f.Type.Elem()
	}
	return kindOf(f.Type, member)
}

// fields are those of a receipt, or of an object in it.
type fields struct{ reflect.Value }

func fieldsOf(r *receipt.Receipt) fields { return fields{reflect.ValueOf(r).Elem()} }

// value returns a field's value, nil if it is absent.
func (fs fields) value(name string) starlark.Value {
	f, _ := fieldOf(fs.Type(), name) // the condition is checked
	v := fs.FieldByIndex(f.Index)
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Bool:
		return starlark.Bool(v.Bool())
	case reflect.String:
		return starlark.String(v.String())
	case reflect.Float64:
		return starlark.Float(v.Float())
	case reflect.Slice:
		elements := make([]starlark.Value, v.Len())
		for i := range elements {
			elements[i] = starlark.None // a run, which conditions can only count on to exist
			if e := v.Index(i); e.Kind() == reflect.String {
				elements[i] = starlark.String(e.String())
			}
		}
		return starlark.NewList(elements)
	case reflect.Map:
		keys := starlark.NewDict(v.Len())
		for _, key := range v.MapKeys() {
			_ = keys.SetKey(starlark.String(key.String()), starlark.None) // a string is hashable
		}
		return keys
	case reflect.Pointer:
		return nil
	case reflect.Struct:
		if at, ok := v.Interface().(time.Time); ok && !at.IsZero() {
			return starlark.String(at.Format(time.RFC3339Nano)) // as in JSON
		} else if ok {
			return starlark.String("")
		}
		return starlark.True
	}
	return starlark.MakeInt64(v.Int())
}

// member returns the value of an object's field, nil if the object is absent.
func (fs fields) member(name, member string) starlark.Value {
	f, _ := fieldOf(fs.Type(), name)
	v := fs.FieldByIndex(f.Index)
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	return fields{v}.value(member)
}

// literal returns the value of a literal as the parser has it.
func literal(v any) starlark.Value {
	switch v := v.(type) {
	case string:
		return starlark.String(v)
	case float64:
		return starlark.Float(v)
	case int64:
		return starlark.MakeInt64(v)
	case *big.Int:
		return starlark.MakeBigInt(v)
	}
	return starlark.None
}
