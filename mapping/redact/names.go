package redact

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// A class is what a name says about its value.
type class int

const (
	noSecret class = iota
	password       // may be a plain word
	secret         // may be a long one
	key            // is letters and digits
	phrase         // is a dozen words or two
)

// keyOf are the words before key that make a key secret.
var keyOf = []string{
	"api", "access", "private", "secret", "auth", "signing", "sign", "encryption", "encrypt", "account", "storage", "service",
	"license", "master", "deploy", "ssh", "shared", "sharedaccess", "subscription", "consumer", "session", "hmac", "jwt",
	"webhook", "admin", "root", "app", "application", "client", "crypto", "cipher", "aes", "rsa", "tls", "ssl", "security", "preshared",
	"authentication", "authorization", "pre", "unseal", "recovery",
}

// further are the words that may follow in a name without changing its meaning,
// without the digits that they end with.
var further = map[string]bool{
	"": true, "prod": true, "production": true, "dev": true, "staging": true, "test": true, "live": true,
	"root": true, "admin": true, "ro": true, "rw": true, "old": true, "new": true, "value": true, "b": true, "base": true,
	"default": true, "main": true, "backup": true, "primary": true, "secondary": true, "plain": true, "plaintext": true, "string": true,
	"set": true, "data": true, "part": true, "half": true, "piece": true,
}

// classOf returns the class of a name, in any style: dbPassword, DB_PASSWORD and
// db-password are the same.
func classOf(name string) class {
	c, _ := classify(name)
	return c
}

// classify is like classOf, but also knows the names of lists: api_keys.
func classify(name string) (c class, plural bool) {
	if !mayName(name) {
		return noSecret, false
	}
	var room [8]string
	words := splitName(room[:0], name)
	for len(words) > 1 && further[strings.TrimRight(words[len(words)-1], digits)] {
		words = words[:len(words)-1]
	}
	if len(words) == 0 {
		return noSecret, false
	}
	last := strings.TrimRight(words[len(words)-1], "0123456789")
	before := ""
	if len(words) > 1 {
		before = words[len(words)-2]
	}
	if c := classOfWord(name, last, before, len(words)); c != noSecret {
		return c, last == "credentials"
	}
	if one, ok := strings.CutSuffix(last, "s"); ok && one != "pas" && one != "pass" {
		if c := classOfWord(name, one, before, len(words)); c != noSecret {
			return c, true
		}
	}
	return noSecret, false
}

// nameWords are the words one of which is in every name that says something about its
// value, headers included.
var nameWords = sync.OnceValue(func() *matcher {
	return newMatcher([]string{
		"pass", "pwd", "pw", "psk", "auth", "mnemonic", "phrase", "secret", "credential", "token", "salt", "key", "cookie",
	})
})

// mayName reports whether a name may say something about its value. Most do not,
// and to split a name takes ten times as long.
func mayName(name string) bool {
	return nameWords().in(name) || strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf })
}

// classOfWord returns the class of a name by its last two words.
func classOfWord(name, last, before string, words int) class {
	switch {
	case last == "pwd" && words == 1 && isEnv(name), last == "oldpwd":
		return noSecret // a directory
	case hasSuffix(last, "password", "passwd", "passphrase", "passcode", "pwd"), last == "pass" && words > 1, isPassOf(last), last == "pw" && words > 1,
		last == "psk", last == "requirepass", last == "masterauth":
		return password
	case last == "mnemonic", last == "phrase" && before == "seed":
		return phrase
	case last == "pass":
		return key
	case hasSuffix(last, "secret", "credential", "credentials"):
		return secret
	case hasSuffix(last, "token"):
		if slices.Contains(counted, before) {
			return noSecret // of pages, not of doors
		}
		return key
	case last == "salt" && isEnv(name) && words > 1:
		return key
	}
	if what, ok := strings.CutSuffix(last, "key"); ok && (slices.Contains(keyOf, cmp.Or(what, before)) || what != "" && hasSuffix(what, keyOf...)) {
		return key
	}
	return noSecret
}

// isPassOf reports whether a word is a compound such as dbpass. Not every word that
// ends in pass is: bypass.
func isPassOf(word string) bool {
	of, ok := strings.CutSuffix(word, "pass")
	return ok && slices.Contains([]string{"db", "user", "my", "root", "admin", "smtp", "mail", "ftp", "ssh", "sql", "ldap", "bind", "http", "proxy", "auth"}, of)
}

// counted are the words before token that make a token harmless.
var counted = []string{
	"next", "page", "continuation", "sync", "max", "min", "total", "input", "output", "prompt", "completion", "cached", "reasoning", "num",
	"special", "color", "design", "pagination",
}

// splitName splits a name into lower-case words, which it appends to words.
func splitName(words []string, name string) []string {
	start := 0
	cut := func(end int) {
		if end > start {
			words = append(words, strings.ToLower(name[start:end]))
		}
	}
	for i := range len(name) {
		switch c := name[i]; {
		case c == '_' || c == '-' || c == '.':
			cut(i)
			start = i + 1
		case isUpper(c) && i > start && !isUpper(name[i-1]):
			cut(i)
			start = i
		}
	}
	cut(len(name))
	return words
}

// isEnv reports whether a name is written like an environment variable.
func isEnv(name string) bool {
	for i := range len(name) {
		if c := name[i]; c != '_' && !isUpper(c) && (c < '0' || '9' < c) {
			return false
		}
	}
	return true
}

// isHeader reports whether a name is that of an X- header.
func isHeader(name string) bool {
	return len(name) > 2 && (name[0] == 'x' || name[0] == 'X') && name[1] == '-'
}
