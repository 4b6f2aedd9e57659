package redact

import (
	_ "embed"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// The rules of our own, one in a line. README.md explains the kinds.
//
//go:embed rules.txt
var ownRules string

// A table is what rules.txt says.
type table struct {
	tokens       []token
	patterns     []pattern
	commands     map[string][]expression // by program
	classes      map[string]class        // by name, as written in the table
	nameSuffixes []nameSuffix
	nameKeywords []string                   // what the names contain
	words        map[string]map[string]bool // by list
	ordered      map[string][]string
}

type nameSuffix struct {
	text  string
	class class
}

var rulesTable = sync.OnceValue(func() *table {
	t := &table{commands: map[string][]expression{}, classes: map[string]class{}, words: map[string]map[string]bool{}, ordered: map[string][]string{}}
	for line := range strings.Lines(ownRules) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), " # ")
		if line == "" || line[0] == '#' {
			continue
		}
		column := columns(line)
		add, known := kinds[column[0]]
		if !known {
			panic("rules.txt: unknown kind " + column[0])
		}
		add(t, column[1:])
	}
	return t
})

// columns splits a line where there are two or more spaces. The last column of four is
// the rest of the line.
func columns(line string) (all []string) {
	for len(all) < 3 {
		column, rest, ok := strings.Cut(line, "  ")
		if !ok {
			break
		}
		all = append(all, column)
		line = strings.TrimLeft(rest, " ")
	}
	return append(all, strings.TrimSpace(line))
}

// kinds read the rows of each kind.
var kinds = map[string]func(t *table, column []string){
	"name":    (*table).addNames,
	"words":   (*table).addWords,
	"command": (*table).addCommand,
	"call":    (*table).addCall,
	"pattern": (*table).addPattern,
	"token":   (*table).addToken,
}

func (t *table) addNames(column []string) {
	c := classNames[column[0]]
	for n := range strings.FieldsSeq(column[1]) {
		last := n[strings.LastIndexAny(n, "*+~")+1:]
		if c != noSecret && !slices.Contains(t.nameKeywords, last) {
			t.nameKeywords = append(t.nameKeywords, last)
		}
		if suffix, ok := strings.CutPrefix(n, "*"); ok {
			t.nameSuffixes = append(t.nameSuffixes, nameSuffix{suffix, c})
			continue
		}
		if compound := strings.ReplaceAll(n, "+", ""); strings.IndexByte(n, '+') > 0 && c != noSecret {
			t.nameSuffixes = append(t.nameSuffixes, nameSuffix{compound, c})
		}
		t.classes[n] = c
	}
}

func (t *table) addWords(column []string) {
	list := column[0]
	if t.words[list] == nil {
		t.words[list] = map[string]bool{}
	}
	for w := range strings.FieldsSeq(column[1]) {
		t.words[list][w] = true
		t.ordered[list] = append(t.ordered[list], w)
	}
}

// is reports whether a word, in any case, is in a list of the table.
func is(list, word string) bool { return rulesTable().words[list][strings.ToLower(word)] }

// list returns the words of a list of the table.
func list(name string) []string { return rulesTable().ordered[name] }

func (t *table) addCommand(column []string) {
	e := expr(commandExpr(column[1]))
	for program := range strings.SplitSeq(column[0], ",") {
		t.commands[program] = append(t.commands[program], e)
	}
}

// addCall makes a pattern of the function, the arguments before the secret and the
// secret in quotes.
func (t *table) addCall(column []string) {
	n, err := strconv.Atoi(column[1])
	if err != nil {
		panic("rules.txt: " + err.Error())
	}
	const argument = "(?:[^\"'`,;()\n]|\"[^\"\n]*\"|'[^'\n]*'|\\([^()\n]*\\))*,"
	expr := `(?i)` + regexp.QuoteMeta(column[0]) + strings.Repeat(argument, n-1) + "\\s*b?[\"'`](?P<strong>[^\"'`\n]{6,})[\"'`][),.]"
	t.patterns = append(t.patterns, pattern{ID: ruleCall, Regex: expr, Keywords: []string{column[0]}})
}

func (t *table) addPattern(column []string) {
	p := pattern{ID: column[0], Regex: column[2]}
	keywords, within, _ := strings.Cut(column[1], "@@")
	p.Within, _ = strconv.Atoi(within)
	for k := range strings.SplitSeq(keywords, "|") {
		k = strings.ReplaceAll(strings.ReplaceAll(k, `\t`, "\t"), "~", " ")
		p.Keywords = append(p.Keywords, k)
	}
	t.patterns = append(t.patterns, p)
}

