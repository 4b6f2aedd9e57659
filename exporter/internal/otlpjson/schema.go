package otlpjson

import "google.golang.org/protobuf/encoding/protowire"

// A kind is the type of a field's value, in protobuf's wire format and in JSON.
type kind int

const (
	text         kind = iota // a string
	octets                   // bytes; in JSON, a string in base64
	traceID                  // bytes; in JSON, a string in hex
	spanID                   // the same
	boolean                  // a varint
	uint32s                  // a varint; in JSON, a number, as all up to double
	sint32s                  // a zigzag varint
	fixed32s                 // 4 bytes
	double                   // 8 bytes
	int64s                   // a varint; in JSON, a number in a string, as all up to sfixed64s
	uint64s                  // a varint
	fixed64s                 // 8 bytes
	sfixed64s                // 8 bytes
	spanKind                 // a varint; in JSON, a number or a name
	statusCode               // the same
	temporality              // a varint; in JSON, a number
	firstMessage             // all others are messages; in JSON, objects
)

const (
	tracesData = firstMessage + iota
	resourceSpans
	resource
	entity
	scopeSpans
	scope
	span
	event
	link
	status
	keyValue
	anyValue
	arrayValue
	keyValueList
	metricsData
	resourceMetrics
	scopeMetrics
	metric
	gauge
	sum
	histogram
	exponential
	summary
	numberPoint
	histogramPoint
	exponentialPoint
	summaryPoint
	quantile
	buckets
	exemplar
)

func (k kind) isMessage() bool { return k >= firstMessage }

// wireType returns the type of a single value on the wire.
func (k kind) wireType() protowire.Type {
	switch k {
	case boolean, uint32s, sint32s, int64s, uint64s, spanKind, statusCode, temporality:
		return protowire.VarintType
	case fixed32s:
		return protowire.Fixed32Type
	case double, fixed64s, sfixed64s:
		return protowire.Fixed64Type
	}
	return protowire.BytesType
}

// A field is a field of a message.
type field struct {
	number protowire.Number
	name   string // in JSON
	label  label
	kind   kind
}

// A label says how often a field occurs in a message.
type label int

const (
	one    label = iota // at most once
	many                // any number of times; in JSON, it is an array
	choice              // at most once, and no other choice of the message does: a oneof
)

