package resource

import (
	"os"
	"strings"
	"testing"

	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/proto"
)

func attributes(r *resourcepb.Resource) string {
	var b strings.Builder
	for _, kv := range r.Attributes {
		b.WriteString(kv.Key + "=" + kv.Value.GetStringValue() + " ")
	}
	return b.String()
}

func TestResource(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, version, service, attrs string
		want, err                     string
	}{
		{name: "defaults", want: "host.name=HOST service.name=agent "},
		{name: "version", version: "1.2", want: "host.name=HOST service.name=agent service.version=1.2 "},
		{name: "service", service: "mine", want: "host.name=HOST service.name=mine "},
		{name: "attributes", attrs: "service.name=other,host.name=h,team=a%20b", want: "host.name=h service.name=other team=a b "},
		{name: "both", service: "mine", attrs: "service.name=other", want: "host.name=HOST service.name=mine "},
		{
			name: "malformed", attrs: "a=1,b,c=3", want: "a=1 c=3 host.name=HOST service.name=agent ",
			err: "invalid $OTEL_RESOURCE_ATTRIBUTES \"b\"",
		},
		{
			name: "bad escape", attrs: "a=%zz", want: "a=%zz host.name=HOST service.name=agent ",
			err: "invalid $OTEL_RESOURCE_ATTRIBUTES \"a=%zz\"",
		},
		{
			name: "no key", attrs: "a=1,=2", want: "a=1 host.name=HOST service.name=agent ",
			err: "invalid $OTEL_RESOURCE_ATTRIBUTES \"=2\"",
		},
		{name: "not UTF-8", attrs: "a=%ff", want: "a=\uFFFD host.name=HOST service.name=agent "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("OTEL_SERVICE_NAME", tt.service)
			t.Setenv("OTEL_RESOURCE_ATTRIBUTES", tt.attrs)
			r, err := New(Sources{Host: true, Environment: true}, "service.name", "agent", "service.version", tt.version)
			if got := attributes(r); got != strings.ReplaceAll(tt.want, "HOST", host) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != tt.err {
				t.Errorf("error is %q, want %q", got, tt.err)
			}
			if _, err := proto.Marshal(r); err != nil {
				t.Error(err)
			}
		})
	}
}

func BenchmarkResource(b *testing.B) {
	b.Setenv("OTEL_RESOURCE_ATTRIBUTES", "team=a,deployment.environment.name=dev")
	for b.Loop() {
		if _, err := New(Sources{Host: true, Environment: true}, "service.name", "agent", "service.version", "1"); err != nil {
			b.Fatal(err)
		}
	}
}
