package main

import (
	"strings"
	"unicode"
)

// printable replaces control characters that a terminal would obey: file names,
// file contents and server messages may contain escape sequences.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// printableLines is like printable, but keeps line breaks.
func printableLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = printable(strings.ReplaceAll(line, "\t", "        "))
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
	return "'" + strings.ReplaceAll(printable(name), "'", `'\''`) + "'"
}
