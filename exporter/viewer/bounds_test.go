package viewer

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/exporter/receiver"
	"github.com/spantee/spantee/mapping/semconv"
)

// hostile fills a store with long names, many of them open, and many resources.
func hostile(s testStore) {
	long := strings.Repeat("\x01é", 40_000)
	sessions := 6
	if os.Getenv("SPANTEE_THOROUGH") != "" {
		sessions = 30
	}
	for i := range sessions {
		name := fmt.Sprint(i) + long
		root := fails(span(i+1, 1, 0, "invoke_agent "+name, 1, 9, str(semconv.RequestModel, name), str(semconv.ConversationID, name), str(semconv.ErrorType, name)))
		tool := fails(span(i+1, 2, 1, "execute_tool "+name, 1, 2, str(semconv.ToolCallID, name), str(semconv.ProcessCommandLine, name), str(semconv.ErrorType, name)))
		if i%2 == 0 {
			s.Add(from(name, root, tool))
		} else {
			s.Open(fmt.Sprint(i), from(name, root, tool))
		}
	}
	var many, open []*tracepb.Span
	for i := range 30 {
		many = append(many, span(100, i+1, 0, fmt.Sprint(i)+long, 1, 2, str(semconv.InputMessages, long)))
		open = append(open, span(101, i+1, 0, fmt.Sprint(i)+long, 1, 2, str(semconv.InputMessages, long)))
	}
	s.Add(from("many", many...))
	s.Open("open", from("open", open...))
	var resources []*tracepb.ResourceSpans
	for i := range 5000 {
		resources = append(resources, &tracepb.ResourceSpans{
			Resource: &resourcepb.Resource{Attributes: []*commonpb.KeyValue{str(keyService, fmt.Sprint(i)), str("long", long[:1500])}},
			ScopeSpans: []*tracepb.ScopeSpans{{Spans: []*tracepb.Span{
				span(102, i+1, 0, "execute_tool x", 1, 2),
			}}},
		})
	}
	s.Add(resources)
}

// Whatever senders name their spans, no answer is large.
func TestAnswersAreBounded(t *testing.T) {
	v := start(t, Config{})
	hostile(on(t, v.Store))
	paths := []string{"/api/sessions", "/api/sessions?q=zzz", "/api/sessions?q=%C3%A9", "/api/runs"}
	for _, trace := range []int{1, 2, 100, 101, 102} {
		id := idOf(span(trace, 1, 0, "", 0, 0)).String()
		paths = append(paths, "/api/sessions/"+id, "/api/sessions/"+id+"/steps", "/api/sessions/"+id+"/spans/0000000000000001")
	}
	for _, path := range paths {
		resp, body := ask(t, v, http.MethodGet, path, "")
		if resp.StatusCode != http.StatusOK || len(body) > 16<<20 {
			t.Errorf("%s: %d, %d bytes: %.100s", path, resp.StatusCode, len(body), body)
		}
	}
	s, bars := on(t, v.Store), 0
	for more, since := true, int64(0); more; {
		part, _ := s.Overview(idOf(span(102, 1, 0, "", 0, 0)), since)
		bars += len(part.Spans)
		more, since = part.More, part.Seq
	}
	if bars != 5000 {
		t.Errorf("%d spans of 5,000", bars)
	}
}

// However many clients are slow, few of them are served at once, and those for a
// limited time.
func TestConnectionsAreBounded(t *testing.T) {
	v := start(t, Config{})
	address := strings.TrimSuffix(strings.TrimPrefix(v.URL(), "http://"), "/")
	var slow []net.Conn
	for range receiver.MaxConnections + 50 {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\n"); err != nil {
			t.Fatal(err)
		}
		slow = append(slow, c)
	}
	for i, c := range slow[receiver.MaxConnections:] { // the end, not a timeout, is what they read
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Errorf("connection %d was answered", receiver.MaxConnections+i)
		}
	}
	for _, c := range slow {
		c.Close()
	}
}
