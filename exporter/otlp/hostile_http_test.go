package otlp

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// httpServer returns a server that answers each request with what answer writes.
func httpServer(answer func(*peer, *http.Request)) func(*peer) {
	return func(p *peer) {
		for {
			request, err := http.ReadRequest(p.in)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, request.Body); err != nil {
				return
			}
			p.received.Add(1)
			if !p.isHostile() {
				_, _ = io.WriteString(p, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				continue
			}
			answer(p, request)
		}
	}
}

// refuseToRead returns a server that does something before it has read a request.
func refuseToRead(protocol string, do func(*peer)) func(*peer) {
	return func(p *peer) {
		switch {
		case p.isHostile():
			do(p)
		case protocol == "grpc":
			http2Server{}.serve(p)
		default:
			httpServer(nil)(p)
		}
	}
}

func httpServers() (rows []hostile) {
	answer := func(name string, do func(*peer, *http.Request)) *hostile {
		rows = append(rows, hostile{name: name, protocol: "http/protobuf", serve: httpServer(do)})
		return &rows[len(rows)-1]
	}
	respond := func(name, text string) *hostile {
		return answer(name, func(p *peer, _ *http.Request) { _, _ = io.WriteString(p, text) })
	}
	last := func(name, text string) *hostile { // and close
		return answer(name, func(p *peer, _ *http.Request) { _, _ = io.WriteString(p, text); _ = p.Close() })
	}
	sized := func(head, body string) string {
		return fmt.Sprintf("%s\r\nContent-Length: %d\r\n\r\n%s", head, len(body), body)
	}

	// Statuses.
	for _, code := range []int{
		200, 201, 202, 203, 204, 205, 206, 207, 208, 226, 299, 300, 301, 302, 303, 304, 305, 306, 307, 308, 399, 400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 416, 417, 418, 421, 422, 423, 424,
		425, 426, 428, 429, 431, 451, 499, 500, 501, 502, 503, 504, 505, 506, 507, 508, 510, 511, 520, 521, 522, 529, 599, 600, 999,
	} {
		head := fmt.Sprintf("HTTP/1.1 %d X\r\nLocation: /elsewhere", code)
		if code == 204 || code == 304 {
			respond(fmt.Sprintf("status %d", code), head+"\r\n\r\n")
			continue
		}
		respond(fmt.Sprintf("status %d", code), sized(head, ""))
	}
	for _, code := range []int{100, 102, 103} {
		respond(fmt.Sprintf("informational %d before success", code), fmt.Sprintf("HTTP/1.1 %d X\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", code))
	}
	respond("101 instead of an answer", "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
	respond("ten informational answers", strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n", 10)+"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	answer("informational answers without end", func(p *peer, _ *http.Request) {
		for p.writes("HTTP/1.1 103 Early Hints\r\n\r\n") {
		}
	}).big = true
	for _, location := range []string{"/v1/traces", "/", "//", "http://", ":", "file:///etc/passwd", "javascript:x", "http://127.0.0.1:1/", strings.Repeat("x", 4000), "\x1b[31m"} {
		respond("307 to "+location[:min(len(location), 20)], sized("HTTP/1.1 307 X\r\nLocation: "+location, ""))
	}

	// Retry-After.
	for _, after := range []string{"", "0", "-1", "1.5", "1e3", "0x10", "+1", "99999999999999999999", "9223372036", "3600", "soon", "Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "Thursday, 01-Jan-70 00:00:00 GMT", "\t1", "1, 2"} {
		for _, code := range []int{429, 503} {
			respond(fmt.Sprintf("%d, retry after %s", code, after), sized(fmt.Sprintf("HTTP/1.1 %d X\r\nRetry-After: %s", code, after), ""))
		}
	}
	respond("503, retry after two times", sized("HTTP/1.1 503 X\r\nRetry-After: 0\r\nRetry-After: 3600", ""))

	// Bodies.
	for name, body := range map[string][]byte{
		"nothing": partial(0, ""), "a warning": partial(0, "careful"), "one": partial(1, "old"), "all": partial(10, "old"), "more than there are": partial(11, "old"), "a negative number": partial(-1, "old"),
		"the largest number": partial(math.MaxInt64, "old"), "60 kB of text": partial(1, strings.Repeat("x", 60_000)), "100 kB of text": partial(1, strings.Repeat("x", 100_000)), "not UTF-8": []byte("\x0a\x05\x08\x01\x12\x01\xff"),
	} {
		respond("protobuf rejects "+name, sized("HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf", string(body))).success = true
	}
	for name, body := range map[string]string{
		"nothing": `{"partialSuccess":{}}`, "null": `null`, "a number": `{"partialSuccess":{"rejectedSpans":1,"errorMessage":"old"}}`, "a string": `{"partialSuccess":{"rejectedSpans":"1"}}`,
		"a float": `{"partialSuccess":{"rejectedSpans":1.5}}`, "words": `{"partialSuccess":{"rejectedSpans":"many"}}`, "an array": `[]`, "half an object": `{"partialSuccess":`, "snake case": `{"partial_success":{"rejected_spans":1}}`,
		"deep": strings.Repeat("[", 10_000), "a list": `{"partialSuccess":[1]}`,
	} {
		respond("JSON rejects "+name, sized("HTTP/1.1 200 OK\r\nContent-Type: application/json", body)).success = true
	}
	for _, kind := range []string{"", "text/plain", "application/octet-stream", "application/x-protobuf; charset=x", "application/protobuf", ";;;", "APPLICATION/X-PROTOBUF"} {
		respond("success of type "+kind, sized("HTTP/1.1 200 OK\r\nContent-Type: "+kind, "\xff\xff")).success = true
	}
	respond("a page for success", sized("HTTP/1.1 200 OK\r\nContent-Type: text/html", "<html>log in"))
	for _, code := range []int{200, 400, 503} {
		head := fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Type: text/plain", code)
		success := code == 200
		respond(fmt.Sprintf("%d with a body of 5 MB", code), sized(head, strings.Repeat("x", 5<<20))).success = success
		answer(fmt.Sprintf("%d with a body without end", code), func(p *peer, _ *http.Request) {
			for ok := p.writes(head + "\r\n\r\n"); ok; ok = p.writes(lines) {
			}
		}).big = true
		rows[len(rows)-1].success = success
		last(fmt.Sprintf("%d with a body that is cut", code), head+"\r\nContent-Length: 100\r\n\r\nx").success = success
		last(fmt.Sprintf("%d with a body until it closes", code), head+"\r\n\r\nx").success = success
		respond(fmt.Sprintf("%d with a body that does not come", code), head+"\r\nContent-Length: 100\r\n\r\nx").success = success
		respond(fmt.Sprintf("%d with chunks", code), head+"\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n").success = success
		respond(fmt.Sprintf("%d with bad chunks", code), head+"\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n").success = success
		last(fmt.Sprintf("%d with chunks that end early", code), head+"\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nx").success = success
		respond(fmt.Sprintf("%d with trailers", code), head+"\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n0\r\nX: y\r\n\r\n").success = success
		respond(fmt.Sprintf("%d, packed", code), sized(head+"\r\nContent-Encoding: gzip", string(gzipped([]byte("fine"))))).success = success
		respond(fmt.Sprintf("%d, packed badly", code), sized(head+"\r\nContent-Encoding: gzip", "no gzip")).success = success
		respond(fmt.Sprintf("%d, packed by an unknown way", code), sized(head+"\r\nContent-Encoding: br", "x")).success = success
		h := respond(fmt.Sprintf("%d, packed zeros", code), sized(head+"\r\nContent-Encoding: gzip", string(zeros())))
		h.success, h.big = success, true
	}

	// Heads.
	for name, head := range map[string]string{
		"no number": "HTTP/1.1 abc X", "no reason": "HTTP/1.1 200", "a version to come": "HTTP/9.9 200 OK", "version 1.0": "HTTP/1.0 200 OK", "of a radio": "ICY 200 OK", "two digits": "HTTP/1.1 20 OK", "a negative number": "HTTP/1.1 -20 OK",
		"an old version": "HTTP/0.9 200 OK", "a long reason": "HTTP/1.1 200 " + strings.Repeat("x", 5000), "no colon": "HTTP/1.1 200 OK\r\nx", "a space before the colon": "HTTP/1.1 200 OK\r\nX : y", "a folded header": "HTTP/1.1 200 OK\r\nX: y\r\n z",
		"a NUL": "HTTP/1.1 200 OK\r\nX: \x00", "an empty name": "HTTP/1.1 200 OK\r\n: x", "two lengths": "HTTP/1.1 200 OK\r\nContent-Length: 1", "a negative length": "HTTP/1.1 200 OK\r\nContent-Length: -1", "length and chunks": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked",
		"an unknown transfer encoding": "HTTP/1.1 200 OK\r\nTransfer-Encoding: x", "60 kB": "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 60_000), "200 kB": "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 200_000), "a thousand headers": "HTTP/1.1 200 OK\r\nX: y" + strings.Repeat("\r\nX: y", 1000),
		"many cookies": "HTTP/1.1 200 OK" + strings.Repeat("\r\nSet-Cookie: a=b", 500), "close": "HTTP/1.1 200 OK\r\nConnection: close",
	} {
		last("head: "+name, sized(head, ""))
	}
	last("head: line feeds only", "HTTP/1.1 200 OK\nContent-Length: 0\n\n")
	last("head: cut", "HTTP/1.1 200 OK\r\nContent-Le")
	last("head: none", "hello")
	last("head: an empty line first", "\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	answer("head without end", func(p *peer, _ *http.Request) {
		for ok := p.writes("HTTP/1.1 200 OK\r\n"); ok; ok = p.writes(lines) {
		}
	}).big = true
	answer("status without end", func(p *peer, _ *http.Request) {
		for ok := p.writes("HTTP/1.1 200 "); ok; ok = p.writes(zeroBytes) {
		}
	}).big = true

	// Connections and waits.
	respond("two answers to a request", sized("HTTP/1.1 200 OK", "")+sized("HTTP/1.1 503 X", ""))
	respond("bytes after an answer", sized("HTTP/1.1 200 OK", "")+"garbage")
	last("success, and closed", sized("HTTP/1.1 200 OK", ""))
	last("nothing, and closed", "")
	answer("no answer", func(*peer, *http.Request) {})
	answer("a late answer", func(p *peer, _ *http.Request) {
		<-time.After(300 * time.Millisecond)
		p.writes(sized("HTTP/1.1 200 OK", ""))
	})
	answer("an answer byte by byte", func(p *peer, _ *http.Request) {
		for _, b := range []byte(sized("HTTP/1.1 200 OK", "")) {
			p.writes(string(b))
		}
	})
	answer("an answer that trickles for ever", func(p *peer, _ *http.Request) {
		for tick := time.NewTicker(50 * time.Millisecond); p.writes("x"); <-tick.C {
		}
	})
	answer("a reset", func(p *peer, _ *http.Request) { p.reset() })
	answer("a reset within an answer", func(p *peer, _ *http.Request) { p.writes("HTTP/1.1 200 OK\r\n"); p.reset() })
	for i := range rows {
		switch row := &rows[i]; {
		case strings.HasPrefix(row.name, "status 30"), strings.HasPrefix(row.name, "307 to "):
			row.refused = "spans are for the configured address only"
		case row.name == "a page for success":
			row.refused = "it is a page for people"
		case strings.HasSuffix(row.name, "retry after 99999999999999999999"):
			row.refused = "it asks for more time than there is"
		case row.name == "head: length and chunks":
			row.success = true
		}
	}
	return rows
}