func (t *table) addToken(column []string) {
	from, n := strings.LastIndexByte(column[1], '{'), strings.LastIndexByte(column[1], ':')
	if from < 0 || n < from {
		panic("rules.txt: no form of a token: " + column[1])
	}
	k := token{rule: column[0], prefix: column[1][:from]}
	form := column[1][from+1 : n]
	var err error
	if k.min, err = strconv.Atoi(strings.TrimSuffix(column[1][n+1:], "}")); err != nil {
		panic("rules.txt: " + err.Error())
	}
	for _, a := range alphabets {
		if further, ok := strings.CutPrefix(form, a.name); ok {
			k.letters = setOfLetters(a.letters + further)
			break
		}
	}
	if k.letters == nil {
		panic("rules.txt: unknown letters " + form)
	}
	t.tokens = append(t.tokens, k)
}

// alphabets are the letters that tokens are made of. A form may add further ones to
// them: {hex-:36}.
var alphabets = []struct{ name, letters string }{
	{"hex", hexes}, {"alnum", alnum}, {"digits", digits}, {"word", word}, {"dotted", dotted}, {"base64", base64}, {"urlish", dotted + "+/=%~"},
}

// A token is a kind of secret with a known prefix: a row of rules.txt.
type token struct {
	rule    string
	prefix  string
	min     int // how many letters at least follow the prefix
	letters *letterSet
}

// A pattern is a regular expression and its keywords: every match contains one.
type pattern struct {
	ID       string
	Regex    string
	Group    int
	Entropy  float64
	Keywords []string
	Within   int `json:"-"` // how far from a keyword a match may be
}

// A class is what a name says about its value.
type class int

const (
	noSecret class = iota
	password       // may be a plain word
	secret         // may be a long one
	key            // is letters and digits
	phrase         // is a dozen words or two
	random         // is random letters and digits
	uuid           // the same, or a UUID
	pin            // is a number
	datum          // may be anything: a part of a Kubernetes Secret
)

var classNames = map[string]class{"none": noSecret, "password": password, "secret": secret, "key": key, "phrase": phrase, "pin": pin, "random": random, "uuid": uuid}

// The parts of the expressions that the rows of commands become.
const (
	wordStart = "(?:^|[\\s\"'`,])"
	wordBreak = "(?:=|[\"'`]?(?:[ \\t]+|,\\s*))" // also between the strings of ["curl", "-u", ..]
	anyWord   = "[\"'`]?[^\\s\"'`,]+" + wordBreak
	passTypes = "(?:pass:|file:)?" // of openssl
	oneWord   = "(?:\\$?\"" + passTypes + "([^\"\n]+)|\\$?'" + passTypes + "([^'\n]+)|" + passTypes + "([^\\s\"'`|;)]+))"
	joined    = "(?:\\$?\"([^\"\n]+)|\\$?'([^'\n]+)|([^\\s\"'`|;)]{4,}))"

	// user:SECRET, user%SECRET, user/SECRET@host and domain/user:SECRET@host
	userWord = "(?:\"[^\"\n:%/]*[:%]([^\"\n]+)|'[^'\n:%/]*[:%]([^'\n]+)|[^\\s\"'`:%/|;)]*[:%]([^\\s\"'`|;)]+)|[\"']?[^\\s\"'`:%/]+/(?:[^\\s\"'`:%/@]+:)?([^\\s\"'`@]+))"
)

// commandExpr returns an expression for the words of a row, which is searched for in
// what begins with the program.
func commandExpr(words string) string {
	all := strings.Fields(words)
	expr := wordStart
	if strings.IndexByte("_{", all[0][0]) >= 0 {
		expr = `^[\w.-]+` + wordBreak // only the program comes before
	}
	for i, w := range all {
		prefix, same := strings.CutSuffix(w, "{}")
		switch {
		case w == "{}" && i > 0 && all[i-1] == "...":
			expr += oneWord + `\s*$`
		case w == "{}":
			expr += oneWord
		case w == "{:}":
			expr += userWord
		case same:
			expr += regexp.QuoteMeta(prefix) + joined
		case w == "_":
			expr += anyWord
		case w == "...":
			expr += `(?:.*?` + wordBreak + `)??`
		default:
			expr += options(w, all[i+1] == "{:}")
		}
	}
	return expr
}

// options returns an expression for one of several options, in front of another word. A
// short one may end a cluster, as in -sSu, and be joined with user:SECRET.
func options(list string, joined bool) string {
	var all []string
	for o := range strings.SplitSeq(list, ",") {
		expr := regexp.QuoteMeta(o) + wordBreak
		if joined && len(o) == 2 {
			expr = `-[a-zA-Z]{0,6}` + o[1:] + wordBreak + "?"
		}
		all = append(all, expr)
	}
	return "[\"'`]?(?:" + strings.Join(all, "|") + ")"
}
