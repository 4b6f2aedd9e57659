package otlp

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"time"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
)

// A stream is a request over HTTP/2.
type stream struct {
	*http2.Framer
	*peer
	id uint32
}

// An http2Server is hostile at certain moments of a connection; a moment that is nil is
// passed as a collector would.
type http2Server struct {
	greeting func(stream) // instead of the settings
	headers  func(stream) // when the headers of a request have come
	answer   func(stream) // when a request has come
}

func (h http2Server) serve(p *peer) {
	if _, err := io.ReadFull(p.in, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	f := http2.NewFramer(p, p.in)
	connection := stream{f, p, 0}
	if h.greeting != nil && p.isHostile() {
		h.greeting(connection)
	} else {
		_ = f.WriteSettings()
	}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		request := stream{f, p, frame.Header().StreamID}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				_ = f.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !frame.IsAck() {
				_ = f.WritePing(true, frame.Data)
			}
		case *http2.HeadersFrame:
			if h.headers != nil && p.isHostile() {
				h.headers(request)
			}
		case *http2.DataFrame:
			if !frame.StreamEnded() {
				continue
			}
			p.received.Add(1)
			if h.answer != nil && p.isHostile() {
				h.answer(request)
			} else {
				request.accept()
			}
		}
	}
}

// send writes headers or trailers.
func (s stream) send(last bool, namesAndValues ...string) {
	fields(s.Framer, s.id, last, namesAndValues...)
}

func (s stream) begin() { s.send(false, ":status", "200", "content-type", "application/grpc") }

// message writes a message with its prefix.
// message writes an empty message.
func (s stream) message() { _ = s.WriteData(s.id, false, framed(0, nil)) }

func framed(flags byte, b []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(b))), b...)
}

func (s stream) end() { s.send(true, "grpc-status", "0") }

// accept answers as a collector does.
func (s stream) accept() {
	s.begin()
	s.message()
	s.end()
}

// fail answers with a status only.
func (s stream) fail(trailers ...string) {
	s.send(true, append([]string{":status", "200", "content-type", "application/grpc"}, trailers...)...)
}

func (s stream) hangUp() { _ = s.Close() }

func partial(n int64, message string) []byte {
	b, _ := proto.MarshalOptions{AllowPartial: true}.Marshal(&coltracepb.ExportTraceServiceResponse{
		PartialSuccess: &coltracepb.ExportTracePartialSuccess{RejectedSpans: n, ErrorMessage: message},
	})
	return b
}

func gzipped(b []byte) []byte {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(b)
	_ = w.Close()
	return packed.Bytes()
}

// zeros unpack to more than a client should take. They take seconds with the race
// detector, and most processes of the tests need none.
var zeros = sync.OnceValue(func() []byte { return gzipped(make([]byte, 40<<20)) })

// details are the trailer of a status with details.
func details(code codes.Code, list ...protoadapt.MessageV1) []string {
	st, err := status.New(code, "busy").WithDetails(list...)
	if err != nil {
		panic(err)
	}
	b, err := proto.Marshal(st.Proto())
	if err != nil {
		panic(err)
	}
	return []string{"grpc-status", fmt.Sprint(int(code)), "grpc-message", "busy", "grpc-status-details-bin", base64.RawStdEncoding.EncodeToString(b)}
}

