package exporter

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/spantee/spantee/exporter/spool"
)

// settings are an OTLP with everything filled in and checked.
type settings struct {
	protocol    string
	endpoint    *url.URL
	headers     map[string]string
	compression string
	timeout     time.Duration
	tls         *tls.Config // nil unless the endpoint is https

	sources []Setting
}

// A Setting is a part of the configuration, and where it comes from.
type Setting struct {
	Name, Value string
	Source      string // a --flag, a $VARIABLE or "default"
}

// Settings returns what cfg and the environment come to, as far as it makes
// sense, and what does not.
func (c OTLP) Settings() ([]Setting, error) {
	s, err := c.settings()
	return s.sources, err
}

func (s *settings) note(name, value, source string) {
	switch {
	case source == "":
		source = "default"
	case strings.HasPrefix(source, "OTEL_"):
		source = "$" + source
	case source == "headers":
		source = "--header" // of which each adds one
	default:
		source = "--" + strings.ReplaceAll(source, " ", "-")
	}
	s.sources = append(s.sources, Setting{name, value, source})
}

// plainSettings reach a destination without anything that the environment has
// for another.
func plainSettings(to spool.Destination) (*settings, error) {
	u, err := url.Parse(to.Endpoint)
	if err != nil {
		return nil, err
	}
	s := &settings{protocol: to.Protocol, endpoint: u, timeout: defaultTimeout}
	if u.Scheme == "https" {
		s.tls = new(tls.Config)
	}
	return s, nil
}

// destination is what a spool may know of where spans go: no password, and no
// token in a query.
func (s *settings) destination() spool.Destination {
	u := *s.endpoint
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return spool.Destination{Protocol: s.protocol, Endpoint: u.String()}
}

// defaultTimeout is what the specification sets for an attempt.
const defaultTimeout = 10 * time.Second

const tracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"

// lookup returns value if it is set, or else the variable for traces, or else
// the one for all signals; and what to call it in an error.
func lookup(value, name string) (v, source string) {
	if value != "" {
		return value, strings.ToLower(strings.ReplaceAll(name, "_", " "))
	}
	for _, prefix := range []string{"OTEL_EXPORTER_OTLP_TRACES_", "OTEL_EXPORTER_OTLP_"} {
		if v := strings.TrimSpace(os.Getenv(prefix + name)); v != "" {
			return v, prefix + name
		}
	}
	return "", ""
}

