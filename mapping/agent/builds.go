package agent

import (
	"cmp"
	"slices"
	"strings"
)

// CheckedUpTo returns the newest build that spantee was checked with, by the agent's name, ""
// if none was.
func CheckedUpTo(name string) string { return verified[name] }

// Newer reports whether a build is newer than another one, by the numbers in their versions. A
// build that is unknown is neither newer nor older.
func Newer(build, than string) bool {
	notDigit := func(c rune) bool { return c < '0' || c > '9' }
	a, b := strings.FieldsFunc(build, notDigit), strings.FieldsFunc(than, notDigit)
	return len(a) > 0 && len(b) > 0 && slices.CompareFunc(a, b, func(x, y string) int {
		return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)) // numbers of any length
	}) > 0
}
