package viewer

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/mapping/semconv"
)

// A testStore fails the test where a Store returns an error.
type testStore struct {
	*Store
	t *testing.T
}

func on(t *testing.T, s *Store) testStore { return testStore{s, t} }

// newStore returns a store in memory.
func newStore(t *testing.T, retain ...Retention) testStore {
	t.Helper()
	s, err := NewStore(append(retain, Retention{})[0], func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return on(t, s)
}

// openStore opens a database for a time.
func openStore(t *testing.T, path string) testStore {
	t.Helper()
	s, err := Open(path, Retention{}, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	return on(t, s)
}

func newPath(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "spantee", "sessions.db")
}

func (s testStore) ok(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s testStore) Add(spans []*tracepb.ResourceSpans) int {
	s.t.Helper()
	rejected, err := s.Store.Add(encode(s.t, spans))
	s.ok(err)
	return rejected
}

func (s testStore) Open(source string, spans []*tracepb.ResourceSpans) {
	s.t.Helper()
	s.Store.Open(source, encode(s.t, spans))
}

// encode returns an encoded TracesData.
func encode(t *testing.T, spans []*tracepb.ResourceSpans) []byte {
	t.Helper()
	request, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	must(t, err)
	return request
}

func (s testStore) List(q Query) List {
	s.t.Helper()
	l, err := s.Store.List(s.t.Context(), q)
	s.ok(err)
	return l
}

func (s testStore) Runs(q RunsQuery) Runs {
	s.t.Helper()
	a, err := s.Store.Runs(s.t.Context(), q)
	s.ok(err)
	return a
}

func (s testStore) Session(id traceID) (Session, bool) {
	s.t.Helper()
	session, ok, err := s.Store.Session(s.t.Context(), id)
	s.ok(err)
	return session, ok
}

func (s testStore) Spans(id traceID, since int64) ([]Span, int64) {
	s.t.Helper()
	spans, seq, err := s.Store.Spans(s.t.Context(), id, since)
	s.ok(err)
	return spans, seq
}

func (s testStore) Overview(id traceID, since int64) (Overview, bool) {
	s.t.Helper()
	o, ok, err := s.Store.Overview(s.t.Context(), id, since)
	s.ok(err)
	return o, ok
}

func (s testStore) Changes(since int64, limit int) ([]traceID, int64) {
	s.t.Helper()
	ids, seq, err := s.Store.Changes(since, limit)
	s.ok(err)
	return ids, seq
}

// number returns what a query counts.
func (s testStore) number(query string) (n int) {
	s.t.Helper()
	s.ok(one(s.read, query)(&n))
	return n
}

// nth is a session with one span for the agent, and so many of tools.
func nth(n, tools int) []*tracepb.ResourceSpans {
	random := rand.New(rand.NewPCG(uint64(n), 0))
	list := []*tracepb.Span{span(n+1, 1, 0, "invoke_agent cursor-agent", uint64(n), uint64(n)+100, str(semconv.RequestModel, "GPT-5"),
		str(semconv.InputMessages, fmt.Sprintf(`[{"role":"user","parts":[{"type":"text","content":"Fix the failing test number%d of the package"}]}]`, n)))}
	for i := range tools {
		list = append(list, span(n+1, i+2, 1, "execute_tool shell", uint64(n), uint64(n)+random.Uint64N(100), str(semconv.AgentName, "cursor-agent"), integer(semconv.TurnNumber, 3),
			str(semconv.ProcessCommandLine, fmt.Sprintf("go test -run Test%d ./package%d", random.IntN(1000), random.IntN(1000)))))
	}
	return from("cursor-agent", list...)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
