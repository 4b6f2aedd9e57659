// Reads a file of OTLP JSON lines into plain spans.

// readSpans returns the spans, instants in ms.
export function readSpans(text) {
  const spans = [];
  for (const line of text.split('\n')) {
    if (line.trim() === '') continue;
    for (const resource of JSON.parse(line).resourceSpans ?? []) {
      for (const scope of resource.scopeSpans ?? []) spans.push(...(scope.spans ?? []).map(plain));
    }
  }
  return spans;
}

function plain(span) {
  const attributes = Object.fromEntries((span.attributes ?? []).map(({ key, value }) => [key, plainValue(value)]));
  return {
    id: span.spanId, trace: span.traceId, parent: span.parentSpanId ?? '', name: span.name,
    operation: attributes['gen_ai.operation.name'], attributes,
    start: millis(span.startTimeUnixNano), end: millis(span.endTimeUnixNano),
    failed: span.status?.code === 2, reason: span.status?.message,
    events: (span.events ?? []).map((event) => ({ name: event.name, at: millis(event.timeUnixNano) })),
  };
}

function plainValue(value) {
  if (value.intValue !== undefined) return Number(value.intValue);
  if (value.arrayValue !== undefined) return (value.arrayValue.values ?? []).map(plainValue);
  return value.stringValue ?? value.doubleValue ?? value.boolValue ?? null;
}

// millis keeps microseconds: a double has room for them, not for nanoseconds.
const millis = (nanos) => Number(BigInt(nanos) / 1000n) / 1000;
