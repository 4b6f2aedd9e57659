package redact

import "strings"

// A field is the name of a secret in a text, whose value the ways look for.
type field struct {
	v          *view
	text       string
	name       string
	start, end int // of the name
	class      class
	many       bool // the name is a plural
	quoted     bool // the name is in quotes
	found      func(start, end int)
	*fieldCache
}

// A fieldCache is shared by the fields of a text.
type fieldCache struct {
	known  map[string]kind // names that were classified
	listed int             // the end of the last list: it is not searched again for the names in it
	plural bool            // the name of that list is a plural
}

// A kind is what a name says about its value.
type kind struct {
	class  class
	plural bool
}

// A value is what may be the secret.
type value struct {
	text       string
	start, end int
	quoted     bool
}

// lead returns what comes before the name.
func (f *field) lead() string {
	const longest = 160
	return f.text[max(0, f.start-longest):f.start]
}

// value reads the value that begins at i, up to one of the stops if it is not in quotes.
func (f *field) value(i int, stops string, sep place) value {
	t := f.text
	for n := 0; i+1 < len(t) && n < 2 && strings.IndexByte("bfrN@$", t[i]) >= 0 && isQuote(t[i+1]); n++ {
		i++ // b"..", f"..", @"..", $'..'
	}
	if start, end, ok := f.v.literal(i); ok {
		if start > end || f.start > 0 && t[f.start-1] == t[i] && !f.quoted && f.v.width(i) <= f.v.width(f.start-1) {
			return value{} // "NAME=" + value, and not "NAME=\"value\""
		}
		return value{t[start:end], start, end, true}
	}
	if stops == "" {
		return value{}
	}
	limit := min(len(t), i+maxValue)
	for j := i; ; j++ {
		n := strings.IndexAny(t[j:limit], stops)
		if n < 0 {
			return value{t[i:limit], i, limit, false}
		}
		j += n
		if len(f.v.escapes) == 0 || !f.v.percent(j) || sep.end > sep.start && f.v.percent(sep.start) {
			return value{t[i:j], i, j, false}
		}
	}
}

// before returns the byte before the name, ignoring spaces, dashes and export; 0
// if there is none.
func (f *field) before() byte {
	lead := strings.TrimRight(f.text[max(0, f.start-16):f.start], " \t-")
	lead = strings.TrimRight(strings.TrimSuffix(lead, "export"), " \t")
	if lead == "" || !f.quoted && f.v.isBorder(f.start-len(f.text[max(0, f.start-16):f.start])+len(lead)-1) {
		return 0
	}
	return lead[len(lead)-1]
}

// isFlag reports whether a name is an option: --db-password or -password.
func isFlag(name string) bool {
	option := strings.TrimLeft(name, "-")
	return option != name && option != "" && isLetter(option[0])
}

const (
	wordStops  = " \t\r\n\"'`<>"
	valueStops = wordStops + ",;(){}[]|&"

	closing   = "\\A[\"'`]{0,3}\\]?" // the quotes and brackets around a name
	separator = `(\|\|=|\?\?=|\+=|\.=|:: |:=|=>|===?|!=|=|:|<-)`
)

// line returns what comes before the name in its line.
func (f *field) line() string {
	lead := f.lead()
	i := f.start
	for i > f.start-len(lead) && !f.v.isBorder(i-1) {
		i--
	}
	return f.text[i:f.start]
}

func (f *field) endsLine(i int) bool {
	return i == len(f.text) || f.text[i] == '\r' || f.v.isBorder(i)
}

// looksSecret is for values in prose and tables.
func (f *field) looksSecret(v *value, _ place) bool {
	t := v.text
	if f.class == random || f.class == uuid {
		return f.class.secret(t, quoted)
	}
	return f.class == pin && isNumber(t) || (f.class == password || strings.EqualFold(f.name, "pass")) && isStrong(t) || len(t) >= 12 && (isRandom(t) || f.class != key && inGenerated.all(t) && randomnessOf(t).isMixed() && !isChain(t))
}

// inTag is for values between tags.
func (f *field) inTag(v *value) bool {
	v.end = v.start + len(strings.TrimRight(v.text, " \t\r"))
	v.text = f.text[v.start:v.end]
	return !containsAny(v.text, "[^", "(?", ">") && f.class.secret(v.text, env) && (f.class == password || isRandom(v.text) || isGenerated(v.text)) && !strings.EqualFold(v.text, f.name)
}
