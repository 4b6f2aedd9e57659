package tree

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Printable replaces what a terminal would act on rather than show: escape characters,
// line ends and bidirectional marks.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// cells returns how many columns a terminal gives s.
func cells(s string) int {
	n := 0
	for _, r := range s {
		n += runeCells(r)
	}
	return n
}

func runeCells(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case r < 0x1100:
		return 1
	case unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana),
		0x3000 <= r && r <= 0x303e,   // CJK punctuation
		0xff01 <= r && r <= 0xff60,   // full-width forms
		0x1f300 <= r && r <= 0x1faff: // pictographs
		return 2
	}
	return 1
}

// cut shortens s to width columns, and marks the cut.
func cut(s string, width int) string {
	if cells(s) <= width {
		return s
	}
	n := 0
	for i, r := range s {
		if n += runeCells(r); n > width-1 {
			return s[:i] + "…"
		}
	}
	return s
}

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-cells(s)))
}

// Line returns s on one line of at most width columns, safe for a terminal.
func Line(s string, width int) string {
	return cut(Printable(strings.Join(strings.Fields(s), " ")), width)
}

// between returns the time between two instants. A sender may say anything.
func between(start, end uint64) time.Duration { return time.Duration(min(end-start, math.MaxInt64)) }

// Duration gives three significant digits: 850ms, 6.26s, 12.4s, 1m02s, 1h05m.
func Duration(d time.Duration) string {
	d = max(0, d).Round(time.Millisecond)
	switch s := d.Seconds(); {
	case s < 1:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case s < 9.995:
		return fmt.Sprintf("%.2fs", d.Round(10*time.Millisecond).Seconds())
	case s < 59.95:
		return fmt.Sprintf("%.1fs", d.Round(100*time.Millisecond).Seconds())
	}
	d = d.Round(time.Second)
	if d < time.Hour {
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

// Took is the duration of a step, and says if it is estimated.
func Took(d time.Duration, estimated bool) string {
	if estimated {
		return Duration(d) + " estimated"
	}
	return Duration(d)
}

// Plural returns how many of something there are.
func Plural[N int | int64](n N, noun string) string {
	stem, isY := strings.CutSuffix(noun, "y")
	switch {
	case n == 1:
		return "1 " + noun
	case isY:
		return Thousands(n) + " " + stem + "ies"
	}
	return Thousands(n) + " " + noun + "s"
}

// Thousands returns n with commas.
func Thousands[N int | int64](n N) string {
	digits := strconv.FormatInt(int64(n), 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// money is a sum in USD, as the viewer has it.
func money(usd float64) string {
	switch {
	case usd >= 100:
		return fmt.Sprintf("$%.0f", usd)
	case usd >= 0.995:
		return fmt.Sprintf("$%.2f", usd)
	case usd >= 0.01:
		return fmt.Sprintf("$%.3f", usd)
	}
	return fmt.Sprintf("$%.2g", usd)
}
