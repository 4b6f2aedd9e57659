package viewer

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/mapping/semconv"
)

// fields are the columns of the index.
var fields = [...]string{"text", "tool", "agent", "model", "file", "id"}

// failedField is not in the index: the list counts failures.
const failedField = "failed"

// A term is what a search asks for: words that follow each other, in one field or in any.
type term struct {
	field  string   // empty for any
	words  []string // in lower case
	prefix bool     // the last word may go on
}

// A search has terms that all must occur in a session.
type search []term

// What a search costs grows with its terms and words.
const (
	maxTerms = 32
	maxWords = 64
)

var errTooManyWords = fmt.Errorf("a search has at most %d terms and %d words", maxTerms, maxWords)

// parseSearch reads a search: words, "phrases in quotes", and field:word. A word also
// finds longer words that begin with it; a phrase does not.
func parseSearch(text string) (s search, err error) {
	left := maxWords
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		var t term
		if name, rest, ok := strings.Cut(text, ":"); ok {
			if name = strings.ToLower(name); name == failedField || slices.Contains(fields[:], name) {
				t.field, text = name, rest
			}
		}
		var phrase string
		if rest, quoted := strings.CutPrefix(text, `"`); quoted {
			phrase, text, _ = strings.Cut(rest, `"`)
		} else {
			end := strings.IndexFunc(text, unicode.IsSpace)
			if end < 0 {
				end = len(text)
			}
			phrase, text, t.prefix = text[:end], text[end:], true
		}
		for w := range wordsOf(phrase) {
			if left--; left < 0 || len(s) == maxTerms {
				return nil, errTooManyWords
			}
			t.words = append(t.words, w.text)
		}
		if len(t.words) > 0 {
			s = append(s, t)
		}
	}
	return s, nil
}

// match returns the term in the language of the index.
func (t term) match() string {
	match := `"` + strings.Join(t.words, " ") + `"`
	if t.prefix {
		match += " *"
	}
	if t.field != "" {
		match = t.field + " : " + match
	}
	return match
}

// A word is where a word is in a text, and its lower case.
type word struct {
	text     string
	from, to int
}

// wordsOf calls yield with the words of a text, as the index splits it: letters, digits and
// marks are parts of words.
func wordsOf(text string) func(yield func(word) bool) {
	return func(yield func(word) bool) {
		from := -1
		for i, r := range text {
			switch part := unicode.In(r, unicode.L, unicode.N, unicode.Mn, unicode.Co); {
			case part && from < 0:
				from = i
			case !part && from >= 0:
				if !yield(word{strings.ToLower(text[from:i]), from, i}) {
					return
				}
				from = -1
			}
		}
		if from >= 0 {
			yield(word{strings.ToLower(text[from:]), from, len(text)})
		}
	}
}

// maxHump is the length of the longest part of a word that is found. Words of base64 are
// long, and have many.
const maxHump = 100

// humps calls yield with the parts of camelCase words that begin inside, each to the end of
// its word: caseWord and Word of camelCaseWord are found, too.
func humps(text string) func(yield func(word) bool) {
	return func(yield func(word) bool) {
		for i := 1; i < len(text); i++ {
			if a, b := text[i-1], text[i]; a < 'a' || a > 'z' || b < 'A' || b > 'Z' {
				continue
			}
			for w := range wordsOf(text[i:min(i+maxHump, len(text))]) {
				if !yield(word{w.text, i + w.from, i + w.to}) {
					return
				}
				break
			}
		}
	}
}

// A passage is a text of a span, and the field that it belongs to.
type passage struct{ field, text string }

// vocabulary are attributes with values that the conventions list, which nobody looks for.
var vocabulary = map[string]bool{
	semconv.OperationName: true, semconv.ToolType: true, semconv.FinishReasons: true, semconv.MCPMethodName: true, semconv.OpenInferenceKind: true,
}

var fieldsByKey = map[string]string{
	semconv.AgentName: "agent", semconv.RequestModel: "model", semconv.ResponseModel: "model", semconv.ToolName: "tool",
	semconv.ProcessExecutable: "tool", semconv.FilePath: "file", semconv.ConversationID: "id", "session.id": "id", semconv.ResponseID: "id", semconv.ToolCallID: "id",
}

