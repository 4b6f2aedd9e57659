package otlp

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
	"unicode/utf8"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/otlp/endpoint"
	"github.com/spantee/spantee/exporter/spool"
)

// Settings are a Config with everything filled in and checked.
type Settings struct {
	protocol    string
	endpoint    *url.URL
	headers     map[string]string
	compression string
	timeout     time.Duration
	tls         tlsFiles
	userAgent   string
	signal      string // traces or metrics
	bare        bool   // no variable is read

	list    []Setting
	ignored []error

	metricsDelay exporter.Delay // kept by new requests and by those of killed processes
}

// A Setting is one configured value, and where it was set.
type Setting struct {
	Name     string // endpoint, client-certificate, ...
	Value    string // without secrets
	Variable string // in which it was set; empty if it was not set in one
	Default  bool   // it was not set at all
}

// A SettingError is an invalid setting, and where it was set.
type SettingError struct {
	Name     string // endpoint, client-certificate, ...
	Variable string // in which it was set; empty if it was set in the Config
	Value    string // without secrets; may be empty
	Want     string // what was expected
}

func (e *SettingError) Error() string {
	if e.Variable != "" {
		return e.Describe("$" + e.Variable)
	}
	return e.Describe(e.Name)
}

// Describe returns the text of the error with another name for the setting, such as
// a flag's.
func (e *SettingError) Describe(name string) string {
	if e.Value != "" {
		return fmt.Sprintf("invalid %s %q (%s)", name, e.Value, e.Want)
	}
	return fmt.Sprintf("invalid %s (%s)", name, e.Want)
}

// Resolve returns the settings that cfg and the environment result in. If it
// returns an error, which may be a *[SettingError], the settings are good for
// List and Ignored only.
func Resolve(cfg Config) (*Settings, error) {
	s := &Settings{userAgent: cfg.UserAgent, signal: cmp.Or(cfg.Signal, "traces"), bare: cfg.IgnoreEnvironment}
	for _, read := range []func(Config) error{s.readProtocol, s.readEndpoint, s.readTLS, s.readHeaders} {
		if err := read(cfg); err != nil {
			return s, err
		}
	}
	s.readCompression()
	s.readTimeout()
	if s.signal == Metrics {
		s.checkPreferences()
	}
	return s, nil
}

// Ignored returns a *[SettingError] for each invalid variable that was replaced by
// its default.
func (s *Settings) Ignored() []error { return s.ignored }

// List returns each setting that is not empty, as far as they are valid.
func (s *Settings) List() []Setting { return s.list }

// Destination returns where spans go, for a spool.
func (s *Settings) Destination() spool.Destination {
	return spool.Destination{Protocol: s.protocol, Endpoint: s.endpoint.String()}
}

// prefix returns the prefix of the signal's variables.
func (s *Settings) prefix() string {
	return "OTEL_EXPORTER_OTLP_" + strings.ToUpper(s.signal) + "_"
}

// plainSettings returns settings for a destination that the environment does not
// configure.
func plainSettings(to spool.Destination) (*Settings, error) {
	switch to.Protocol {
	case "grpc", "http/protobuf", "http/json":
	default:
		return nil, fmt.Errorf("unknown protocol %q", to.Protocol)
	}
	u, err := url.Parse(to.Endpoint)
	if err != nil {
		return nil, err
	}
	s := &Settings{protocol: to.Protocol, endpoint: u, timeout: defaultTimeout}
	s.tls.on = u.Scheme == "https"
	return s, nil
}

// defaultTimeout of an attempt, by the specification.
const defaultTimeout = 10 * time.Second

// A source is where a setting was found.
type source struct{ name, variable, value string }

// lookup returns value if it is set, or else the signal's variable, or else the
// variable for all signals. name is the name of the setting.
func (s *Settings) lookup(value, name string) source {
	if value != "" || s.bare {
		return source{name: name, value: value}
	}
	for _, prefix := range []string{s.prefix(), "OTEL_EXPORTER_OTLP_"} {
		variable := prefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		if v := strings.TrimSpace(os.Getenv(variable)); v != "" {
			return source{name, variable, v}
		}
	}
	return source{name: name}
}

