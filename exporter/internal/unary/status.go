package unary

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// The headers, or trailers, of a status.
const (
	statusHeader  = "Grpc-Status"
	messageHeader = "Grpc-Message"
	detailsHeader = "Grpc-Status-Details-Bin"
)

// readStatus returns the status in h, nil if there is none.
func readStatus(h http.Header) *status.Status {
	text := h.Get(statusHeader)
	if text == "" {
		return nil
	}
	code, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return status.New(codes.Unknown, fmt.Sprintf("the server ended with the status %q", text))
	}
	details, err := decodeBinary(h.Get(detailsHeader))
	st := new(statuspb.Status)
	if err != nil || proto.Unmarshal(details, st) != nil {
		st.Details = nil
	}
	st.Code, st.Message = int32(code), unescape(h.Get(messageHeader)) //nolint:gosec // an unknown code stays unknown
	return status.FromProto(st)
}

// writeStatus adds a status to h.
func writeStatus(h http.Header, st *status.Status) {
	h.Set(statusHeader, strconv.Itoa(int(st.Code())))
	if st.Message() != "" {
		h.Set(messageHeader, escape(st.Message()))
	}
	if len(st.Proto().GetDetails()) == 0 {
		return
	}
	if b, err := proto.Marshal(st.Proto()); err == nil {
		h.Set(detailsHeader, base64.RawStdEncoding.EncodeToString(b))
	}
}

// escape escapes a message with percent signs, so that a header can carry it.
func escape(message string) string {
	var b strings.Builder
	for _, c := range []byte(strings.ToValidUTF8(message, string(utf8.RuneError))) {
		if ' ' <= c && c <= '~' && c != '%' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// unescape leaves what is not escaped correctly.
func unescape(message string) string {
	var b strings.Builder
	for {
		plain, rest, found := strings.Cut(message, "%")
		b.WriteString(plain)
		if !found {
			return b.String()
		}
		if c, err := hex.DecodeString(rest[:min(2, len(rest))]); err == nil && len(c) == 1 {
			b.Write(c)
			rest = rest[2:]
		} else {
			b.WriteByte('%')
		}
		message = rest
	}
}

// decodeBinary decodes a header whose name ends in -bin. It may be padded.
func decodeBinary(text string) ([]byte, error) {
	return base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
}
