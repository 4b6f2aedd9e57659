package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A size is a flag value in bytes, such as 256MiB.
type size struct{ bytes int64 }

func (s *size) String() string { return strings.ReplaceAll(bytesText(s.bytes), " ", "") }
func (s *size) Type() string   { return "size" }

// units are the units of sizes: each is 1024 or 1000 times the one before it.
const units = "KMGTPE"

func (s *size) Set(text string) error {
	number := strings.TrimRight(text, " BIKMGTPEbikmgtpe")
	unit := strings.ToUpper(strings.TrimSpace(text[len(number):]))
	n, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return errors.New("not a size")
	}
	if unit != "" && unit != "B" {
		power := strings.IndexByte(units, unit[0]) + 1
		base := map[string]float64{"": 1000, "B": 1000, "I": 1024, "IB": 1024}[unit[1:]]
		if power == 0 || base == 0 {
			return errors.New("not a size")
		}
		n *= math.Pow(base, float64(power))
	}
	if !(n >= 0 && n < math.MaxInt64) { // NaN is neither
		return errors.New("not a size")
	}
	s.bytes = int64(n)
	return nil
}

// bytesText returns a size with two significant digits at least: 8 B, 1.5 MiB, 256 MiB.
func bytesText(n int64) string {
	size, unit := float64(n), "B"
	for i := 0; size >= 1024 && i < len(units); i++ {
		size, unit = size/1024, units[i:i+1]+"iB"
	}
	if n >= 10 && size < 9.95 {
		return fmt.Sprintf("%.1f %s", size, unit)
	}
	return fmt.Sprintf("%.0f %s", size, unit)
}