func (from source) invalid(want string) *SettingError {
	return &SettingError{Name: from.name, Variable: from.variable, Value: from.value, Want: want}
}

func (s *Settings) note(from source, value string) {
	s.list = append(s.list, Setting{Name: from.name, Value: value, Variable: from.variable, Default: from.value == ""})
}

// oneOf returns the setting's value in lower case, "" if it is none of these.
func (from source) oneOf(values ...string) (string, *SettingError) {
	v := strings.ToLower(from.value)
	if v == "" || slices.Contains(values, v) {
		return v, nil
	}
	last := len(values) - 1
	return "", from.invalid("want " + strings.TrimPrefix(strings.Join(values[:last], ", ")+" or "+values[last], " or "))
}

func (s *Settings) readProtocol(cfg Config) error {
	from := s.lookup(cfg.Protocol, "protocol")
	protocol, invalid := from.oneOf("grpc", "http/protobuf", "http/json")
	s.protocol = cmp.Or(protocol, "grpc")
	if s.signal == Metrics && s.protocol == "http/json" {
		s.protocol = "http/protobuf" // OpenTelemetry's exporter of metrics has no JSON
	}
	if invalid != nil {
		return s.ignore(invalid)
	}
	s.note(from, s.protocol)
	return nil
}

func (s *Settings) readEndpoint(cfg Config) error {
	from := s.lookup(cfg.Endpoint, "endpoint")
	v := from.value
	switch {
	case v == "" && s.protocol == "grpc":
		v = "http://localhost:4317"
	case v == "":
		v = "http://localhost:4318"
	case strings.Contains(v, "://"), strings.HasPrefix(v, "unix:"):
	case s.protocol != "grpc", from.variable == "":
		return from.invalid("want a scheme: http://" + v)
	case strings.EqualFold(s.lookup("", "insecure").value, "true"):
		v = "http://" + v
	default: // by the specification
		v = "https://" + v
	}
	u, err := url.Parse(v)
	if err != nil {
		from.value = "" // it may hold a password
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // without the URL
		}
		return from.invalid(err.Error())
	}
	from.value = "" // do not repeat a key in the query either
	want := ""
	switch {
	case u.User != nil:
		want = "want no user or password: send a header, such as authorization=Basic%20..."
	case u.RawQuery != "" || u.ForceQuery:
		want = "want no query: send keys as headers"
	case strings.Contains(v, "#"):
		want = "want a URL without a #fragment"
	}
	if want != "" {
		if err := s.ignore(from.invalid(want)); err != nil {
			return err
		}
		u = &url.URL{Scheme: u.Scheme, Opaque: u.Opaque, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	}
	from.value = endpoint.Shown(u.String())
	switch {
	case u.Scheme == "unix" && s.protocol != "grpc":
		return from.invalid("want http:// or https://: a unix socket needs protocol grpc")
	case u.Scheme == "unix":
	case u.Scheme != "http" && u.Scheme != "https":
		return from.invalid("want http:// or https://")
	case u.Hostname() == "":
		return from.invalid("want a host")
	case u.Port() != "":
		if n, err := strconv.ParseUint(u.Port(), 10, 16); err != nil || n == 0 {
			return from.invalid("want a port from 1 to 65535")
		}
	}
	if s.protocol != "grpc" && from.variable != s.prefix()+"ENDPOINT" { // the signal's own endpoint is used verbatim
		u = u.JoinPath("v1", s.signal)
	}
	s.endpoint = u
	if cfg.Endpoint == "" && from.variable == "" {
		from.value = ""
	}
	s.note(from, s.at().String())
	return nil
}

