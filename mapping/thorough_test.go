package mapping_test

import (
	"os"
	"testing"
)

// thorough makes tests of very many cases try all of them. .ci/run sets the variable.
var thorough = os.Getenv("SPANTEE_THOROUGH") != ""

// oneIn returns a function that reports whether to try the next case: one in n, a quarter
// of these with -short, or all of them in a thorough run.
func oneIn(n int) func() bool {
	if testing.Short() {
		n *= 4
	}
	i := -1
	return func() bool {
		i++
		return thorough || i%n == 0
	}
}
