package otlp

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSettings(t *testing.T) {
	const prefix = "OTEL_EXPORTER_OTLP_"
	type env map[string]string
	tests := []struct {
		name string
		env  env
		cfg  Config
		want string // protocol, endpoint, compression, timeout, headers
		err  string

		ignored string
	}{
		{name: "defaults", want: "grpc http://localhost:4317 - 10s map[]"},
		{name: "defaults over HTTP", env: env{"PROTOCOL": "http/protobuf"}, want: "http/protobuf http://localhost:4318/v1/traces - 10s map[]"},
		{name: "JSON", env: env{"TRACES_PROTOCOL": "HTTP/JSON"}, want: "http/json http://localhost:4318/v1/traces - 10s map[]"},
		{
			name: "all by variables",
			env:  env{"ENDPOINT": " https://otlp.example.com ", "HEADERS": "Authorization=Bearer%20a=b, x = 1 ,", "COMPRESSION": "gzip", "TIMEOUT": "250"},
			want: "grpc https://otlp.example.com gzip 250ms map[authorization:Bearer a=b x:1]",
		},
		{
			name: "variables for traces win",
			env: env{
				"PROTOCOL": "nonsense", "TRACES_PROTOCOL": "grpc",
				"ENDPOINT": "nonsense", "TRACES_ENDPOINT": "http://b:1",
				"HEADERS": "nonsense", "TRACES_HEADERS": "k=v",
				"COMPRESSION": "nonsense", "TRACES_COMPRESSION": "none",
				"TIMEOUT": "nonsense", "TRACES_TIMEOUT": "1",
			},
			want: "grpc http://b:1 none 1ms map[k:v]",
		},
		{
			name: "fields win",
			env:  env{"TRACES_PROTOCOL": "grpc", "TRACES_ENDPOINT": "http://b:1", "TRACES_HEADERS": "k=v"},
			cfg:  Config{Protocol: "http/protobuf", Endpoint: "https://c:2", Headers: map[string]string{"h": "1"}},
			want: "http/protobuf https://c:2/v1/traces - 10s map[h:1 k:v]",
		},

		{name: "the path is appended to", env: env{"PROTOCOL": "http/protobuf", "ENDPOINT": "http://a:4318/base/"}, want: "http/protobuf http://a:4318/base/v1/traces - 10s map[]"},
		{name: "the path for traces is kept", env: env{"PROTOCOL": "http/protobuf", "TRACES_ENDPOINT": "http://a:4318/x"}, want: "http/protobuf http://a:4318/x - 10s map[]"},
		{name: "IPv6", cfg: Config{Endpoint: "http://[::1]:4317"}, want: "grpc http://[::1]:4317 - 10s map[]"},
		{name: "unix socket", cfg: Config{Endpoint: "unix:///run/otel.sock"}, want: "grpc unix:///run/otel.sock - 10s map[]"},

		{name: "no scheme", cfg: Config{Endpoint: "localhost:4317"}, err: `invalid endpoint "localhost:4317" (want a scheme: http://localhost:4317)`},
		{name: "no scheme in a variable", env: env{"ENDPOINT": "127.0.0.1:4317"}, want: "grpc https://127.0.0.1:4317 - 10s map[]"},
		{name: "no scheme, and insecure", env: env{"ENDPOINT": "collector:4317", "INSECURE": "true"}, want: "grpc http://collector:4317 - 10s map[]"},
		{name: "no scheme over HTTP", env: env{"PROTOCOL": "http/protobuf", "ENDPOINT": "collector:4318"}, err: `invalid $OTEL_EXPORTER_OTLP_ENDPOINT "collector:4318" (want a scheme: http://collector:4318)`},
		{name: "unknown scheme", cfg: Config{Endpoint: "grpc://localhost:4317"}, err: `invalid endpoint "grpc://localhost:4317" (want http:// or https://)`},
		{name: "no host", cfg: Config{Endpoint: "http://:4317"}, err: `invalid endpoint "http://:4317" (want a host)`},
		{name: "no port", cfg: Config{Endpoint: "http://a:99999"}, err: `invalid endpoint "http://a:99999" (want a port from 1 to 65535)`},
		{name: "no URL", cfg: Config{Endpoint: "http://a:secret@c:port"}, err: `invalid endpoint (invalid port ":port" after host)`},
		{name: "a password", cfg: Config{Endpoint: "http://a:secret@c"}, err: `invalid endpoint (want no user or password: send a header, such as authorization=Basic%20...)`},
		{name: "a fragment", env: env{"ENDPOINT": "https://c/v1#key"}, want: "grpc https://c/v1 - 10s map[]", ignored: `invalid $OTEL_EXPORTER_OTLP_ENDPOINT (want a URL without a #fragment)`},
		{name: "an empty fragment", cfg: Config{Endpoint: "https://c/v1#"}, err: `invalid endpoint (want a URL without a #fragment)`},
		{name: "a key in the query", env: env{"ENDPOINT": "https://c/v1?key=secret"}, want: "grpc https://c/v1 - 10s map[]", ignored: `invalid $OTEL_EXPORTER_OTLP_ENDPOINT (want no query: send keys as headers)`},
		{name: "a key in the path", cfg: Config{Endpoint: "ftp://c/in/0secret1secret2/v1"}, err: `invalid endpoint "ftp://c/in/***/v1" (want http:// or https://)`},
		{
			name: "unix socket over HTTP", cfg: Config{Endpoint: "unix:///run/otel.sock", Protocol: "http/protobuf"},
			err: `invalid endpoint "unix:///run/otel.sock" (want http:// or https://: a unix socket needs protocol grpc)`,
		},
		{name: "a key in the query, by a field", cfg: Config{Endpoint: "https://c/v1?key=secret"}, err: `invalid endpoint (want no query: send keys as headers)`},
		{name: "unknown protocol by a field", cfg: Config{Protocol: "http"}, err: `invalid protocol "http" (want grpc, http/protobuf or http/json)`},
		{name: "unknown protocol", env: env{"PROTOCOL": "http"}, want: "grpc http://localhost:4317 - 10s map[]", ignored: `invalid $OTEL_EXPORTER_OTLP_PROTOCOL "http" (want grpc, http/protobuf or http/json)`},
		{name: "zero timeout", env: env{"TIMEOUT": "0"}, want: "grpc http://localhost:4317 - 10s map[]", ignored: `invalid $OTEL_EXPORTER_OTLP_TIMEOUT "0" (want a positive number of milliseconds, such as 10000)`},
		{name: "bad timeout", env: env{"TIMEOUT": "10s"}, want: "grpc http://localhost:4317 - 10s map[]", ignored: `invalid $OTEL_EXPORTER_OTLP_TIMEOUT "10s" (want a positive number of milliseconds, such as 10000)`},
		{name: "bad preferences", cfg: Config{Signal: Metrics}, env: env{"METRICS_TEMPORALITY_PREFERENCE": "x", "METRICS_DEFAULT_HISTOGRAM_AGGREGATION": "y"}, want: "grpc http://localhost:4317 - 10s map[]", ignored: `invalid $OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE "x" (want cumulative, delta or lowmemory)
invalid $OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION "y" (want explicit_bucket_histogram)`},
		{name: "negative timeout", env: env{"TIMEOUT": "-1"}, want: "grpc http://localhost:4317 - 10s map[]", ignored: `invalid $OTEL_EXPORTER_OTLP_TIMEOUT "-1" (want a positive number of milliseconds, such as 10000)`},
		{name: "bad headers", env: env{"HEADERS": "token secret,a=b"}, want: "grpc http://localhost:4317 - 10s map[a:b]", ignored: "invalid $OTEL_EXPORTER_OTLP_HEADERS (want key=value,key=value, with special characters escaped, such as %20)"},
		{name: "bad escape in headers", env: env{"HEADERS": "a=b,token=secret%zz"}, want: "grpc http://localhost:4317 - 10s map[a:b]", ignored: "invalid $OTEL_EXPORTER_OTLP_HEADERS (want key=value,key=value, with special characters escaped, such as %20)"},
		{name: "header that gRPC cannot carry", env: env{"HEADERS": "token=größer,a=b,grpc-x=1,x-bin=é"}, want: "grpc http://localhost:4317 - 10s map[a:b x-bin:é]", ignored: "invalid $OTEL_EXPORTER_OTLP_HEADERS \"token\" (want a name and a value that grpc can carry)\ninvalid $OTEL_EXPORTER_OTLP_HEADERS \"grpc-x\" (want a name and a value that grpc can carry)"},
		{name: "unknown compression in a variable", env: env{"COMPRESSION": "zstd", "HEADERS": "a=b"}, want: "grpc http://localhost:4317 - 10s map[a:b]", ignored: `invalid $OTEL_EXPORTER_OTLP_COMPRESSION "zstd" (want gzip or none)`},
		{name: "impossible header", cfg: Config{Headers: map[string]string{"token": "sec\nret"}}, err: `invalid header "token" (want a name and a value that grpc can carry)`},
		{name: "impossible name", cfg: Config{Headers: map[string]string{"": "secret"}}, err: `invalid header " " (want`},
		{name: "certificate without TLS", cfg: Config{Endpoint: "http://a:1", CACert: "ca.pem"}, err: `invalid certificate "ca.pem" (want an https:// endpoint, not http://a:1)`},
		{name: "certificate in a variable without TLS", env: env{"ENDPOINT": "http://a:1", "CERTIFICATE": "missing.pem"}, want: "grpc http://a:1 - 10s map[]"},
		{name: "missing certificate", env: env{"ENDPOINT": "https://a:1", "CERTIFICATE": "missing.pem"}, want: "grpc https://a:1 - 10s map[]"},
		{name: "certificate without key", env: env{"ENDPOINT": "https://a:1", "CLIENT_CERTIFICATE": "c.pem"}, want: "grpc https://a:1 - 10s map[]", ignored: `invalid $OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE "c.pem" (want its key, too)`},
		{name: "key without certificate", env: env{"ENDPOINT": "https://a:1", "CLIENT_KEY": "k.pem"}, want: "grpc https://a:1 - 10s map[]", ignored: `invalid $OTEL_EXPORTER_OTLP_CLIENT_KEY "k.pem" (want a client certificate, too)`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for name, value := range tt.env {
				t.Setenv(prefix+name, value)
			}
			s, err := Resolve(tt.cfg)
			if got := fmt.Sprint(err); tt.err != "" && (!strings.HasPrefix(got, tt.err) || strings.Contains(got, "secret")) || tt.err == "" && err != nil {
				t.Errorf("error is %q, want %q", got, tt.err)
			}
			if err != nil {
				return
			}
			if got := errors.Join(s.Ignored()...); tt.ignored == "" && got != nil || tt.ignored != "" && fmt.Sprint(got) != tt.ignored {
				t.Errorf("ignored %v, want %q", got, tt.ignored)
			}
			compression := s.compression
			if compression == "" {
				compression = "-"
			}
			if got := fmt.Sprint(s.protocol, " ", s.endpoint, " ", compression, " ", s.timeout, " ", s.headers); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestSettingsTellTheirSources(t *testing.T) {
	url, cert, key := secureCollector(t, 0)
	for name, tt := range map[string]struct {
		env  map[string]string
		cfg  Config
		want []Setting
		err  string
	}{
		"defaults": {want: []Setting{{Name: "protocol", Value: "grpc", Default: true}, {Name: "endpoint", Value: "http://localhost:4317", Default: true}, {Name: "timeout", Value: "10s", Default: true}}},
		"variables": {
			env: map[string]string{
				"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://a:1/otlp-http/0secret1secret2/x",
				"OTEL_EXPORTER_OTLP_HEADERS": "b=secret,a=secret", "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "5",
			},
			want: []Setting{
				{Name: "protocol", Value: "http/json", Variable: "OTEL_EXPORTER_OTLP_PROTOCOL"},
				{Name: "endpoint", Value: "http://a:1/otlp-http/***/x", Variable: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"},
				{Name: "header", Value: "a", Variable: "OTEL_EXPORTER_OTLP_HEADERS"},
				{Name: "header", Value: "b", Variable: "OTEL_EXPORTER_OTLP_HEADERS"},
				{Name: "compression", Value: "gzip", Variable: "OTEL_EXPORTER_OTLP_COMPRESSION"},
				{Name: "timeout", Value: "5ms", Variable: "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT"},
			},
		},
		"flags": {
			env: map[string]string{
				"OTEL_EXPORTER_OTLP_ENDPOINT": "nonsense", "OTEL_EXPORTER_OTLP_TIMEOUT": "nonsense",
				"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE": cert, "OTEL_EXPORTER_OTLP_CLIENT_KEY": key,
			},
			cfg: Config{Protocol: "http/protobuf", Endpoint: url, Headers: map[string]string{"A": "secret"}, CACert: cert},
			want: []Setting{
				{Name: "protocol", Value: "http/protobuf"},
				{Name: "endpoint", Value: url + "/v1/traces"},
				{Name: "certificate", Value: cert},
				{Name: "client-certificate", Value: cert, Variable: "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"},
				{Name: "header", Value: "a"},
				{Name: "timeout", Value: "10s", Default: true},
			},
		},
		"as far as it makes sense": {
			cfg:  Config{Endpoint: "localhost:4317"},
			want: []Setting{{Name: "protocol", Value: "grpc", Default: true}},
			err:  "want a scheme",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for name, value := range tt.env {
				t.Setenv(name, value)
			}
			s, err := Resolve(tt.cfg)
			got := s.List()
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("settings (-want +got)\n%s", diff)
			}
			if strings.Contains(fmt.Sprint(got), "secret") {
				t.Error("a secret is among them")
			}
		})
	}
}
