package receiver

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
)

func TestMain(m *testing.M) {
	// The server lingers for half a second on a connection it closes early.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

type handler = func(context.Context, []*tracepb.ResourceSpans) (Rejected, error)

func start(t *testing.T, handle handler) *Receiver {
	t.Helper()
	r, err := Start(Config{Handle: func(ctx context.Context, request []byte) (Rejected, error) {
		data := new(tracepb.TracesData)
		if err := proto.Unmarshal(request, data); err != nil {
			t.Error(err)
		}
		return handle(ctx, data.ResourceSpans)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func takeAll(context.Context, []*tracepb.ResourceSpans) (Rejected, error) { return Rejected{}, nil }

// post sends body to r; encodings are its Content-Type and Content-Encoding.
func post(t *testing.T, r *Receiver, body []byte, encodings ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.HTTPEndpoint()+"/v1/traces", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i, header := range []string{"Content-Type", "Content-Encoding"}[:len(encodings)] {
		req.Header.Set(header, encodings[i])
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// overGRPC returns a client of r that is closed when the test ends.
func overGRPC(t *testing.T, r *Receiver) coltracepb.TraceServiceClient {
	t.Helper()
	conn, err := grpc.NewClient(strings.TrimPrefix(r.GRPCEndpoint(), "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return coltracepb.NewTraceServiceClient(conn)
}

func export(t *testing.T, r *Receiver, req *coltracepb.ExportTraceServiceRequest) error {
	t.Helper()
	_, err := overGRPC(t, r).Export(t.Context(), req)
	return err
}

// request is one of about so many bytes.
func request(size int) *coltracepb.ExportTraceServiceRequest {
	return &coltracepb.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{{
		ScopeSpans: []*tracepb.ScopeSpans{{Spans: []*tracepb.Span{{TraceId: make([]byte, size)}}}},
	}}}
}

func marshal(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func gzipped(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestLimits(t *testing.T) {
	r := start(t, takeAll)
	if err := export(t, r, request(4<<20-100)); err != nil {
		t.Errorf("gRPC, just under 4 MiB: %v", err)
	}
	if err := export(t, r, request(4<<20)); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("gRPC, over 4 MiB: %v", err)
	}
	if code, body := post(t, r, marshal(t, request(20<<20-100)), typeProtobuf); code != http.StatusOK {
		t.Errorf("HTTP, just under 20 MiB: %d %q", code, body)
	}
	if code, body := post(t, r, marshal(t, request(20<<20)), typeProtobuf); code != http.StatusBadRequest {
		t.Errorf("HTTP, over 20 MiB: %d %q", code, body)
	}
	if code, body := post(t, r, gzipped(t, marshal(t, request(1<<20))), typeProtobuf, "gzip"); code != http.StatusOK {
		t.Errorf("HTTP, packed: %d %q", code, body)
	}
	bomb := bytes.Repeat(gzipped(t, make([]byte, 1<<20)), 20+1)
	if code, body := post(t, r, bomb, typeProtobuf, "gzip"); code != http.StatusBadRequest || !strings.Contains(body, "too large") {
		t.Errorf("HTTP, unpacked over 20 MiB: %d %q", code, body)
	}
}

func TestBombOverGRPC(t *testing.T) {
	r := start(t, takeAll)
	_, err := overGRPC(t, r).Export(t.Context(), request(64<<20), grpc.UseCompressor("gzip"))
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("64 MiB packed into 64 KiB: %v", err)
	}
}

// Requests of one connection share its window: none must wait for another one before it
// is read.
func TestBigRequestsAtOnce(t *testing.T) {
	r := start(t, takeAll)
	client := overGRPC(t, r)
	var sending sync.WaitGroup
	for i := range 8 {
		sending.Go(func() {
			var packing []grpc.CallOption
			if i%2 == 0 {
				packing = append(packing, grpc.UseCompressor("gzip"))
			}
			if _, err := client.Export(t.Context(), request(3<<20), packing...); err != nil {
				t.Error(err)
			}
		})
	}
	sending.Wait()
}

// A client that announces a message and sends nothing stops nobody else.
func TestStalledClient(t *testing.T) {
	r := start(t, takeAll)
	conn := dial(t, r.GRPCEndpoint())
	stall(t, conn, 1)
	if _, err := overGRPC(t, r).Export(t.Context(), request(3<<20), grpc.UseCompressor("gzip")); err != nil {
		t.Error(err)
	}
}

// Clients that stall keep a bounded number of requests in memory. Others are told to try
// again, and succeed once one of them has gone.
func TestStalledClients(t *testing.T) {
	r := start(t, takeAll)
	var conns []net.Conn
	for range maxRequests / maxStreams {
		conn := dial(t, r.GRPCEndpoint())
		stall(t, conn, maxStreams)
		conns = append(conns, conn)
	}
	client := overGRPC(t, r)
	export := func() codes.Code {
		_, err := client.Export(t.Context(), request(1))
		return status.Code(err)
	}
	await(t, func() bool { return export() == codes.Unavailable })
	conns[0].Close()
	await(t, func() bool { return export() == codes.OK })
}

// Only so many connections are open at a time. Others are closed, until there is room.
func TestConnections(t *testing.T) {
	r := start(t, takeAll)
	fill := func(endpoint, greeting string) (leave func() error) {
		var conns []net.Conn
		for range MaxConnections {
			conns = append(conns, dial(t, endpoint))
		}
		if _, err := io.Copy(io.Discard, dial(t, endpoint)); err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
		if _, err := io.WriteString(conns[0], greeting); err != nil {
			t.Error(err)
		}
		if _, err := conns[0].Read(make([]byte, 1)); err != nil {
			t.Error("another was closed:", err)
		}
		return conns[0].Close
	}
	leave := fill(r.GRPCEndpoint(), http2.ClientPreface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	leave()
	if _, err := overGRPC(t, r).Export(t.Context(), request(1), grpc.WaitForReady(true)); err != nil {
		t.Error(err)
	}
	leave = fill(r.HTTPEndpoint(), "GET / HTTP/1.0\r\n\r\n")
	leave()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	await(t, func() bool {
		resp, err := client.Get(r.HTTPEndpoint())
		if err != nil {
			return false
		}
		return resp.Body.Close() == nil
	})
}

// await waits until ok returns true.
func await(t *testing.T, ok func() bool) {
	t.Helper()
	for !ok() {
		if t.Context().Err() != nil {
			t.Fatal("in vain")
		}
		runtime.Gosched()
	}
}

func dial(t *testing.T, endpoint string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(endpoint, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// stall announces messages of 3 MiB, and sends nothing of them.
func stall(t *testing.T, conn net.Conn, messages int) {
	t.Helper()
	io.WriteString(conn, http2.ClientPreface)
	frames := http2.NewFramer(conn, conn)
	if err := errors.Join(frames.WriteSettings(), frames.WriteSettingsAck()); err != nil {
		t.Fatal(err)
	}
	var header bytes.Buffer
	fields := hpack.NewEncoder(&header)
	for n := range messages {
		header.Reset()
		for _, f := range [][2]string{
			{":method", "POST"},
			{":scheme", "http"},
			{":authority", "a"},
			{":path", "/opentelemetry.proto.collector.trace.v1.TraceService/Export"},
			{"content-type", "application/grpc"},
			{"grpc-encoding", "gzip"},
			{"te", "trailers"},
		} {
			fields.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
		}
		stream := uint32(2*n + 1)
		if err := errors.Join(
			frames.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: header.Bytes(), EndHeaders: true}),
			frames.WriteData(stream, false, []byte("\x01\x00\x30\x00\x00"))); err != nil {
			t.Fatal(err)
		}
	}
}

// A page must not send spans: not even one whose own name points here.
func TestPagesAreRefused(t *testing.T) {
	r := start(t, takeAll)
	for _, method := range []string{http.MethodPost, http.MethodOptions} {
		req, err := http.NewRequestWithContext(t.Context(), method, r.HTTPEndpoint()+"/v1/traces", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", typeJSON)
		req.Header.Set("Origin", "http://evil.example")
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode/100 != 4 || resp.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %d %v", method, resp.StatusCode, resp.Header)
		}
	}
}

func TestJSON(t *testing.T) {
	var got []*tracepb.ResourceSpans
	r := start(t, func(_ context.Context, spans []*tracepb.ResourceSpans) (Rejected, error) {
		got = spans
		return Rejected{Spans: 1}, nil
	})
	// From the example in the OTLP specification, with a link and an unknown field.
	code, body := post(t, r, []byte(`{"resourceSpans": [{"scopeSpans": [{"unknown": {"a": [1]}, "spans": [{
		"traceId": "5B8EFFF798038103D269B633813FC60C", "spanId": "EEE19B7EC3C1B174", "parentSpanId": "",
		"name": "chat", "kind": 3, "startTimeUnixNano": "1544712660000000001", "endTimeUnixNano": 1544712661000000000,
		"attributes": [{"key": "n", "value": {"intValue": "9007199254740993"}}],
		"status": {"code": 2, "message": "late"}, "links": [{"traceId": "00000000000000000000000000000001", "spanId": "0000000000000002"}]
	}]}]}]}`), "application/json; charset=utf-8")
	if code != http.StatusOK || strings.ReplaceAll(body, " ", "") != `{"partialSuccess":{"rejectedSpans":"1"}}` {
		t.Errorf("%d %s", code, body)
	}
	want := []*tracepb.Span{{
		TraceId:           []byte("\x5b\x8e\xff\xf7\x98\x03\x81\x03\xd2\x69\xb6\x33\x81\x3f\xc6\x0c"),
		SpanId:            []byte("\xee\xe1\x9b\x7e\xc3\xc1\xb1\x74"),
		Name:              "chat",
		Kind:              tracepb.Span_SPAN_KIND_CLIENT,
		StartTimeUnixNano: 1544712660000000001,
		EndTimeUnixNano:   1544712661000000000,
		Attributes:        []*commonpb.KeyValue{{Key: "n", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: 1<<53 + 1}}}},
		Status:            &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: "late"},
		Links:             []*tracepb.Span_Link{{TraceId: append(make([]byte, 15), 1), SpanId: append(make([]byte, 7), 2)}},
	}}
	if diff := cmp.Diff(want, got[0].ScopeSpans[0].Spans, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if code, body := post(t, r, []byte("{"), typeJSON); code != http.StatusBadRequest || !strings.HasPrefix(strings.ReplaceAll(body, " ", ""), `{"code":3,"message":"`) {
		t.Errorf("%d %s", code, body)
	}
}

func TestNoRequests(t *testing.T) {
	r := start(t, takeAll)
	tests := []struct {
		name, body string
		encodings  []string
		code       int
	}{
		{"nothing is a request, too", "", []string{typeProtobuf}, http.StatusOK},
		{"no type", "", nil, http.StatusUnsupportedMediaType},
		{"a form", "a=b", []string{"application/x-www-form-urlencoded"}, http.StatusUnsupportedMediaType},
		{"no protobuf", "\xff\xff", []string{typeProtobuf}, http.StatusBadRequest},
		{"no JSON", "{", []string{typeJSON}, http.StatusBadRequest},
		{"deep JSON", strings.Repeat("[", 1<<20), []string{typeJSON}, http.StatusBadRequest},
		{"no hex", `{"resourceSpans":[{"scopeSpans":[{"spans":[{"spanId":"zzzz"}]}]}]}`, []string{typeJSON}, http.StatusBadRequest},
		{"no gzip", "plain", []string{typeProtobuf, "gzip"}, http.StatusBadRequest},
		{"zstd", "", []string{typeProtobuf, "zstd"}, http.StatusBadRequest},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if code, body := post(t, r, []byte(tt.body), tt.encodings...); code != tt.code {
				t.Errorf("%d %q, want %d", code, body, tt.code)
			}
		})
	}
}

func TestErrorsReachTheClient(t *testing.T) {
	tests := []struct {
		err  error
		grpc codes.Code
		http int
	}{
		{status.Error(codes.InvalidArgument, ""), codes.InvalidArgument, 400},
		{status.Error(codes.Unauthenticated, ""), codes.Unauthenticated, 401},
		{status.Error(codes.PermissionDenied, ""), codes.PermissionDenied, 403},
		{status.Error(codes.Unimplemented, ""), codes.Unimplemented, 404},
		{status.Error(codes.ResourceExhausted, ""), codes.ResourceExhausted, 429},
		{status.Error(codes.Unavailable, ""), codes.Unavailable, 503},
		{context.Canceled, codes.Canceled, 503},
		{errors.New("disk full"), codes.Internal, 500},
		{errors.New("\xff"), codes.Internal, 500},
	}
	for _, tt := range tests {
		r := start(t, func(context.Context, []*tracepb.ResourceSpans) (Rejected, error) { return Rejected{}, tt.err })
		if err := export(t, r, request(1)); status.Code(err) != tt.grpc {
			t.Errorf("gRPC: %v, want %v", err, tt.grpc)
		}
		if code, body := post(t, r, marshal(t, request(1)), typeProtobuf); code != tt.http {
			t.Errorf("HTTP: %d %q, want %d", code, body, tt.http)
		}
	}
}

func TestCloseBreaksOffRequests(t *testing.T) {
	handling := make(chan bool, 2)
	r := start(t, func(ctx context.Context, _ []*tracepb.ResourceSpans) (Rejected, error) {
		handling <- true
		<-ctx.Done()
		return Rejected{}, ctx.Err()
	})
	answers := make(chan error, 2)
	client := overGRPC(t, r)
	go func() {
		_, err := client.Export(t.Context(), request(1))
		answers <- err
	}()
	go func() {
		c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := c.Post(r.HTTPEndpoint()+"/v1/traces", typeProtobuf, nil)
		if err == nil {
			resp.Body.Close()
			err = errors.New(resp.Status) // the handler may still have answered
		}
		answers <- err
	}()
	<-handling
	<-handling
	r.Close()
	for range 2 {
		if err := <-answers; err == nil {
			t.Error("a request was answered")
		}
	}
}

func TestAddressInUse(t *testing.T) {
	r := start(t, takeAll)
	used := strings.TrimPrefix(r.GRPCEndpoint(), "http://")
	for _, cfg := range []Config{{GRPC: used}, {HTTP: used}} {
		if _, err := Start(cfg); err == nil {
			t.Errorf("%+v: started on an address in use", cfg)
		}
	}
}