// messages are the fields of messages, in the order of their numbers, as
// github.com/open-telemetry/opentelemetry-proto defines them.
var messages = [...][]field{
	tracesData:    {{1, "resourceSpans", many, resourceSpans}},
	resourceSpans: {{1, "resource", one, resource}, {2, "scopeSpans", many, scopeSpans}, {3, "schemaUrl", one, text}},
	resource: {
		{1, "attributes", many, keyValue},
		{2, "droppedAttributesCount", one, uint32s},
		{3, "entityRefs", many, entity},
	},
	entity: {
		{1, "schemaUrl", one, text},
		{2, "type", one, text},
		{3, "idKeys", many, text},
		{4, "descriptionKeys", many, text},
	},
	scopeSpans: {{1, "scope", one, scope}, {2, "spans", many, span}, {3, "schemaUrl", one, text}},
	scope: {
		{1, "name", one, text},
		{2, "version", one, text},
		{3, "attributes", many, keyValue},
		{4, "droppedAttributesCount", one, uint32s},
	},
	span: {
		{1, "traceId", one, traceID},
		{2, "spanId", one, spanID},
		{3, "traceState", one, text},
		{4, "parentSpanId", one, spanID},
		{5, "name", one, text},
		{6, "kind", one, spanKind},
		{7, "startTimeUnixNano", one, fixed64s},
		{8, "endTimeUnixNano", one, fixed64s},
		{9, "attributes", many, keyValue},
		{10, "droppedAttributesCount", one, uint32s},
		{11, "events", many, event},
		{12, "droppedEventsCount", one, uint32s},
		{13, "links", many, link},
		{14, "droppedLinksCount", one, uint32s},
		{15, "status", one, status},
		{16, "flags", one, fixed32s},
	},
	event: {
		{1, "timeUnixNano", one, fixed64s},
		{2, "name", one, text},
		{3, "attributes", many, keyValue},
		{4, "droppedAttributesCount", one, uint32s},
	},
	link: {
		{1, "traceId", one, traceID},
		{2, "spanId", one, spanID},
		{3, "traceState", one, text},
		{4, "attributes", many, keyValue},
		{5, "droppedAttributesCount", one, uint32s},
		{6, "flags", one, fixed32s},
	},
	status:   {{2, "message", one, text}, {3, "code", one, statusCode}},
	keyValue: {{1, "key", one, text}, {2, "value", one, anyValue}},
	anyValue: {
		{1, "stringValue", choice, text},
		{2, "boolValue", choice, boolean},
		{3, "intValue", choice, int64s},
		{4, "doubleValue", choice, double},
		{5, "arrayValue", choice, arrayValue},
		{6, "kvlistValue", choice, keyValueList},
		{7, "bytesValue", choice, octets},
	},
	arrayValue:   {{1, "values", many, anyValue}},
	keyValueList: {{1, "values", many, keyValue}},

	metricsData:     {{1, "resourceMetrics", many, resourceMetrics}},
	resourceMetrics: {{1, "resource", one, resource}, {2, "scopeMetrics", many, scopeMetrics}, {3, "schemaUrl", one, text}},
	scopeMetrics:    {{1, "scope", one, scope}, {2, "metrics", many, metric}, {3, "schemaUrl", one, text}},
	metric: {
		{1, "name", one, text},
		{2, "description", one, text},
		{3, "unit", one, text},
		{5, "gauge", choice, gauge},
		{7, "sum", choice, sum},
		{9, "histogram", choice, histogram},
		{10, "exponentialHistogram", choice, exponential},
		{11, "summary", choice, summary},
		{12, "metadata", many, keyValue},
	},
	gauge: {{1, "dataPoints", many, numberPoint}},
	sum: {
		{1, "dataPoints", many, numberPoint},
		{2, "aggregationTemporality", one, temporality},
		{3, "isMonotonic", one, boolean},
	},
	histogram:   {{1, "dataPoints", many, histogramPoint}, {2, "aggregationTemporality", one, temporality}},
	exponential: {{1, "dataPoints", many, exponentialPoint}, {2, "aggregationTemporality", one, temporality}},
	summary:     {{1, "dataPoints", many, summaryPoint}},
	numberPoint: {
		{2, "startTimeUnixNano", one, fixed64s},
		{3, "timeUnixNano", one, fixed64s},
		{4, "asDouble", choice, double},
		{5, "exemplars", many, exemplar},
		{6, "asInt", choice, sfixed64s},
		{7, "attributes", many, keyValue},
		{8, "flags", one, uint32s},
	},
	histogramPoint: {
		{2, "startTimeUnixNano", one, fixed64s},
		{3, "timeUnixNano", one, fixed64s},
		{4, "count", one, fixed64s},
		{5, "sum", one, double},
		{6, "bucketCounts", many, fixed64s},
		{7, "explicitBounds", many, double},
		{8, "exemplars", many, exemplar},
		{9, "attributes", many, keyValue},
		{10, "flags", one, uint32s},
		{11, "min", one, double},
		{12, "max", one, double},
	},
	exponentialPoint: {
		{1, "attributes", many, keyValue},
		{2, "startTimeUnixNano", one, fixed64s},
		{3, "timeUnixNano", one, fixed64s},
		{4, "count", one, fixed64s},
		{5, "sum", one, double},
		{6, "scale", one, sint32s},
		{7, "zeroCount", one, fixed64s},
		{8, "positive", one, buckets},
		{9, "negative", one, buckets},
		{10, "flags", one, uint32s},
		{11, "exemplars", many, exemplar},
		{12, "min", one, double},
		{13, "max", one, double},
		{14, "zeroThreshold", one, double},
	},
	summaryPoint: {
		{2, "startTimeUnixNano", one, fixed64s},
		{3, "timeUnixNano", one, fixed64s},
		{4, "count", one, fixed64s},
		{5, "sum", one, double},
		{6, "quantileValues", many, quantile},
		{7, "attributes", many, keyValue},
		{8, "flags", one, uint32s},
	},
	quantile: {{1, "quantile", one, double}, {2, "value", one, double}},
	buckets:  {{1, "offset", one, sint32s}, {2, "bucketCounts", many, uint64s}},
	exemplar: {
		{2, "timeUnixNano", one, fixed64s},
		{3, "asDouble", choice, double},
		{4, "spanId", one, spanID},
		{5, "traceId", one, traceID},
		{6, "asInt", choice, sfixed64s},
		{7, "filteredAttributes", many, keyValue},
	},
}

// maxDepth is how deeply messages may be nested, far beyond what spans have. decode moves
// a message at each level that it is in.
const maxDepth = 100
