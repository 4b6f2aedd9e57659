package viewer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spantee/spantee/exporter/runs"
)

// A Query says which sessions to list.
type Query struct {
	Search        string // see parseSearch
	Failed        bool   // only where something failed
	Running       bool   // only with open spans
	Since         int64  // only those that started then or later, in microseconds since 1970
	Agent, Model  string
	Folder        string
	Sort          string // one of columns; by the start if it is another
	Ascending     bool
	Limit, Offset int
	After         int64 // a List's Seq: sessions that did not change since are not sent again
}

// A List is the answer to a Query: the latest sessions, how many more there are,
// and the agents, models and folders to choose from.
type List struct {
	Seq      int64     `json:"seq"`      // pass it as After next time
	Order    []string  `json:"order"`    // ids
	Sessions []Session `json:"sessions"` // that changed after After, in this order
	Matching int       `json:"matching"`
	Total    int       `json:"total"`
	Spans    int       `json:"spans"` // of all
	Agents   []string  `json:"agents"`
	Models   []string  `json:"models"`
	Folders  []string  `json:"folders"`
	Kept     Kept      `json:"kept"`

	// Unindexed is how many sessions a search does not know whole yet.
	Unindexed int `json:"unindexed,omitempty"`
}

// maxListed bounds the sessions in a list.
const maxListed = 500

// columns are the values that a list can be sorted by, besides the start.
var columns = []string{"duration", "tools", "errors", "input", "output", "cost"}

// List answers a Query. Its error may be errTooManyWords.
func (s *Store) List(ctx context.Context, q Query) (l List, err error) {
	from := s.read.during(ctx)
	if l, err = s.offer(from, q); err != nil {
		return l, err
	}
	where, args, found, err := s.conditions(from, q)
	if err != nil {
		return l, err
	}
	switch {
	case len(args) == 0:
		l.Matching = l.Total
	case len(args) == 1 && found != nil:
		l.Matching = len(found)
	default:
		if err := one(from, `SELECT count(*) FROM session WHERE `+where, args...)(&l.Matching); err != nil {
			return l, err
		}
	}
	rows, err := all[int64](from, q.selecting(where, l.Matching <= fewRows), append(args, q.Limit, q.Offset)...)
	if err == nil {
		err = s.inOrder(from, &l, rows, q.After)
	}
	if err == nil {
		l.Kept, err = s.kept(from, time.Now())
	}
	return l, err
}

// conditions returns what SQL finds the sessions of a query by, and the rows that the
// full-text index found, nil without a search.
func (s *Store) conditions(from querier, q Query) (where string, args []any, found []int64, err error) {
	where = "richer = 0"
	add := func(condition string, arg any) {
		where += " AND " + condition
		args = append(args, arg)
	}
	if q.Failed {
		add(`failed = ?`, true)
	}
	if q.Running {
		add(`row IN (SELECT session FROM open WHERE session > ?)`, 0)
	}
	if q.Since > 0 {
		add(`started >= ?`, q.Since)
	}
	for _, is := range [][2]string{{`agent = ?`, q.Agent}, {`model = ?`, q.Model}, {`folder = ?`, q.Folder}} {
		if is[1] != "" {
			add(is[0], is[1])
		}
	}
	found, outcomes, err := s.search(from, q.Search)
	for _, failed := range outcomes {
		add(`failed = ?`, failed)
	}
	if found == nil {
		return where, args, nil, err
	}
	if len(found) <= fewRows {
		list, _ := json.Marshal(found) // numbers: without error
		add(`row IN (SELECT value FROM json_each(?))`, string(list))
	} else { // SQL finds a byte at each row faster than so many numbers in a list
		has := make([]byte, found[len(found)-1]+1)
		for _, row := range found {
			has[row] = 1
		}
		add(`substr(?, row + 1, 1) = x'01'`, has)
	}
	return where, args, found, err
}

// search returns the rows of the sessions that have the words of a search, in order, nil if it has
// no words; and whether it asks for sessions that failed, or did not.
func (s *Store) search(from querier, text string) (found []int64, outcomes []bool, err error) {
	terms, err := parseSearch(text)
	var words search
	for _, t := range terms {
		if t.field == failedField {
			outcomes = append(outcomes, strings.HasPrefix("yes", t.words[0]))
		} else {
			words = append(words, t)
		}
	}
	if len(words) > 0 {
		found, err = s.matching(from, words)
	}
	return found, outcomes, err
}

