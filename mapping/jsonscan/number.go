package jsonscan

import (
	"encoding/binary"
	"strconv"
)

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

// Digits returns the number that s begins with, and how many digits it has: 0 if
// s begins with none, or with too many for an int64. Every line has a timestamp, so it
// reads eight digits at a time.
func Digits(s []byte) (n int64, size int) {
	for len(s)-size >= 8 {
		eight, ok := eightDigits(binary.LittleEndian.Uint64(s[size:]))
		if !ok || size >= maxDigits-8 {
			break
		}
		n = n*1e8 + int64(eight)
		size += 8
	}
	for ; size < len(s) && '0' <= s[size] && s[size] <= '9'; size++ {
		if size == maxDigits-1 {
			return 0, 0
		}
		n = 10*n + int64(s[size]-'0')
	}
	return n, size
}

// eightDigits returns the number that eight bytes state, the lowest byte first.
func eightDigits(x uint64) (n uint64, ok bool) {
	const high = 0xf0 * each
	if x&high != '0'*each || (x+6*each)&high != '0'*each {
		return 0, false
	}
	x -= '0' * each
	x = 10*x + x>>8 // numbers of two digits, in every other byte
	const pairs = 0x000000ff000000ff
	return ((x&pairs)*(100+1000000<<32) + (x>>16&pairs)*(1+10000<<32)) >> 32, true
}

// digits reads a number that consists of digits only.
func digits(s []byte) (n int64, ok bool) {
	n, size := Digits(s)
	return n, size > 0 && size == len(s)
}
