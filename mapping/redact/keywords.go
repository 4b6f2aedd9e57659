package redact

import "strings"

// A matcher finds many words in one pass, in any case: the automaton of Aho
// and Corasick, with a table for every state.
type matcher struct {
	class   [256]uint8 // of a byte: 0 if it is in no word
	classes int
	next    []uint16   // by state and class; ends marks those in which a word ends
	words   [][]uint16 // that end in a state
	length  []int      // of a word
}

const ends = 1 << 15

func newMatcher(words []string) *matcher {
	m := &matcher{classes: 1, words: [][]uint16{nil}}
	for _, w := range words {
		m.length = append(m.length, len(w))
		for _, c := range []byte(strings.ToLower(w)) {
			if m.class[c] == 0 {
				m.class[c] = uint8(m.classes)
				m.classes++
			}
		}
	}
	for c := byte('A'); c <= 'Z'; c++ {
		m.class[c] = m.class[c+'a'-'A']
	}

	m.next = make([]uint16, m.classes)
	for i, w := range words { // the trie
		state := 0
		for _, c := range []byte(w) {
			to := &m.next[state*m.classes+int(m.class[c])]
			if *to == 0 {
				*to = uint16(len(m.words))
				m.words = append(m.words, nil)
				state = int(*to)
				m.next = append(m.next, make([]uint16, m.classes)...)
				continue
			}
			state = int(*to)
		}
		m.words[state] = append(m.words[state], uint16(i))
	}

	fail := make([]int, len(m.words)) // where the longest proper suffix leads
	queue := []int{0}
	for len(queue) > 0 {
		state := queue[0]
		queue = queue[1:]
		for c := range m.classes {
			to := &m.next[state*m.classes+c]
			other := int(m.next[fail[state]*m.classes+c])
			switch {
			case *to != 0 && state != 0:
				fail[*to] = other
				m.words[*to] = append(m.words[*to], m.words[other]...)
				queue = append(queue, int(*to))
			case *to != 0:
				queue = append(queue, int(*to))
			case state != 0:
				*to = uint16(other)
			}
		}
	}
	for i, to := range m.next {
		if len(m.words[to]) > 0 {
			m.next[i] |= ends
		}
	}
	return m
}

// find calls hit for every word in text with where it begins and ends.
func (m *matcher) find(text string, hit func(word, start, end int)) {
	state := 0
	for i := range len(text) {
		to := m.next[state*m.classes+int(m.class[text[i]])]
		state = int(to &^ ends)
		if to&ends != 0 {
			for _, w := range m.words[state] {
				hit(int(w), i+1-m.length[w], i+1)
			}
		}
	}
}
