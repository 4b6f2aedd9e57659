package viewer

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/spool"
	"github.com/spantee/spantee/mapping/semconv"
)

// A source's open spans are those of its last report.
func TestOpenSpans(t *testing.T) {
	s := newStore(t)
	now := time.Now()
	doubted := &commonpb.KeyValue{Key: semconv.Doubts, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: &commonpb.ArrayValue{
		Values: []*commonpb.AnyValue{{Value: &commonpb.AnyValue_StringValue{StringValue: semconv.DoubtOpenCalls}}},
	}}}}
	root := func() *tracepb.Span {
		return fails(span(1, 1, 0, "invoke_agent cursor-agent", 1, 9, str(semconv.ErrorType, "killed"), doubted))
	}
	tool := span(1, 3, 1, "execute_tool shell go", 5, 9, str(semconv.ProcessCommandLine, "go test\n ./..."))
	s.openAt("p", encode(t, from("a", root(), span(1, 2, 1, "chat GPT-5", 1, 9, str(semconv.OperationName, "chat")))), now)
	got, ok := s.Session(idOf(tool))
	if !ok || got.Ended || got.Failure != "" || got.Doubts != nil || got.ToolErrors != 0 || got.Now == nil || got.Now.Op != "chat" || got.Now.Event != "" {
		t.Fatalf("waiting for the model: %+v %+v", got, got.Now)
	}

	s.Add(from("a", span(1, 2, 1, "chat GPT-5", 1, 5)))
	s.openAt("p", encode(t, from("a", root(), span(1, 2, 1, "chat GPT-5", 1, 9, str(semconv.OperationName, "chat")), tool)), now.Add(time.Second)) // the chat's end overtook this
	got, _ = s.Session(idOf(tool))
	if got.Now.What != "shell go" || got.Now.Text != "go test ./..." || got.Now.Since != 5e6 || got.Spans != 3 || got.Tools != 1 {
		t.Errorf("a tool: %+v %+v", got, got.Now)
	}
	o, _ := s.Overview(idOf(tool), 0)
	if len(o.Spans) != 1 || len(o.Open) != 2 || !o.Open[0].Open || o.Open[0].Failure != "" {
		t.Errorf("%+v", o)
	}

	// The page counts on from when the last report was read, not from when the last span came.
	s.alive([]string{"p"}, now.Add(70*time.Second))
	got, _ = s.Session(idOf(tool))
	if n := got.Now; n.Read != now.Add(70*time.Second).UnixMicro() || n.LastReport != 9e6+69e6 || n.LastActivity != 5e6 {
		t.Errorf("70 s of silence: %+v", n)
	}
	now = now.Add(69 * time.Second)

	// Nobody will end what a dead process had open.
	s.expire(now.Add(time.Second + silence - 1))
	if got, _ = s.Session(idOf(tool)); got.Now.Gone {
		t.Error("gone too early")
	}
	_, seq := s.Changes(0, 0)
	s.expire(now.Add(time.Second + silence))
	if ids, _ := s.Changes(seq, 10); len(ids) != 1 {
		t.Errorf("told of %v", ids)
	}
	if got, _ = s.Session(idOf(tool)); !got.Now.Gone {
		t.Error("not gone")
	}

	// It was only suspended, and ends well.
	s.openAt("p", encode(t, from("a", root(), tool)), now.Add(time.Minute))
	if got, _ = s.Session(idOf(tool)); got.Now.Gone {
		t.Error("still gone")
	}
	s.Add(from("a", span(1, 1, 0, "invoke_agent cursor-agent", 1, 9), tool))
	if got, _ = s.Session(idOf(tool)); got.Now != nil || !got.Ended || got.Spans != 3 {
		t.Errorf("ended: %+v", got)
	}
	s.expire(now.Add(time.Hour))
	if got, _ = s.Session(idOf(tool)); got.Now != nil || s.number(`SELECT count(DISTINCT source) FROM open`) > 0 {
		t.Errorf("an hour later: %+v, %d sources", got, s.number(`SELECT count(DISTINCT source) FROM open`))
	}
}

