package unary

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// call sends a message to a server that handle describes.
func call(t *testing.T, message []byte, handle http.HandlerFunc) ([]byte, error) {
	t.Helper()
	s := httptest.NewUnstartedServer(handle)
	s.Config.Protocols = Protocols()
	s.Start()
	defer s.Close()
	client := &http.Client{Transport: &http.Transport{Protocols: Protocols()}}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return Call(ctx, client, Request{URL: s.URL + "/a.Service/Method", UserAgent: "test", Message: message})
}

func TestMessages(t *testing.T) {
	for _, message := range []string{"", "a", strings.Repeat("0123456789", 300_000)} {
		got, err := call(t, []byte(message), func(w http.ResponseWriter, r *http.Request) {
			length, encoding, err := ReadPrefix(r)
			if !IsRequest(r) || encoding != "" || err != nil {
				t.Errorf("not a request: %q, %v", encoding, err)
			}
			body, err := io.ReadAll(r.Body)
			if string(body) != message || length != int64(len(message)) || err != nil {
				t.Errorf("%d bytes of %d, %v", len(body), len(message), err)
			}
			Respond(w, []byte("answer"))
		})
		if string(got) != "answer" || err != nil {
			t.Errorf("%d bytes: %q, %v", len(message), got, err)
		}
	}
}

// TestAnswers has servers that do not answer as they should.
func TestAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		answer, status string
		message        string
		code           codes.Code
	}{
		"without a status":        {"\x00\x00\x00\x00\x00", "", "", codes.Unavailable},
		"without a message":       {"", "0", "", codes.OK},
		"badly compressed":        {"\x01\x00\x00\x00\x01a", "0", "", codes.OK},
		"with an odd status":      {"", "good", "", codes.Unknown},
		"with more than needed":   {"\x00\x00\x00\x00\x01abc", "0", "a", codes.OK},
		"too large":               {"\x00\x00\x10\x00\x00" + strings.Repeat("x", 1<<20), "0", "", codes.OK},
		"too large, and an error": {"\x00\x00\x10\x00\x00" + strings.Repeat("x", 1<<20), "9", "", codes.FailedPrecondition},
	} {
		answer := func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/grpc+proto")
			w.Header().Set("Trailer", statusHeader)
			io.WriteString(w, test.answer)
			if test.status != "" {
				w.Header().Set(statusHeader, test.status)
			}
		}
		got, err := call(t, []byte("question"), answer)
		if string(got) != test.message || status.Code(err) != test.code {
			t.Errorf("%s: %.20q, %v, want %q and %v", name, got, err, test.message, test.code)
		}
	}
}

func TestNotFromAGRPCServer(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"a page":  func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") },
		"no page": http.NotFound,
		"busy": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(http.StatusServiceUnavailable)
		},
	} {
		_, err := call(t, nil, answer)
		if e, ok := errors.AsType[*HTTPError](err); !ok || e.Error() == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBrokenOff(t *testing.T) {
	for name, answer := range map[string]string{"before the answer": "", "within the answer": "\x00\x00\x00\x00\x05ab"} {
		_, err := call(t, nil, func(w http.ResponseWriter, _ *http.Request) {
			if answer != "" {
				w.Header().Set("Content-Type", contentType)
				io.WriteString(w, answer)
				w.(http.Flusher).Flush()
			}
			panic(http.ErrAbortHandler)
		})
		if _, ok := errors.AsType[*url.Error](err); !ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTheMessageIsFree has a server that answers before it has read the request. Under
// the race detector, the write fails if anybody still reads the message.
func TestTheMessageIsFree(t *testing.T) {
	for range 20 {
		message := make([]byte, 1<<20)
		_, err := call(t, message, func(w http.ResponseWriter, _ *http.Request) { Respond(w, nil) })
		if err == nil {
			message[0], message[len(message)-1] = 1, 1
		}
	}
}

func TestStatus(t *testing.T) {
	for _, want := range []*status.Status{
		status.New(codes.Unavailable, ""),
		status.New(codes.ResourceExhausted, "100 % full:\n größer als \"4 MiB\""),
		status.New(codes.Code(77), "of a later version"),
		status.New(codes.Internal, "\xff"),
	} {
		h := http.Header{}
		writeStatus(h, want)
		got := readStatus(h)
		if got.Code() != want.Code() || got.Message() != strings.ToValidUTF8(want.Message(), "\uFFFD") {
			t.Errorf("%v became %v by %v", want, got, h)
		}
	}
	want, err := status.New(codes.Unavailable, "later").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	_, err = call(t, nil, func(w http.ResponseWriter, _ *http.Request) { Refuse(w, want) })
	got, _ := status.FromError(err)
	if diff := cmp.Diff(want.Proto(), proto.Message(got.Proto()), protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	h := http.Header{statusHeader: {"5"}, messageHeader: {"50 %%20done %zz%"}, detailsHeader: {"!"}} // badly escaped, and not encoded
	if got := readStatus(h); got.Code() != codes.NotFound || got.Message() != "50 % done %zz%" {
		t.Errorf("%v", got)
	}
}
