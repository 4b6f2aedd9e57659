package mapping_test

import "os"

// thorough makes tests of very many cases try all of them. .ci/run sets the variable.
var thorough = os.Getenv("SPANTEE_THOROUGH") != ""

// oneIn returns a function that reports whether to try the next case: one in n, or all
// of them in a thorough run.
func oneIn(n int) func() bool {
	i := 0
	return func() bool {
		i++
		return thorough || i%n == 1
	}
}