func grpcServers() (rows []hostile) {
	add := func(name string, server http2Server) *hostile {
		rows = append(rows, hostile{name: name, protocol: "grpc", serve: server.serve})
		return &rows[len(rows)-1]
	}
	answer := func(name string, do func(stream)) *hostile { return add(name, http2Server{answer: do}) }

	// Statuses.
	for code := 1; code <= 17; code++ {
		answer(fmt.Sprintf("status %d", code), func(s stream) { s.fail("grpc-status", fmt.Sprint(code), "grpc-message", "no") })
	}
	for _, code := range []string{"", "-1", "99", "00", "0x0", "14 ", "abc", "4294967296", strings.Repeat("9", 100)} {
		answer("status "+code[:min(len(code), 20)]+" as text", func(s stream) { s.fail("grpc-status", code) })
	}
	answer("status 14 after headers", func(s stream) { s.begin(); s.send(true, "grpc-status", "14") })
	answer("status 14 after a message", func(s stream) { s.begin(); s.message(); s.send(true, "grpc-status", "14") })
	answer("status 13 after a message", func(s stream) { s.begin(); s.message(); s.send(true, "grpc-status", "13") })
	answer("two statuses", func(s stream) { s.begin(); s.message(); s.send(true, "grpc-status", "0", "grpc-status", "14") })
	answer("status in the headers and in the trailers", func(s stream) {
		s.send(false, ":status", "200", "content-type", "application/grpc", "grpc-status", "14")
		s.message()
		s.end()
	})
	for name, message := range map[string]string{
		"percent-encoded badly": "%zz%", "not UTF-8": "%ff%fe", "control characters": "%1b[31m%00%07", "long": strings.Repeat("m", 1<<20), "empty": "", "words of too large": "message larger than max (1 vs. 2)",
	} {
		answer("message "+name, func(s stream) { s.fail("grpc-status", "8", "grpc-message", message) })
	}

	// RetryInfo.
	for name, list := range map[string][]protoadapt.MessageV1{
		"zero": {&errdetails.RetryInfo{RetryDelay: durationpb.New(0)}}, "1 ms": {&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Millisecond)}},
		"negative": {&errdetails.RetryInfo{RetryDelay: durationpb.New(-time.Second)}}, "a year": {&errdetails.RetryInfo{RetryDelay: durationpb.New(365 * 24 * time.Hour)}},
		"beyond a duration": {&errdetails.RetryInfo{RetryDelay: &durationpb.Duration{Seconds: math.MaxInt64, Nanos: math.MaxInt32}}},
		"far below zero":    {&errdetails.RetryInfo{RetryDelay: &durationpb.Duration{Seconds: math.MinInt64, Nanos: math.MinInt32}}},
		"missing":           {new(errdetails.RetryInfo)}, "twice": {&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Millisecond)}, &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Hour)}},
		"another detail": {&errdetails.QuotaFailure{}},
	} {
		answer("unavailable, RetryInfo "+name, func(s stream) { s.fail(details(codes.Unavailable, list...)...) })
		answer("exhausted, RetryInfo "+name, func(s stream) { s.fail(details(codes.ResourceExhausted, list...)...) })
	}
	answer("RetryInfo for another status", func(s stream) {
		s.fail(append([]string{"grpc-status", "14"}, details(codes.ResourceExhausted, new(errdetails.RetryInfo))[4:]...)...)
	})
	answer("details that are no base64", func(s stream) { s.fail("grpc-status", "14", "grpc-status-details-bin", "!!!") })
	answer("details that are no protobuf", func(s stream) { s.fail("grpc-status", "14", "grpc-status-details-bin", "////") })
	answer("details of 8 kB", func(s stream) {
		s.fail("grpc-status", "14", "grpc-status-details-bin", strings.Repeat("A", 8000))
	})

	// Answers without a status, or of something else.
	answer("no trailers", func(s stream) { s.begin(); _ = s.WriteData(s.id, true, framed(0, nil)) })
	answer("trailers without a status", func(s stream) { s.begin(); s.message(); s.send(true, "x", "y") })
	answer("headers only", func(s stream) { s.send(true, ":status", "200", "content-type", "application/grpc") })
	answer("success without a message", func(s stream) { s.begin(); s.end() })
	answer("success in trailers only", func(s stream) { s.fail("grpc-status", "0") })
	for _, kind := range []string{"", "text/plain", "application/json", "application/grpc+json", "application/grpc+proto", "application/grpc; charset=utf-8", "application/grpcx", "APPLICATION/GRPC", "application/grpc-web"} {
		answer("content type "+kind, func(s stream) {
			s.send(false, ":status", "200", "content-type", kind)
			s.message()
			s.end()
		})
	}
	answer("no content type", func(s stream) { s.send(false, ":status", "200"); s.message(); s.end() })
	answer("no status code", func(s stream) { s.send(false, "content-type", "application/grpc"); s.message(); s.end() })
	answer("two status codes", func(s stream) {
		s.send(false, ":status", "200", ":status", "500", "content-type", "application/grpc")
		s.message()
		s.end()
	})
	for _, code := range []int{204, 301, 302, 307, 400, 401, 403, 404, 405, 408, 413, 415, 429, 431, 500, 501, 502, 503, 504, 505, 520, 999} {
		answer(fmt.Sprintf("HTTP status %d", code), func(s stream) { s.send(true, ":status", fmt.Sprint(code), "content-type", "text/html") })
	}
	for _, code := range []string{"100", "101", "103"} {
		answer("informational "+code+" before success", func(s stream) { s.send(false, ":status", code); s.accept() })
	}
	answer("a web page", func(s stream) {
		s.send(false, ":status", "200", "content-type", "text/html")
		_ = s.WriteData(s.id, true, []byte("<html>log in"))
	})

	// Messages.
	response := func(name string, data []byte, headers ...string) *hostile {
		return answer("message: "+name, func(s stream) {
			s.send(false, append([]string{":status", "200", "content-type", "application/grpc"}, headers...)...)
			for chunk := range chunks(data) {
				_ = s.WriteData(s.id, false, chunk)
			}
			s.end()
		})
	}
	response("half a prefix", []byte{0, 0})
	response("shorter than it says", append(framed(0, make([]byte, 100))[:5], 'x'))
	response("no protobuf", framed(0, []byte("\xff\xff\xff")))
	response("two of them", append(framed(0, nil), framed(0, nil)...))
	response("an unknown flag", framed(0x80, nil))
	response("packed, without saying how", framed(1, gzipped(nil)))
	response("packed by an unknown way", framed(1, []byte("x")), "grpc-encoding", "snappy")
	response("packed by gzip", framed(1, gzipped(partial(1, "old"))), "grpc-encoding", "gzip")
	response("packed badly", framed(1, []byte("no gzip")), "grpc-encoding", "gzip")
	response("packed, and cut", framed(1, gzipped(partial(1, "old"))[:12]), "grpc-encoding", "gzip")
	response("packed zeros", framed(1, zeros()), "grpc-encoding", "gzip").big = true
	response("4 GB by its prefix", []byte{0, 0xff, 0xff, 0xff, 0xff, 1})
	response("unknown fields", framed(0, []byte{0xfa, 0x01, 0x03, 'a', 'b', 'c'}))
	response("5 MB", framed(0, partial(0, strings.Repeat("x", 5<<20)))).big = true
	for name, body := range map[string][]byte{
		"nothing": partial(0, ""), "a warning": partial(0, "careful"), "one": partial(1, "old"), "all": partial(10, "old"), "more than there are": partial(11, "old"),
		"a negative number": partial(-1, "old"), "the largest number": partial(math.MaxInt64, "old"), "the smallest number": partial(math.MinInt64, ""), "60 kB of text": partial(1, strings.Repeat("x", 60_000)),
		"not UTF-8": []byte("\x0a\x05\x08\x01\x12\x01\xff"), "of another type": {0x08, 0x01},
	} {
		response("rejects "+name, framed(0, body))
	}

	// Resets and farewells.
	for code := range uint32(14) {
		answer("reset: "+http2.ErrCode(code).String(), func(s stream) { _ = s.WriteRSTStream(s.id, http2.ErrCode(code)) })
	}
	answer("reset: an unknown code", func(s stream) { _ = s.WriteRSTStream(s.id, 0xffff) })
	for _, code := range []http2.ErrCode{http2.ErrCodeNo, http2.ErrCodeInternal, http2.ErrCodeRefusedStream} {
		answer("reset after headers: "+code.String(), func(s stream) { s.begin(); _ = s.WriteRSTStream(s.id, code) })
		answer("reset after a message: "+code.String(), func(s stream) { s.begin(); s.message(); _ = s.WriteRSTStream(s.id, code) })
		answer("reset after success: "+code.String(), func(s stream) { s.accept(); _ = s.WriteRSTStream(s.id, code) })
		add("reset before the request is there: "+code.String(), http2Server{headers: func(s stream) { _ = s.WriteRSTStream(s.id, code) }})
	}
	for _, code := range []http2.ErrCode{http2.ErrCodeNo, http2.ErrCodeEnhanceYourCalm, http2.ErrCodeProtocol} {
		name := "farewell " + code.String()
		add(name+" at once", http2Server{greeting: func(s stream) { _ = s.WriteSettings(); _ = s.WriteGoAway(0, code, nil) }})
		add(name+" at once, and closed", http2Server{greeting: func(s stream) { _ = s.WriteSettings(); _ = s.WriteGoAway(0, code, nil); s.hangUp() }})
		answer(name+" to a request", func(s stream) { _ = s.WriteGoAway(0, code, []byte("calm")) })
		answer(name+" to a request, and closed", func(s stream) { _ = s.WriteGoAway(0, code, nil); s.hangUp() })
		answer(name+" that counts the request, and closed", func(s stream) { _ = s.WriteGoAway(s.id, code, nil); s.hangUp() })
		answer(name+" before success", func(s stream) { _ = s.WriteGoAway(s.id, code, nil); s.accept() })
		answer(name+" after success, and closed", func(s stream) { s.accept(); _ = s.WriteGoAway(s.id, code, nil); s.hangUp() })
	}
	answer("too_many_pings", func(s stream) { _ = s.WriteGoAway(0, http2.ErrCodeEnhanceYourCalm, []byte("too_many_pings")) })
	answer("graceful farewell in two steps", func(s stream) {
		_ = s.WriteGoAway(1<<31-1, http2.ErrCodeNo, nil)
		s.accept()
		_ = s.WriteGoAway(s.id, http2.ErrCodeNo, nil)
	})

	// Frames.
	for name, frame := range map[string]func(stream){
		"data of no stream":      func(s stream) { _ = s.WriteRawFrame(http2.FrameData, 0, 0, []byte("x")) },
		"data of another stream": func(s stream) { _ = s.WriteData(s.id+2, true, []byte("x")) },
		"an unknown type":        func(s stream) { _ = s.WriteRawFrame(0xfe, 0xff, s.id, []byte("x")) },
		"a push": func(s stream) {
			_ = s.WritePushPromise(http2.PushPromiseParam{StreamID: s.id, PromiseID: 2, EndHeaders: true})
		},
		"no more window":            func(s stream) { _ = s.WriteRawFrame(http2.FrameWindowUpdate, 0, s.id, make([]byte, 4)) },
		"a window beyond the limit": func(s stream) { _ = s.WriteWindowUpdate(0, 1<<31-1); _ = s.WriteWindowUpdate(0, 1<<31-1) },
		"settings of odd length":    func(s stream) { _ = s.WriteRawFrame(http2.FrameSettings, 0, 0, []byte("x")) },
		"settings of a stream":      func(s stream) { _ = s.WriteRawFrame(http2.FrameSettings, 0, s.id, nil) },
		"a ping of odd length":      func(s stream) { _ = s.WriteRawFrame(http2.FramePing, 0, 0, []byte("x")) },
		"an answer to no ping":      func(s stream) { _ = s.WritePing(true, [8]byte{1}) },
		"an answer to no settings":  func(s stream) { _ = s.WriteSettingsAck() },
		"a lone continuation":       func(s stream) { _ = s.WriteContinuation(s.id, true, nil) },
		"headers that cannot be read": func(s stream) {
			_ = s.WriteRawFrame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, s.id, []byte("\xff\xff\xff\xff\xff\xff"))
		},
		"headers without an end": func(s stream) {
			_ = s.WriteRawFrame(http2.FrameHeaders, 0, s.id, nil)
			_ = s.WritePing(false, [8]byte{})
		},
		"a priority of itself":      func(s stream) { _ = s.WritePriority(s.id, http2.PriorityParam{StreamDep: s.id}) },
		"a reset of no stream":      func(s stream) { _ = s.WriteRawFrame(http2.FrameRSTStream, 0, 0, make([]byte, 4)) },
		"a frame of 1 MB":           func(s stream) { _ = s.WriteRawFrame(http2.FrameData, 0, s.id, make([]byte, 1<<20)) },
		"a frame longer than it is": func(s stream) { _, _ = s.Write([]byte{0, 0x40, 0, 0, 0, 0, 0, 0, byte(s.id), 'x'}) },
		"pings": func(s stream) {
			for range 1000 {
				_ = s.WritePing(false, [8]byte{})
			}
		},
		"settings, a thousand times": func(s stream) {
			for range 1000 {
				_ = s.WriteSettings()
			}
		},
		"empty data": func(s stream) {
			s.begin()
			for range 1000 {
				_ = s.WriteData(s.id, false, nil)
			}
			s.message()
			s.end()
		},
		"data one by one": func(s stream) {
			s.begin()
			for _, b := range framed(0, nil) {
				_ = s.WriteData(s.id, false, []byte{b})
			}
			s.end()
		},
		"padded data": func(s stream) {
			s.begin()
			_ = s.WriteDataPadded(s.id, false, framed(0, nil), make([]byte, 255))
			s.end()
		},
		"upper-case names": func(s stream) {
			s.send(false, ":status", "200", "Content-Type", "application/grpc")
			s.message()
			s.end()
		},
		"unknown pseudo headers": func(s stream) {
			s.send(false, ":status", "200", ":x", "y", "content-type", "application/grpc")
			s.message()
			s.end()
		},
		"success twice":              func(s stream) { s.accept(); s.accept() },
		"success, then refusal":      func(s stream) { s.accept(); s.fail("grpc-status", "14") },
		"success for another stream": func(s stream) { stream{s.Framer, s.peer, s.id + 2}.accept() },
		"data before headers":        func(s stream) { s.message(); s.end() },
	} {
		answer("frames: "+name, frame)
	}

	// Settings.
	for name, setting := range map[string]http2.Setting{
		"no streams": {ID: http2.SettingMaxConcurrentStreams, Val: 0}, "no window": {ID: http2.SettingInitialWindowSize, Val: 0}, "a tiny window": {ID: http2.SettingInitialWindowSize, Val: 1},
		"an impossible window": {ID: http2.SettingInitialWindowSize, Val: 1 << 31}, "no frames": {ID: http2.SettingMaxFrameSize, Val: 0}, "frames of any size": {ID: http2.SettingMaxFrameSize, Val: 1<<32 - 1},
		"no header table": {ID: http2.SettingHeaderTableSize, Val: 0}, "tiny headers": {ID: http2.SettingMaxHeaderListSize, Val: 1}, "push": {ID: http2.SettingEnablePush, Val: 1}, "an unknown one": {ID: 0xffff, Val: 7},
	} {
		add("settings: "+name, http2Server{greeting: func(s stream) { _ = s.WriteSettings(setting) }})
	}
	add("settings: none", http2Server{greeting: func(stream) {}})
	add("settings: late", http2Server{greeting: func(stream) {}, answer: func(s stream) { _ = s.WriteSettings(); s.accept() }})
	add("settings: after an answer", http2Server{greeting: func(s stream) { _ = s.WriteSettingsAck() }})

	// Connections that end, and waits.
	answer("hangs up on a request", stream.hangUp)
	answer("hangs up after headers", func(s stream) { s.begin(); s.hangUp() })
	answer("hangs up within a message", func(s stream) { s.begin(); _ = s.WriteData(s.id, false, []byte{0, 0}); s.hangUp() })
	answer("hangs up after a message", func(s stream) { s.begin(); s.message(); s.hangUp() })
	answer("hangs up after success", func(s stream) { s.accept(); s.hangUp() })
	add("hangs up after the settings", http2Server{greeting: func(s stream) { _ = s.WriteSettings(); s.hangUp() }})
	add("hangs up after the headers of a request", http2Server{headers: stream.hangUp})
	answer("never answers", func(stream) {})
	answer("answers a little", stream.begin)
	answer("answers without a status", func(s stream) { s.begin(); s.message() })
	answer("answers late", func(s stream) { <-time.After(300 * time.Millisecond); s.accept() })
	answer("sends data without end", func(s stream) {
		s.begin()
		for data := make([]byte, 16_000); s.WriteData(s.id, false, data) == nil; {
		}
	}).big = true
	answer("sends pings without end", func(s stream) {
		for s.WritePing(false, [8]byte{}) == nil {
		}
	}).big = true

	// Headers.
	answer("a header of 15 kB", func(s stream) { s.fail("grpc-status", "0", "x", strings.Repeat("x", 15_000)) })
	answer("a thousand headers", func(s stream) {
		list := []string{":status", "200", "content-type", "application/grpc"}
		for i := range 100 {
			list = append(list, fmt.Sprint("x-", i), strings.Repeat("x", 100))
		}
		s.send(false, list...)
		s.message()
		s.end()
	})
	answer("a trailer of 15 kB", func(s stream) {
		s.begin()
		s.message()
		s.send(true, "grpc-status", "0", "x", strings.Repeat("x", 15_000))
	})
	answer("continuations without end", func(s stream) {
		var b bytes.Buffer
		_ = hpack.NewEncoder(&b).WriteField(hpack.HeaderField{Name: "x", Value: strings.Repeat("x", 10_000)})
		err := s.WriteHeaders(http2.HeadersFrameParam{StreamID: s.id, BlockFragment: b.Bytes()})
		for err == nil {
			err = s.WriteContinuation(s.id, false, b.Bytes())
		}
	}).big = true
	answer("a bomb of headers", func(s stream) { // each byte stands for 4 kB
		var b bytes.Buffer
		e := hpack.NewEncoder(&b)
		for range 10_000 {
			_ = e.WriteField(hpack.HeaderField{Name: "x", Value: strings.Repeat("x", 3000)})
		}
		_ = s.WriteHeaders(http2.HeadersFrameParam{StreamID: s.id, BlockFragment: b.Bytes(), EndHeaders: true, EndStream: true})
	}).big = true
	return rows
}

// chunks cuts data into what fits into a frame.
func chunks(data []byte) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(data) > 0 {
			n := min(len(data), 16_000)
			if !yield(data[:n]) {
				return
			}
			data = data[n:]
		}
	}
}
