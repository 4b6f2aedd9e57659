package unary

import (
	"encoding/binary"
	"io"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// IsRequest reports whether r is a request over gRPC.
func IsRequest(r *http.Request) bool {
	return r.Method == http.MethodPost && r.ProtoMajor == 2 && isGRPC(r.Header)
}

// ReadPrefix reads what precedes the message in the body of a request: the length of
// the message, and how it is compressed. The error is a gRPC status.
func ReadPrefix(r *http.Request) (length int64, encoding string, err error) {
	var prefix [prefixSize]byte
	if _, err := io.ReadFull(r.Body, prefix[:]); err != nil {
		return 0, "", status.Error(codes.Internal, "the request has no message")
	}
	if prefix[0] != 0 {
		encoding = r.Header.Get("Grpc-Encoding")
	}
	return int64(binary.BigEndian.Uint32(prefix[1:])), encoding, nil
}

// Respond sends a message and, after it, the status OK.
func Respond(w http.ResponseWriter, message []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Trailer", statusHeader)
	prefix := prefixOf(len(message), false)
	_, _ = w.Write(append(prefix[:], message...)) // the client may be gone
	writeStatus(h, status.New(codes.OK, ""))
}

// Refuse sends a status that is not OK, without a message.
func Refuse(w http.ResponseWriter, st *status.Status) {
	w.Header().Set("Content-Type", contentType)
	writeStatus(w.Header(), st)
	w.WriteHeader(http.StatusOK)
}