// texts calls add with the texts of a span, decoded, and with its service. add must not keep
// a text.
func texts(s *runs.Span, service string, add func(field string, text []byte)) {
	if !s.Has(semconv.OperationName) {
		add("text", []byte(s.Name))
	}
	s.Each(func(key, text, nested []byte) {
		switch field := fieldsByKey[string(key)]; {
		case vocabulary[string(key)]:
		case field != "":
			add(field, text)
		case nested != nil:
			v := new(commonpb.AnyValue)
			_ = proto.Unmarshal(nested, v) // the span is valid
			strs(plain(v, 0), add)
		default:
			decodeText(text, add)
		}
	})
	add("text", []byte(s.Message))
	add("agent", []byte(service))
	var said []byte // deltas are parts of words
	s.Events(func(e runs.Event) {
		e.Attributes().Each(func(key, text, _ []byte) {
			if string(key) == semconv.DeltaText {
				said = append(said, text...)
			} else {
				add("text", text)
			}
		})
	})
	if !s.Has(semconv.OutputMessages) {
		add("text", said)
	}
}

// decodeText adds the strings of JSON, or else a text as it is.
func decodeText(text []byte, add func(field string, text []byte)) {
	if bytes.HasPrefix(text, []byte("{")) || bytes.HasPrefix(text, []byte("[")) {
		var v any
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		if d.Decode(&v) == nil {
			strs(v, add)
			return
		}
		text = []byte(escapedSpace.Replace(string(text))) // it was cut
	}
	add("text", text)
}