// selecting returns the statement that selects sessions in the order of the query.
func (q Query) selecting(where string, few bool) string {
	direction, ties := `DESC`, `row DESC`
	if q.Ascending {
		direction, ties = `ASC`, `row`
	}
	column := q.Sort
	if !slices.Contains(columns, column) {
		column, ties = `started`, map[bool]string{false: `trace`, true: `trace DESC`}[q.Ascending] // as in the index; ids are the same in every database
	}
	if few {
		column = `+` + column // which no index has: they are found and sorted
	}
	return fmt.Sprintf(`SELECT row FROM session WHERE %s ORDER BY %s %s, %s LIMIT ? OFFSET ?`, where, column, direction, ties)
}

// fewRows is how many rows are looked for one by one, or sorted, rather than found by reading
// all in the order of an index.
const fewRows = 1000

// inOrder reads the ids of rows, and those of their sessions that changed after a number.
func (s *Store) inOrder(from querier, l *List, rows []int64, after int64) error {
	list, _ := json.Marshal(rows) // numbers: without error
	ids := make(map[int64]traceID)
	err := each(from, func(scan func(...any) error) error {
		var row int64
		var id traceID
		err := scan(&row, &id)
		ids[row] = id
		return err
	}, `SELECT row, trace FROM session WHERE row IN (SELECT value FROM json_each(?))`, string(list))
	if err != nil {
		return err
	}
	found, at, err := s.sessions(from, listed+`WHERE row IN (SELECT value FROM json_each(?)) AND seq > ?`, string(list), after)
	l.Order, l.Sessions = []string{}, []Session{}
	for _, row := range rows {
		if id, ok := ids[row]; ok { // not if it was removed meanwhile
			l.Order = append(l.Order, id.String())
		}
		if i := slices.Index(at, row); i >= 0 {
			l.Sessions = append(l.Sessions, found[i])
		}
	}
	return err
}

// offer returns a List without sessions: what there is to choose from.
func (s *Store) offer(from querier, q Query) (l List, err error) {
	if err := one(from, `SELECT seq FROM clock`)(&l.Seq); err != nil { // before anything else is read
		return l, err
	}
	agents, models, folders := make(map[string]bool), make(map[string]bool), make(map[string]bool)
	l.Agents, l.Models, l.Folders = []string{}, []string{}, []string{}
	err = each(from, func(scan func(...any) error) error {
		var agent, model, folder string
		var sessions, spans int
		if err := scan(&agent, &model, &folder, &sessions, &spans); err != nil {
			return err
		}
		l.Total += sessions
		l.Spans += spans
		choose(&l.Agents, agents, agent)
		choose(&l.Models, models, model)
		choose(&l.Folders, folders, folder)
		return nil
	}, `SELECT agent, model, folder, sessions, spans FROM facet`)
	slices.Sort(l.Agents)
	slices.Sort(l.Models)
	slices.Sort(l.Folders)
	if err == nil && q.Search != "" {
		l.Unindexed, err = s.catchUp(from)
	}
	return l, err
}

// choose adds a name to those that a list offers, as many as it holds.
func choose(list *[]string, known map[string]bool, name string) {
	if name != "" && !known[name] && len(*list) < maxListed {
		known[name] = true
		*list = append(*list, name)
	}
}

// Find returns the spans of the session whose id begins with prefix, or of the
// latest session if prefix is empty.
func (s *Store) Find(ctx context.Context, prefix string) ([]*runs.Span, error) {
	id, err := s.named(ctx, prefix)
	if err != nil {
		return nil, err
	}
	spans, _, err := s.Spans(ctx, id, 0)
	list := make([]*runs.Span, len(spans))
	for i := range spans {
		list[i] = runs.Of(spans[i].Span)
	}
	return list, err
}

// DeletePrefix removes the session whose id begins with prefix.
func (s *Store) DeletePrefix(ctx context.Context, prefix string) error {
	if prefix == "" {
		return errors.New("no id")
	}
	id, err := s.named(ctx, prefix)
	if err == nil {
		_, err = s.Delete(id)
	}
	return err
}

// named returns the session whose id begins with prefix, or the latest one if prefix is empty.
func (s *Store) named(ctx context.Context, prefix string) (id traceID, err error) {
	found, err := all[traceID](s.read.during(ctx), `SELECT trace FROM session WHERE row IN (SELECT iif(richer > 0, richer, row) FROM session WHERE substr(lower(hex(trace)), 1, length(?1)) = ?1) ORDER BY started DESC, trace`, strings.ToLower(prefix))
	switch {
	case err != nil:
		return id, err
	case len(found) == 0 && prefix == "":
		return id, errors.New("no sessions are kept")
	case len(found) == 0:
		return id, fmt.Errorf("no session whose id begins with %q", prefix)
	case len(found) > 1 && prefix != "":
		return id, fmt.Errorf("%d sessions have an id that begins with %q", len(found), prefix)
	}
	return found[0], nil
}
