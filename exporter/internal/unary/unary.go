// Package unary calls and serves unary methods of gRPC over net/http. It implements
// gRPC's protocol over HTTP/2:
// https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
//
// OTLP needs nothing else of gRPC. To initialize google.golang.org/grpc takes a
// millisecond, which is a sixth of a short run. Its packages for status codes take next
// to nothing, and are used here.
package unary

import (
	"encoding/binary"
	"net/http"
	"strings"
)

const contentType = "application/grpc"

// prefixSize is the length of what precedes each message: whether the message is
// compressed, and its length.
const prefixSize = 5

func prefixOf(length int, compressed bool) (prefix [prefixSize]byte) {
	if compressed {
		prefix[0] = 1
	}
	binary.BigEndian.PutUint32(prefix[1:], uint32(length))
	return prefix
}

// isGRPC reports whether a Content-Type is gRPC's: application/grpc, or the same with
// the encoding of the messages, such as application/grpc+proto.
func isGRPC(h http.Header) bool {
	rest, ok := strings.CutPrefix(h.Get("Content-Type"), contentType)
	return ok && (rest == "" || rest[0] == '+' || rest[0] == ';')
}

// Protocols returns HTTP/2, with and without TLS, and no other protocol.
func Protocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	return p
}
