package jsonscan

import "strconv"

// parseInt reads a number, or a string that holds one.
func parseInt(v []byte) (n int64, ok bool) {
	if len(v) > 1 && v[0] == '"' {
		v = v[1 : len(v)-1]
	}
	if len(v) == 0 || len(v) > 32 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || f != f || f >= 1<<63 || f < -1<<63 {
		return 0, false
	}
	return int64(f), true
}

// maxDigits is the number of digits at which a number may not fit into an int64.
const maxDigits = 19

// digits returns the number that s begins with, and how many digits it has: 0 if
// s begins with none, or with too many for an int64.
func digits(s []byte) (n int64, size int) {
	for ; size < len(s) && '0' <= s[size] && s[size] <= '9'; size++ {
		if size == maxDigits-1 {
			return 0, 0
		}
		n = 10*n + int64(s[size]-'0')
	}
	return n, size
}
