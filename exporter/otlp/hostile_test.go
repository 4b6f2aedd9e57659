package otlp

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/otlp/endpoint"
)

// serveHTTP2 runs a server that reads requests, and answers each with what answer writes.
func serveHTTP2(t *testing.T, answer func(*http2.Framer, uint32)) (url string) {
	t.Helper()
	return "http://" + serveConns(t, func(conn net.Conn) {
		defer conn.Close()
		if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
			return
		}
		frames := http2.NewFramer(conn, conn)
		_ = frames.WriteSettings()
		for {
			frame, err := frames.ReadFrame()
			if err != nil {
				return
			}
			switch frame := frame.(type) {
			case *http2.SettingsFrame:
				if !frame.IsAck() {
					_ = frames.WriteSettingsAck()
				}
			case *http2.DataFrame:
				if frame.StreamEnded() {
					answer(frames, frame.StreamID)
				}
			}
		}
	})
}

// fields writes headers or trailers.
func fields(frames *http2.Framer, stream uint32, last bool, namesAndValues ...string) {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for i := 0; i < len(namesAndValues); i += 2 {
		_ = e.WriteField(hpack.HeaderField{Name: namesAndValues[i], Value: namesAndValues[i+1]})
	}
	_ = frames.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: b.Bytes(), EndHeaders: true, EndStream: last})
}

// Servers that do not answer as a collector does: the spans are kept, whatever they do.
func TestHostileServers(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "60000")
	ok := []string{":status", "200", "content-type", "application/grpc"}
	for name, test := range map[string]struct {
		answer func(*http2.Framer, uint32)
		cause  string
	}{
		"resets the stream": {func(f *http2.Framer, s uint32) { _ = f.WriteRSTStream(s, http2.ErrCodeInternal) }, "RST_STREAM"},
		"resets it within an answer": {func(f *http2.Framer, s uint32) {
			fields(f, s, false, ok...)
			_ = f.WriteRSTStream(s, http2.ErrCodeProtocol)
		}, "RST_STREAM"},
		"says goodbye":                {func(f *http2.Framer, s uint32) { _ = f.WriteGoAway(0, http2.ErrCodeEnhanceYourCalm, []byte("calm")) }, ""},
		"sends frames of no sense":    {func(f *http2.Framer, s uint32) { _ = f.WriteRawFrame(http2.FrameData, 0, 0, []byte("x")) }, ""},
		"has a web page":              {func(f *http2.Framer, s uint32) { fields(f, s, true, ":status", "200", "content-type", "text/html") }, "text/html"},
		"has no such page":            {func(f *http2.Framer, s uint32) { fields(f, s, true, ":status", "404") }, "404"},
		"wants a login":               {func(f *http2.Framer, s uint32) { fields(f, s, true, ":status", "302", "location", "/login") }, "302"},
		"is a proxy without a server": {func(f *http2.Framer, s uint32) { fields(f, s, true, ":status", "502") }, "502"},
		"answers without end": {func(f *http2.Framer, s uint32) {
			fields(f, s, false, ok...)
			for f.WriteData(s, false, make([]byte, 16_000)) == nil {
			}
		}, ""},
		"has a long header": {func(f *http2.Framer, s uint32) {
			fields(f, s, true, append(ok, "grpc-status", "13", "x", strings.Repeat("x", 15_000))...)
		}, "Internal"},
	} {
		failed := errorOf(t, Config{Endpoint: serveHTTP2(t, test.answer)})
		switch {
		case failed == nil:
			t.Errorf("%s: accepted", name)
		case name == "has a long header": // the one proper answer among them
			if failed.Verdict != exporter.Permanent {
				t.Errorf("%s: %s %v", name, verdictOf(failed), failed)
			}
		case failed.Verdict == exporter.Permanent, failed.Verdict == exporter.Partial, failed.Verdict == exporter.TooLarge,
			test.cause != "" && errors.Is(failed, endpoint.ErrTimeout), !strings.Contains(failed.Error(), test.cause):
			t.Errorf("%s: %s %v, want %q", name, verdictOf(failed), failed, test.cause)
		}
	}
}