// What spantee notes in a silence does not end it. An agent that asks its user waits, whatever else
// is open.
func TestSilenceAndApprovalNow(t *testing.T) {
	s := newStore(t)
	root := span(1, 1, 0, "invoke_agent cursor-agent", 1, 65)
	root.Events = []*tracepb.Span_Event{{Name: semconv.EventStall, TimeUnixNano: 25e9}, {Name: semconv.EventLimit, TimeUnixNano: 60e9}}
	chat := span(1, 2, 1, "chat GPT-5", 2, 65)
	chat.Events = []*tracepb.Span_Event{{Name: semconv.EventTextDelta, TimeUnixNano: 5e9}}
	s.Open("p", from("a", root, chat))
	if got, _ := s.Session(idOf(root)); got.Now.LastActivity != 5e6 || got.Now.LastReport != 65e6 {
		t.Errorf("silent since 5: %+v", got.Now)
	}
	s.Open("p", from("a", root, span(1, 3, 1, "execute_tool shell npm", 6, 65), span(1, 4, 1, "await_approval shell", 6, 65), span(1, 5, 1, "execute_tool read", 6, 65)))
	if got, _ := s.Session(idOf(root)); got.Now.Op != "approval" {
		t.Errorf("asks its user: %+v", got.Now)
	}
}

// What is open comes with the last of several answers, also if the spans that ended fill an answer.
func TestOpenSpansFollow(t *testing.T) {
	s := newStore(t)
	var ended []*tracepb.Span
	for i := range 5000 {
		ended = append(ended, span(1, i+2, 1, "chat x", 1, 2))
	}
	root := span(1, 1, 0, "invoke_agent x", 1, 2)
	s.Open("p", from("a", root))
	for _, n := range []int{1, 1600, 1700, 1800, 5000} {
		s.Add(from("a", ended[:n]...))
		bars, o := 0, Overview{}
		for more := true; more; more = o.More {
			o, _ = s.Overview(idOf(root), o.Seq)
			bars += len(o.Spans)
		}
		if bars != n || len(o.Open) != 1 {
			t.Errorf("%d spans, %d open, want %d and 1", bars, len(o.Open), n)
		}
	}
}

// Until the first stamp of a stream its ids are provisional. Who looks at the
// trace follows it, and nothing of the old one stays.
func TestProvisionalTraceMoves(t *testing.T) {
	s := newStore(t)
	before := span(1, 1, 0, "invoke_agent x", 1, 2, str(semconv.ConversationID, "c"))
	after := span(2, 1, 0, "invoke_agent x", 1, 2, str(semconv.ConversationID, "c"))
	s.Open("p", from("a", before))
	s.Add(from("a", span(2, 2, 1, "chat x", 1, 2)))
	s.Open("p", from("a", after))
	if l := s.List(Query{Limit: 9}); l.Total != 1 {
		t.Errorf("%+v", l)
	}
	o, ok := s.Overview(idOf(before), 17)
	if !ok || o.Session.ID != idOf(after).String() || len(o.Spans) != 1 {
		t.Errorf("%+v", o)
	}
	other := span(3, 1, 0, "invoke_agent x", 1, 2, str(semconv.ConversationID, "d"))
	final := span(4, 1, 0, "invoke_agent x", 1, 2, str(semconv.ConversationID, "d"))
	s.Open("p", from("a", after, other))
	s.Open("p", from("a", after, final)) // of two, it is the one of its conversation
	if o, _ := s.Overview(idOf(other), 0); o.Session.ID != idOf(final).String() {
		t.Errorf("%+v", o)
	}
	s.Open("p", nil)
	if s.number(`SELECT count(DISTINCT source) FROM open`) != 0 {
		t.Errorf("%d sources", s.number(`SELECT count(DISTINCT source) FROM open`))
	}
}

// eventually waits until something is as expected.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	timeout := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-time.After(time.Millisecond):
		case <-timeout:
			t.Fatalf("never: %s", what)
		}
	}
}

// appendTo writes what a process has open to its log.
func appendTo(t *testing.T, l *spool.Log, spans ...*tracepb.Span) {
	t.Helper()
	var snapshot spool.Snapshot
	for _, s := range spans {
		b, err := proto.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		snapshot.Open = append(snapshot.Open, &spool.Span{Wire: spool.AppendSpan(nil, b), Of: new(spool.Origin)})
	}
	if err := l.Append(nil, &snapshot); err != nil {
		t.Fatal(err)
	}
}

