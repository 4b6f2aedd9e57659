package tree

import (
	"cmp"
	"strings"
	"unicode"

	"github.com/spantee/spantee/exporter/cilog"
)

// A Style says how to draw traces: one line per span, with a bar for its time. The
// zero Style is ready to use.
//
//	cursor-agent   ━━━━━━━━━━━━━━ 12.4s
//	├─ chat GPT-5  ░█             1.82s  first chunk 1.20s · 213 deltas
//	├─ read          ▌            130ms
//	├─ shell         ███▌         2.91s  ✗ exit 3 · go
//	└─ chat GPT-5       ░████████ 7.65s  first chunk 980ms · 1,204 deltas
//	░ waiting for the model or an approval
//
// The slowest calls follow, with what they were about.
//
// The text is safe to print on a terminal, whatever names and attributes contain.
type Style struct {
	Width int  // columns, 80 if zero
	Color bool // with ANSI escapes
	ASCII bool // without box-drawing characters, and with ? for other characters that are not ASCII
}

const minWidth = 40

func (s Style) width() int { return max(minWidth, cmp.Or(s.Width, 80)) }

// ANSI colors, of the sixteen that every theme defines.
const (
	bold    = "\x1b[1m"
	dim     = "\x1b[2m"
	red     = "\x1b[31m"
	green   = "\x1b[32m"
	yellow  = "\x1b[33m"
	magenta = "\x1b[35m"
	cyan    = "\x1b[36m"
)

// ascii replaces each drawn character with an ASCII one of the same width.
var ascii = strings.NewReplacer("├─", "|-", "└─", "`-", "│", "|", "━", "=", "╸", "=", "╺", "=", "█", "#", "▌", "#", "▐", "#",
	"▏", "|", "▕", "|", "░", ".", "✗", "x", "…", "~", "·", "-", "→", ">")

// encode returns lines in the characters of the style, which no CI system obeys.
func (s Style) encode(text string) string {
	if s.ASCII {
		var b strings.Builder
		for _, r := range ascii.Replace(text) {
			if r <= unicode.MaxASCII {
				b.WriteRune(r)
			} else {
				b.WriteString(strings.Repeat("?", runeCells(r)))
			}
		}
		text = b.String()
	}
	return cilog.Break(text)
}

func (s Style) paint(color, text string) string {
	if !s.Color || color == "" || strings.TrimSpace(text) == "" {
		return text
	}
	return color + text + "\x1b[0m"
}