// The SDK reads the same variables, but what it does not understand it leaves
// out with a line in its log.
func (c OTLP) settings() (*settings, error) {
	s := new(settings)
	for _, read := range []func(OTLP) error{s.readProtocol, s.readEndpoint, s.readTLS, s.readHeaders, s.readCompression, s.readTimeout} {
		if err := read(c); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (s *settings) readProtocol(c OTLP) error {
	v, source := lookup(c.Protocol, "PROTOCOL")
	switch s.protocol = strings.ToLower(v); s.protocol {
	case "":
		s.protocol = "grpc"
	case "grpc", "http/protobuf", "http/json":
	default:
		return &Error{fmt.Errorf("%s %q is not known", source, v), "use grpc, http/protobuf or http/json"}
	}
	s.note("protocol", s.protocol, source)
	return nil
}

func (s *settings) readEndpoint(c OTLP) error {
	v, source := lookup(c.Endpoint, "ENDPOINT")
	switch {
	case v == "" && s.protocol == "grpc":
		v = "http://localhost:4317"
	case v == "":
		v = "http://localhost:4318"
	case !strings.Contains(v, "://") && !strings.HasPrefix(v, "unix:"):
		return &Error{fmt.Errorf("%s %q has no scheme", source, v), "try http://" + v}
	}
	u, err := url.Parse(v)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // without the URL, which may hold a password
		}
		return fmt.Errorf("%s: %w", source, err)
	}
	switch {
	case u.Scheme == "unix" && s.protocol != "grpc":
		return &Error{fmt.Errorf("%s: a unix socket cannot be reached by %s", source, s.protocol), "set OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}
	case u.Scheme == "unix":
	case u.Scheme != "http" && u.Scheme != "https":
		return &Error{fmt.Errorf("%s: scheme %q is not known", source, u.Scheme), "use http:// or https://"}
	case u.Hostname() == "":
		return fmt.Errorf("%s %q has no host", source, u.Redacted())
	case u.Port() != "":
		if n, err := strconv.ParseUint(u.Port(), 10, 16); err != nil || n == 0 {
			return fmt.Errorf("%s: %s is not a port", source, u.Port())
		}
	}
	if s.protocol != "grpc" && source != tracesEndpoint { // that one is used as it is
		u = u.JoinPath("v1/traces")
	}
	s.endpoint = u
	s.note("endpoint", u.Redacted(), source)
	return nil
}

func (s *settings) readTLS(c OTLP) error {
	if s.endpoint.Scheme != "https" {
		if c.CACert+c.ClientCert+c.ClientKey != "" {
			return &Error{fmt.Errorf("a certificate is of no use with %s", s.endpoint.Redacted()), "try https://" + s.endpoint.Host}
		}
		return nil
	}
	s.tls = new(tls.Config)
	if file, source := lookup(c.CACert, "CERTIFICATE"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("%s: %w", source, err)
		}
		s.tls.RootCAs = x509.NewCertPool()
		if !s.tls.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("%s: no certificate in %s", source, file)
		}
		s.note("certificate", file, source)
	}
	cert, source := lookup(c.ClientCert, "CLIENT_CERTIFICATE")
	key, keySource := lookup(c.ClientKey, "CLIENT_KEY")
	switch {
	case cert == "" && key == "":
		return nil
	case cert == "" || key == "":
		return fmt.Errorf("%s: a client certificate and its key go together, and the other is missing", cmp.Or(source, keySource))
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	s.tls.Certificates = []tls.Certificate{pair}
	s.note("client certificate", cert, source)
	return nil
}

// readHeaders never repeats a value: most are secrets.
func (s *settings) readHeaders(c OTLP) error {
	v, source := lookup("", "HEADERS")
	s.headers = make(map[string]string)
	sources := map[string]string{}
	if v != "" {
		for pair := range strings.SplitSeq(v, ",") {
			if strings.TrimSpace(pair) == "" {
				continue
			}
			key, value, ok := strings.Cut(pair, "=")
			value, err := url.PathUnescape(strings.TrimSpace(value))
			if !ok || err != nil {
				return &Error{fmt.Errorf("%s is malformed", source), "write it as key=value,key=value, with special characters as %20"}
			}
			key = strings.ToLower(strings.TrimSpace(key))
			s.headers[key], sources[key] = value, source
		}
	}
	for key, value := range c.Headers { // one by one, over those of the variable
		key = strings.ToLower(key)
		s.headers[key], sources[key] = value, "headers"
	}
	for key, value := range s.headers {
		if !httpguts.ValidHeaderFieldName(key) || !httpguts.ValidHeaderFieldValue(value) {
			return fmt.Errorf("%s: %q cannot be sent as a header", sources[key], key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.headers)) {
		s.note("header", key, sources[key]) // its value is a secret
	}
	return nil
}

func (s *settings) readCompression(c OTLP) error {
	v, source := lookup(c.Compression, "COMPRESSION")
	switch s.compression = strings.ToLower(v); s.compression {
	case "", "none", "gzip":
		if v != "" {
			s.note("compression", s.compression, source)
		}
		return nil
	}
	return &Error{fmt.Errorf("%s %q is not known", source, v), "use gzip or none"}
}

func (s *settings) readTimeout(c OTLP) error {
	s.timeout = defaultTimeout
	v, source := lookup("", "TIMEOUT")
	if c.Timeout != 0 {
		s.timeout, source = c.Timeout, "timeout"
	} else if v != "" {
		ms, err := strconv.Atoi(v)
		if err != nil || ms < 0 {
			return &Error{fmt.Errorf("%s %q is not a number of milliseconds", source, v), "10000 is ten seconds"}
		}
		s.timeout = time.Duration(ms) * time.Millisecond
	}
	s.note("timeout", s.timeout.String(), source)
	return nil
}