// escapedSpace unescapes white space and quotes of JSON that is not whole.
var escapedSpace = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\"`, `"`)

// strs adds the strings of a JSON value.
func strs(v any, add func(field string, text []byte)) {
	switch v := v.(type) {
	case string:
		add("text", []byte(v))
	case json.Number:
		add("text", []byte(v))
	case []any:
		for _, e := range v {
			strs(e, add)
		}
	case map[string]any:
		part := v["type"] != nil && (v["content"] != nil || v["response"] != nil || v["arguments"] != nil || v["id"] != nil)
		for _, key := range slices.Sorted(maps.Keys(v)) {
			e := v[key]
			switch path, isText := e.(string); {
			case key == "role" && v["parts"] != nil, key == "finish_reason" && v["parts"] != nil, key == "type" && part: // the conventions' words
			case isText && pathKeys[strings.ToLower(strings.ReplaceAll(key, "_", ""))]:
				add("file", []byte(path))
			default:
				strs(e, add)
			}
		}
	}
}

// pathKeys are the arguments of tools that name files.
var pathKeys = map[string]bool{"path": true, "filepath": true, "file": true, "filename": true, "absolutepath": true, "notebookpath": true}

// matching returns the rows of the sessions that have all of a search's terms, in order.
func (s *Store) matching(from querier, of search) (rows []int64, err error) {
	open, err := openPassages(from)
	for i, t := range of {
		var list string
		if err == nil {
			err = one(from, `SELECT coalesce(group_concat(rowid >> 24), '') FROM search WHERE search MATCH ?`, t.match())(&list)
		}
		if err != nil {
			return nil, err
		}
		found := make([]int64, 0, strings.Count(list, ",")+1)
		for number := range strings.SplitSeq(list, ",") {
			if row, err := strconv.ParseInt(number, 10, 64); err == nil { // else there are none
				found = append(found, row)
			}
		}
		for row, passages := range open {
			if slices.ContainsFunc(passages, func(p passage) bool { return len(t.marks(p)) > 0 }) {
				found = append(found, row)
			}
		}
		slices.Sort(found)
		if found = slices.Compact(found); i > 0 {
			found = slices.DeleteFunc(found, func(row int64) bool { _, both := slices.BinarySearch(rows, row); return !both })
		}
		rows = found
	}
	poorer, err := poorerRows(from)
	return slices.DeleteFunc(rows, func(row int64) bool { _, is := slices.BinarySearch(poorer, row); return is }), err
}

// poorerRows returns the rows of the sessions that are copies of others, in order.
func poorerRows(from querier) ([]int64, error) {
	return all[int64](from, `SELECT row FROM session WHERE richer > 0 ORDER BY +row`) // + has it read the short index
}

// openPassages returns the texts of the sessions' open spans, by row. They change every
// second, and are not in the index.
func openPassages(from querier) (map[int64][]passage, error) {
	passages := make(map[int64][]passage)
	err := each(from, func(scan func(...any) error) error {
		var row int64
		var id traceID
		err := scan(&row, &id)
		passages[row] = []passage{{"id", id.String()}}
		return err
	}, `SELECT row, trace FROM session WHERE row IN (SELECT session FROM open)`)
	for row := range passages {
		if err != nil {
			return nil, err
		}
		var open []stored
		open, err = openSpans(from, row)
		for i := range open {
			texts(open[i].read(), open[i].origin.service, func(field string, text []byte) {
				passages[row] = append(passages[row], passage{field, string(text)})
			})
		}
	}
	return passages, err
}

// A Hit is a text of a span that matches a search. The strings of Text alternate between
// context and match, and begin with context.
type Hit struct {
	Span string   `json:"span"`
	Name string   `json:"name"`
	Text []string `json:"text"`
}

// Hits are what a search finds in one session.
type Hits struct {
	Total int   `json:"total"`
	Hits  []Hit `json:"hits"`
}

// maxHits bounds an answer; the total is exact.
const maxHits = 500

// Hits finds where a session has the words of a search.
func (s *Store) Hits(ctx context.Context, id traceID, text string) (found Hits, ok bool, err error) {
	of, err := parseSearch(text)
	if err != nil {
		return found, false, err
	}
	from := s.read.during(ctx)
	row, _, err := s.find(from, id)
	if err != nil || row == 0 {
		return found, false, err
	}
	found.Hits = []Hit{}
	for sp, err := range spansAndOpen(from, row, 0) {
		if err != nil {
			return found, false, err
		}
		span := sp.read()
		texts(span, sp.origin.service, func(field string, text []byte) {
			p := passage{field, string(text)}
			marks := of.marks(p)
			if len(marks) == 0 {
				return
			}
			if found.Total++; len(found.Hits) < maxHits {
				found.Hits = append(found.Hits, Hit{hexID(span.ID), cutText(span.Subject(), maxDetail), excerptOf(p.text, marks)})
			}
		})
	}
	return found, true, nil
}

// marks returns where a passage has one of the terms. Agents, models and ids are on every
// span: they choose sessions and are no hits.
func (s search) marks(p passage) (marks [][2]int) {
	if p.field != "text" && p.field != "tool" && p.field != "file" {
		return nil
	}
	for _, t := range s {
		marks = append(marks, t.marks(p)...)
	}
	slices.SortFunc(marks, func(a, b [2]int) int { return cmp.Compare(a[0], b[0]) })
	return marks
}

// marks returns where a passage has the term.
func (t term) marks(p passage) (marks [][2]int) {
	if t.field != "" && t.field != p.field {
		return nil
	}
	all := slices.Collect(wordsOf(p.text))
	for i := range all {
		if t.at(all[i:]) {
			marks = append(marks, [2]int{all[i].from, all[i+len(t.words)-1].to})
		}
	}
	for w := range humps(p.text) {
		if t.at([]word{w}) {
			marks = append(marks, [2]int{w.from, w.to})
		}
	}
	return marks
}

// at reports whether a text goes on with the term.
func (t term) at(text []word) bool {
	if len(text) < len(t.words) {
		return false
	}
	last := len(t.words) - 1
	for i, w := range t.words {
		goesOn := i == last && t.prefix && strings.HasPrefix(text[i].text, w)
		if text[i].text != w && !goesOn {
			return false
		}
	}
	return true
}

// excerptOf returns the text around the first marks.
func excerptOf(text string, marks [][2]int) []string {
	const before, after = 20, 120
	from, to := max(0, marks[0][0]-before), min(len(text), marks[0][1]+after)
	if i := strings.IndexFunc(text[from:marks[0][0]], unicode.IsSpace); i >= 0 && from > 0 { // whole words
		from += i
	}
	if i := strings.LastIndexFunc(text[marks[0][1]:to], unicode.IsSpace); i >= 0 && to < len(text) {
		to = marks[0][1] + i
	}
	clean := func(part string) string {
		var b strings.Builder
		space := false
		for _, r := range strings.ToValidUTF8(part, "") {
			if unicode.IsSpace(r) || unicode.IsControl(r) {
				if !space {
					b.WriteByte(' ')
				}
				space = true
				continue
			}
			space = false
			b.WriteRune(r)
		}
		return b.String()
	}
	pieces, at := []string{}, from
	if from > 0 {
		pieces = append(pieces, "… ")
	} else {
		pieces = append(pieces, "")
	}
	for _, m := range marks {
		if m[0] < at || m[1] > to {
			continue
		}
		pieces[len(pieces)-1] += clean(text[at:m[0]])
		pieces = append(pieces, clean(cutText(text[m[0]:m[1]], maxDetail)), "")
		at = m[1]
	}
	pieces[len(pieces)-1] += clean(text[at:to])
	if to < len(text) {
		pieces[len(pieces)-1] += " …"
	}
	return pieces
}
