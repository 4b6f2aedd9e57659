package redact

import (
	"strings"
	"unicode/utf8"
)

// A matcher finds many words in one pass, ignoring case. A table of the first three
// bytes of all words rules out more than nine of ten positions. The table fits in the L1
// cache, and unlike the states of an automaton, its look-ups do not depend on each other.
type matcher struct {
	class      [256]uint8 // of a byte: 0 if it is in no word
	classes    int
	beginnings [1 << (3 * classBits) / 64]uint64 // which three classes begin a word
	next       []uint16                          // the trie: by node and class, 0 where no word goes on
	words      [][]uint16                        // that end in a node
	foreign    map[uint16]string                 // the words with other bytes than ASCII, all of which have one class
}

// classBits is the number of bits of a class in the table.
const classBits = 6

func newMatcher(words []string) *matcher {
	m := &matcher{classes: 2, words: [][]uint16{nil}, foreign: map[uint16]string{}}
	for c := utf8.RuneSelf; c < len(m.class); c++ {
		m.class[c] = 1
	}
	for _, w := range words {
		for _, c := range []byte(w) {
			if m.class[c] == 0 {
				m.class[c] = uint8(m.classes)
				m.classes++
			}
		}
	}
	if m.classes > 1<<classBits {
		panic("the words have too many different bytes")
	}
	for c := byte('A'); c <= 'Z'; c++ {
		m.class[c] = m.class[c+'a'-'A']
	}
	m.next = make([]uint16, m.classes)
	for i, w := range words {
		m.addBeginning(w)
		if strings.ContainsFunc(w, func(r rune) bool { return r >= utf8.RuneSelf }) {
			m.foreign[uint16(i)] = w
		}
		node := 0
		for _, c := range []byte(w) {
			to := &m.next[node*m.classes+int(m.class[c])]
			if *to == 0 {
				*to = uint16(len(m.words))
				m.words = append(m.words, nil)
				node = int(*to) // append moves next
				m.next = append(m.next, make([]uint16, m.classes)...)
				continue
			}
			node = int(*to)
		}
		m.words[node] = append(m.words[node], uint16(i))
	}
	return m
}

// addBeginning adds the first three classes of a word to the table; of a word of two
// bytes, with whatever follows.
func (m *matcher) addBeginning(w string) {
	two := uint32(m.class[w[0]])<<classBits | uint32(m.class[w[1]])
	for third := range uint32(1 << classBits) {
		if len(w) == 2 || third == uint32(m.class[w[2]]) {
			at := two<<classBits | third
			m.beginnings[at/64] |= 1 << (at % 64)
		}
	}
}

// find calls hit with the position of every word in text, ordered by start.
func (m *matcher) find(text string, hit func(word, start, end int)) {
	const three = 1<<(3*classBits) - 1
	at := uint32(0) // the classes of the latest bytes
	for i := range len(text) {
		at = at<<classBits | uint32(m.class[text[i]])
		if m.beginnings[(at&three)/64]&(1<<(at%64)) != 0 && i >= 2 {
			m.from(text, i-2, hit)
		}
	}
	if n := len(text); n >= 2 { // a word of two bytes at the end
		m.from(text, n-2, hit)
	}
}

// in reports whether one of the words is in text.
func (m *matcher) in(text string) bool {
	any := false
	m.find(text, func(int, int, int) { any = true })
	return any
}

// from calls hit for the words that begin at start.
func (m *matcher) from(text string, start int, hit func(word, start, end int)) {
	node := 0
	for i := start; i < len(text); i++ {
		if node = int(m.next[node*m.classes+int(m.class[text[i]])]); node == 0 {
			return
		}
		for _, w := range m.words[node] {
			if foreign := m.foreign[w]; foreign == "" || strings.EqualFold(foreign, text[start:i+1]) {
				hit(int(w), start, i+1)
			}
		}
	}
}
