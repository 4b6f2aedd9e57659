package main

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/dustin/go-humanize"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/tree"
)

// withHint returns the text of an error with its hint, if it has one.
func withHint(err error) string {
	if hinted, ok := errors.AsType[*exporter.Error](err); ok && hinted.Hint != "" {
		return printableLines(fmt.Sprintf("%v (%s)", err, hinted.Hint))
	}
	return printableLines(err.Error())
}

// A part is one of several amounts.
type part struct {
	n    int
	text string
}

// enumerate joins the texts of the parts that are not 0.
func enumerate(separator string, parts ...part) string {
	var list []string
	for _, p := range parts {
		if p.n > 0 {
			list = append(list, p.text)
		}
	}
	return strings.Join(list, separator)
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// countFailed says how many there are, and how many of them failed.
func countFailed(n int, noun string, failed int) string {
	if failed == 0 {
		return count(n, noun)
	}
	return fmt.Sprintf("%s (%d failed)", count(n, noun), failed)
}

// printableLines is like tree.Printable, but keeps line breaks.
func printableLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = tree.Printable(strings.ReplaceAll(line, "\t", "        "))
	}
	return strings.Join(lines, "\n")
}

// quoted quotes a file name for a shell.
func quoted(name string) string {
	plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("/._-+,:@%", r)
	}
	if name != "" && strings.IndexFunc(name, func(r rune) bool { return !plain(r) }) < 0 {
		return name
	}
	return "'" + strings.ReplaceAll(tree.Printable(name), "'", `'\''`) + "'"
}

// spaced returns a text with a space before it, "" for none.
func spaced(text string) string {
	if text == "" {
		return ""
	}
	return " " + text
}

// age returns the time since an instant in short form: 40s, 5m, 3h, 12d.
func age(since time.Time) string {
	switch d := time.Since(since); {
	case d < time.Minute:
		return fmt.Sprintf("%.0fs", max(d.Seconds(), 0))
	case d < time.Hour:
		return fmt.Sprintf("%.0fm", d.Minutes())
	case d < 48*time.Hour:
		return fmt.Sprintf("%.0fh", d.Hours())
	default:
		return fmt.Sprintf("%.0fd", d.Hours()/24)
	}
}

// bytesText returns a size with two significant digits at least: 8 B, 1.5 MiB, 256 MiB.
func bytesText(n int64) string { return humanize.IBytes(uint64(n)) }