// What servers send without end.
var (
	lines     = strings.Repeat("X: y\r\n", 1000)
	zeroBytes = strings.Repeat("\x00", 10_000)
)

func (p *peer) writes(s string) bool {
	_, err := io.WriteString(p, s)
	return err == nil
}

// reset closes a connection so that the client has an error.
func (p *peer) reset() {
	conn := p.Conn
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}

// otherServers do not speak the client's protocol, or not for long.
func otherServers() (rows []hostile) {
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		add := func(name string, do func(*peer)) *hostile {
			rows = append(rows, hostile{name: name, protocol: protocol, serve: refuseToRead(protocol, do)})
			return &rows[len(rows)-1]
		}
		for name, banner := range map[string]string{
			"SSH": "SSH-2.0-OpenSSH_9.9\r\n", "SMTP": "220 mail ESMTP\r\n", "FTP": "220 ready\r\n", "MySQL": "J\x00\x00\x00\x0a8.0.36\x00", "a TLS alert": "\x15\x03\x01\x00\x02\x02\x46", "NULs": strings.Repeat("\x00", 100), "text": "hello\r\n",
			"gRPC's settings": "\x00\x00\x00\x04\x00\x00\x00\x00\x00", "an HTTP/1.1 error": "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", "a page": "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nhello",
			"half a frame": "\x00\x00", "a farewell": "\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
		} {
			add("greets as "+name+", and closes", func(p *peer) { p.writes(banner) })
			add("greets as "+name+", and waits", func(p *peer) { p.writes(banner); p.drain() })
			add("answers as "+name+" does", func(p *peer) { _, _ = io.ReadFull(p.in, make([]byte, 24)); p.writes(banner); p.drain() })
		}
		for _, n := range []int{0, 1, 24, 40, 80, 120, 200, 400, 800, 1600} {
			add(fmt.Sprintf("closes after %d bytes", n), func(p *peer) { _, _ = io.ReadFull(p.in, make([]byte, n)) })
			add(fmt.Sprintf("resets after %d bytes", n), func(p *peer) { _, _ = io.ReadFull(p.in, make([]byte, n)); p.reset() })
		}
		for i := range rows {
			if strings.Contains(rows[i].name, " as a page") {
				rows[i].refused = "it is a page for people"
			}
		}
		add("reads and never answers", (*peer).drain)
		add("never reads", func(p *peer) { <-time.After(3 * time.Second) })
		add("sends without end", func(p *peer) {
			for p.writes(lines) {
			}
		}).big = true
		add("sends NULs without end", func(p *peer) {
			for p.writes(zeroBytes) {
			}
		}).big = true
		add("closes its half", func(p *peer) { _ = p.Conn.(*net.TCPConn).CloseWrite(); p.drain() })
		if protocol != "grpc" {
			add("answers before it reads", func(p *peer) { p.writes("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); p.drain() })
			add("refuses before it reads, and closes", func(p *peer) { p.writes("HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n") })
			add("is too small before it reads, and closes", func(p *peer) { p.writes("HTTP/1.1 413 X\r\nContent-Length: 0\r\n\r\n") })
		}
	}
	return rows
}

// authority signs the certificates of servers that a client trusts, if nothing else is
// wrong about them. Its certificate is in authorityFile.
var (
	authority     = certificate(nil, func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid, c.ExtKeyUsage = true, true, nil })
	authorityFile = filepath.Join(os.TempDir(), fmt.Sprintf("spantee-test-%d.pem", os.Getpid()))
)

// certificate returns a certificate for 127.0.0.1, by another one or by itself.
func certificate(by *tls.Certificate, change func(*x509.Certificate)) *tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	change(template)
	parent, signer := template, any(key)
	if by != nil {
		parent, signer = by.Leaf, by.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		panic(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// writeAuthority writes authorityFile. Call remove when the tests have run.
func writeAuthority() (remove func()) {
	if err := os.WriteFile(authorityFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Certificate[0]}), 0o600); err != nil {
		panic(err)
	}
	return func() { os.Remove(authorityFile) }
}

// tlsServers fail at TLS in every way, but for those at the end.
func tlsServers() (rows []hostile) {
	good := func(*x509.Certificate) {}
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		collector := httpServer(func(p *peer, _ *http.Request) { p.writes("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") })
		next := []string{"http/1.1"}
		if protocol == "grpc" {
			collector, next = http2Server{}.serve, []string{"h2"}
		}
		add := func(name string, cert *tls.Certificate, change func(*tls.Config)) *hostile {
			cfg := &tls.Config{Certificates: []tls.Certificate{*cert}, NextProtos: next}
			if change != nil {
				change(cfg)
			}
			rows = append(rows, hostile{name: name, protocol: protocol, serve: collector, tls: cfg})
			return &rows[len(rows)-1]
		}
		trusted := certificate(authority, good)
		add("TLS: nothing wrong", trusted, nil)
		add("TLS: by itself", certificate(nil, good), nil)
		add("TLS: by another authority", certificate(certificate(nil, func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true }), good), nil)
		add("TLS: expired", certificate(authority, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }), nil)
		add("TLS: not valid yet", certificate(authority, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }), nil)
		add("TLS: for another address", certificate(authority, func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(192, 0, 2, 1)} }), nil)
		add("TLS: for a name", certificate(authority, func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"localhost"} }), nil)
		add("TLS: for nothing", certificate(authority, func(c *x509.Certificate) { c.IPAddresses = nil }), nil)
		add("TLS: for clients", certificate(authority, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }), nil)
		add("TLS: without its chain", certificate(certificate(authority, func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true }), good), nil)
		add("TLS: another key", &tls.Certificate{Certificate: trusted.Certificate, PrivateKey: certificate(nil, good).PrivateKey}, nil)
		add("TLS: version 1.0", trusted, func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS10 })
		add("TLS: version 1.1", trusted, func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS11, tls.VersionTLS11 })
		add("TLS: version 1.2", trusted, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 })
		add("TLS: no protocol agreed on", trusted, func(c *tls.Config) { c.NextProtos = nil })
		add("TLS: another protocol", trusted, func(c *tls.Config) { c.NextProtos = []string{"x"} })
		add("TLS: wants a certificate", trusted, func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert })
		add("TLS: asks for a certificate", trusted, func(c *tls.Config) { c.ClientAuth = tls.RequestClientCert })
		add("TLS: a weak cipher", trusted, func(c *tls.Config) {
			c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA}
		})
		add("TLS: fails", trusted, func(c *tls.Config) {
			c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, io.ErrUnexpectedEOF }
		})
		add("TLS: hangs", trusted, func(c *tls.Config) {
			c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) { <-time.After(3 * time.Second); return nil, nil }
		})
		add("TLS: closes", trusted, func(c *tls.Config) {
			c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) { return nil, hello.Conn.Close() }
		})
		add("TLS there, and none here", trusted, nil).plain = true
		rows = append(rows, hostile{name: "TLS here, and none there", protocol: protocol, serve: collector, plain: true})
		rows = append(rows, hostile{name: "TLS here, and a banner there", protocol: protocol, serve: func(p *peer) { p.writes("220 ready\r\n"); p.drain() }, plain: true})
		rows = append(rows, hostile{name: "TLS here, and nothing there", protocol: protocol, serve: (*peer).drain, plain: true})
	}
	return rows
}
