package main

import "github.com/spantee/spantee/cmd/spantee/internal/cli"

// help is what cobra is not told by the commands. The basic flags fit on a screen.
var help = cli.Help{
	Basic: "endpoint to content view tree log summary quiet receipt fail-if",
	Groups: []cli.FlagGroup{
		{Title: "Where spans go", Flags: "endpoint protocol header to flush-timeout"},
		{Title: "What spans contain", Flags: "content redact-rule deltas"},
		{Title: "What the stream is", Flags: "agent now recursive since idle"},
		{Title: "What is reported", Flags: "tree log receipt fail-if baseline prices summary quiet trace-url stall-after"},
		{Title: "The page in the browser", Flags: "view listen no-open otlp-grpc otlp-http export"},
		{Title: "What is kept on disk", Flags: "no-spool keep"},
		{Title: "Limits for the agent", Flags: "max-duration max-idle max-tools max-tokens max-cost on-limit grace"},
	},
	Variables: `
Variables without a flag (cmd/spantee/README.md has all of them):
  OTEL_EXPORTER_OTLP_CERTIFICATE           trust this authority, in a PEM file
  OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE, OTEL_EXPORTER_OTLP_CLIENT_KEY
  OTEL_EXPORTER_OTLP_COMPRESSION           gzip or none
  OTEL_EXPORTER_OTLP_TIMEOUT               of a request, in milliseconds
  OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES
  OTEL_TRACES_EXPORTER                     otlp, file or none
  OTEL_METRICS_EXPORTER                    otlp or none
  OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG
  OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT        truncate strings to so many bytes
  OTEL_SPAN_EVENT_COUNT_LIMIT              events on a span; others on a child
  OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT
                                           true: --content=full is the default
  OTEL_SDK_DISABLED                        true: send nothing
`,
}
