package receipt

import (
	"math"
	"reflect"
	"strings"
)

// OmitNonFinite replaces the numbers that JSON cannot express, which a baseline's extreme
// values may lead to, by 0 or null. It returns their names.
func (r *Receipt) OmitNonFinite() []string { return omitNonFinite(reflect.ValueOf(r).Elem(), "") }

func omitNonFinite(v reflect.Value, name string) (omitted []string) {
	switch v.Kind() {
	case reflect.Float64:
		if f := v.Float(); math.IsInf(f, 0) || math.IsNaN(f) {
			v.SetZero()
			return []string{name}
		}
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		if omitted = omitNonFinite(v.Elem(), name); len(omitted) > 0 && v.Elem().Kind() == reflect.Float64 {
			v.SetZero()
		}
	case reflect.Slice:
		for i := range v.Len() {
			omitted = append(omitted, omitNonFinite(v.Index(i), name)...)
		}
	case reflect.Struct:
		for field, value := range v.Fields() {
			if field.IsExported() {
				omitted = append(omitted, omitNonFinite(value, joined(name, field))...)
			}
		}
		if usage, ok := v.Addr().Interface().(*Usage); ok && len(omitted) > 0 {
			usage.CostKnown = false
		}
	}
	return omitted
}

// joined returns the name of a field in JSON, after those that it is in.
func joined(name string, field reflect.StructField) string {
	tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	switch {
	case tag == "":
		return name // its fields are those of the struct that it is in
	case name == "":
		return tag
	}
	return name + "." + tag
}