func (s *Settings) readTLS(cfg Config) error {
	if s.endpoint.Scheme != "https" {
		if cfg.CACert != "" {
			return source{name: "certificate", value: cfg.CACert}.invalid("want an https:// endpoint, not " + s.at().String())
		}
		return nil
	}
	ca, cert, key := s.lookup(cfg.CACert, "certificate"), s.lookup("", "client-certificate"), s.lookup("", "client-key")
	switch {
	case cert.value == "" && key.value != "":
		s.ignored = append(s.ignored, key.invalid("want a client certificate, too"))
		key.value = ""
	case cert.value != "" && key.value == "":
		s.ignored = append(s.ignored, cert.invalid("want its key, too"))
		cert.value = ""
	}
	s.tls = tlsFiles{on: true, ca: ca.value, cert: cert.value, key: key.value}
	for _, from := range []source{ca, cert} {
		if from.value != "" {
			s.note(from, from.value)
		}
	}
	return nil
}

// tlsFiles are the files that TLS needs. They are read for each connection: a secret may
// be mounted late, and until then spans are spooled.
type tlsFiles struct {
	on            bool // the endpoint is https
	ca, cert, key string
}

// load returns a configuration, nil if TLS is off.
func (f tlsFiles) load() (*tls.Config, error) {
	if !f.on {
		return nil, nil
	}
	cfg := new(tls.Config)
	if f.ca != "" {
		pem, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, fmt.Errorf("certificate: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("no certificate in %s", f.ca)
		}
	}
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return nil, fmt.Errorf("client certificate: %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

// readHeaders never repeats a value: most are secrets. An invalid item of a variable is
// ignored, the others are sent.
func (s *Settings) readHeaders(cfg Config) error {
	s.headers = make(map[string]string)
	sources := map[string]source{}
	set := func(from source, name, value string) error {
		name = strings.ToLower(strings.TrimSpace(name))
		if from.value = name; !s.canSend(name, value) {
			from.value = cmp.Or(name, " ")
			return from.invalid("want a name and a value that " + s.protocol + " can carry")
		}
		s.headers[name], sources[name] = value, from
		return nil
	}
	from := s.lookup("", "headers")
	for pair := range strings.SplitSeq(from.value, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		from := source{name: "header", variable: from.variable}
		name, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(value)
		if !ok || err != nil {
			err = from.invalid("want key=value,key=value, with special characters escaped, such as %20")
		} else {
			err = set(from, name, strings.TrimSpace(value))
		}
		if err != nil {
			s.ignored = append(s.ignored, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Headers)) { // one by one, over those of the variable
		if err := set(source{name: "header"}, name, cfg.Headers[name]); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.headers)) {
		s.note(sources[name], name)
	}
	return nil
}

// reserved are the headers that belong to HTTP.
var reserved = []string{
	"connection", "content-encoding", "content-length", "content-type", "expect", "host", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
}

// canSend reports whether a header can be sent.
func (s *Settings) canSend(name, value string) bool {
	const ofGRPC = "abcdefghijklmnopqrstuvwxyz0123456789-_."
	characters, last := ofGRPC+"!#$%&'*+^`|~", utf8.MaxRune
	if s.protocol == "grpc" {
		if strings.HasPrefix(name, "grpc-") {
			return false
		}
		characters = ofGRPC
		if !strings.HasSuffix(name, "-bin") { // whose values are encoded
			last = '~'
		}
	}
	return name != "" && strings.Trim(name, characters) == "" && !slices.Contains(reserved, name) &&
		strings.IndexFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f || r > last }) < 0
}

func (s *Settings) readCompression() {
	from := s.lookup("", "compression")
	compression, invalid := from.oneOf("gzip", "none")
	switch {
	case invalid != nil:
		s.ignored = append(s.ignored, invalid)
	case compression != "":
		s.compression = compression
		s.note(from, compression)
	}
}

// ignore returns an error if a Config has the invalid setting. A variable is ignored.
func (s *Settings) ignore(err *SettingError) error {
	if err.Variable == "" {
		return err
	}
	s.ignored = append(s.ignored, err)
	return nil
}

func (s *Settings) readTimeout() {
	s.timeout = defaultTimeout
	from := s.lookup("", "timeout")
	ms, err := strconv.Atoi(from.value)
	switch {
	case err == nil && ms > 0:
		s.timeout = time.Duration(ms) * time.Millisecond
	case from.value != "":
		s.ignored = append(s.ignored, from.invalid("want a positive number of milliseconds, such as 10000"))
		from = source{name: from.name}
	}
	s.note(from, s.timeout.String())
}