// What running processes have open is shown, if they send their spans to this viewer.
func TestRunningProcesses(t *testing.T) {
	state, endpoint := filepath.Join(t.TempDir(), "state"), ""
	t.Run("open", func(t *testing.T) { endpoint = seesProcesses(t, state) })
	if endpoint == "" || ReceivesAt(state, endpoint) || ReceivesAt(t.TempDir(), endpoint) {
		t.Error("the viewer is said to be there after its end")
	}
}

func seesProcesses(t *testing.T, state string) (endpoint string) {
	v := start(t, Config{GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", StateDir: state})
	stranger := spool.In(state).NewLog(spool.Destination{Protocol: "grpc", Endpoint: "http://localhost:1"}, nil)
	defer stranger.Close("", nil)
	appendTo(t, stranger, span(99, 1, 0, "invoke_agent x", 1, 2))
	for i, endpoint := range []string{v.GRPCEndpoint(), v.HTTPEndpoint(), v.HTTPEndpoint() + "/v1/traces", v.URL()} {
		open := span(i+1, 1, 0, "invoke_agent x", 1, 2)
		l := spool.In(state).NewLog(spool.Destination{Protocol: "grpc", Endpoint: endpoint}, nil)
		appendTo(t, l, open)
		eventually(t, "open", func() bool {
			got, ok := on(t, v.Store).Session(idOf(open))
			return ok && got.Now != nil && got.Now.LastReport > 0
		})
		if !ReceivesAt(state, endpoint) {
			t.Errorf("nobody knows that a viewer is at %s", endpoint)
		}
		l.Close("", nil)
		eventually(t, "closed", func() bool { // it never ended: its id was provisional
			_, ok := on(t, v.Store).Session(idOf(open))
			return !ok
		})
	}
	if on(t, v.Store).number(`SELECT count(*) FROM open`) != 0 {
		t.Errorf("%d sources", on(t, v.Store).number(`SELECT count(*) FROM open`))
	}
	for _, endpoint := range []string{"http://localhost:1", "http://collector.example:4317", strings.Replace(v.GRPCEndpoint(), "http", "https", 1), "", "::"} {
		if ReceivesAt(state, endpoint) {
			t.Errorf("a viewer is said to be at %q", endpoint)
		}
	}
	return v.GRPCEndpoint()
}

// A span lasts as long as its process lives, however long that writes nothing; one that has
// ended, and that the process holds back, does not.
func TestOpenSpansLast(t *testing.T) {
	s := newStore(t)
	now := time.Now()
	ms := uint64(time.Millisecond)
	root, chat := span(1, 1, 0, "invoke_agent x", 0, 0), span(1, 2, 1, "chat y", 0, 0)
	root.StartTimeUnixNano, root.EndTimeUnixNano = ms, 9000*ms
	chat.StartTimeUnixNano, chat.EndTimeUnixNano = ms, 8000*ms
	ends := func() (ends []int64) {
		o, _ := s.Overview(idOf(root), 0)
		for _, b := range o.Open {
			ends = append(ends, b.End/1000)
		}
		return ends
	}
	s.openAt("p", encode(t, from("a", root, chat)), now)
	if got := ends(); !slices.Equal(got, []int64{9000, 8000}) {
		t.Errorf("at once, they end at %v ms", got)
	}
	if err := s.alive([]string{"p"}, now.Add(5*time.Second)); err != nil {
		t.Fatal(err)
	}
	if got := ends(); !slices.Equal(got, []int64{14000, 8000}) {
		t.Errorf("after 5 s, they end at %v ms", got)
	}
	s.expire(now.Add(5*time.Second + silence))
	if got, _ := s.Session(idOf(root)); !got.Now.Gone {
		t.Error("not gone")
	}
	if err := s.alive([]string{"p"}, now.Add(time.Minute)); err != nil { // it was only suspended
		t.Fatal(err)
	}
	if got, _ := s.Session(idOf(root)); got.Now.Gone {
		t.Error("still gone")
	}
}

// A page elsewhere must not be able to show anything here.
func TestSpansAreNotForPages(t *testing.T) {
	v := start(t, Config{})
	for _, path := range []string{"/v1/traces", "/api/files"} {
		resp, body := ask(t, v, "POST", path, "")
		if resp.StatusCode != 403 || strings.Contains(body, "{") {
			t.Errorf("%s: %d %s", path, resp.StatusCode, body)
		}
	}
}
