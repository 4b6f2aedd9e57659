// Reads a recorded Cursor stream into runs of JSON objects with instants. It
// shares no code with the Go mapper: it is a second reading of the same bytes.

export const DAY = 24 * 60 * 60 * 1000;
const OLDEST = Date.UTC(2000, 0, 1);
const NEWEST = Date.UTC(2100, 0, 1);

// objects returns the JSON objects in a line: usually one, several if records
// were concatenated, none if the line is prose. Text ahead of an object, such as
// "stdout: ", is skipped.
function objects(line) {
  try {
    const whole = JSON.parse(unescape(line));
    return isObject(whole) ? [whole] : [];
  } catch {
    // Not one value: look for the objects in it.
  }
  const found = [];
  let depth = 0, start = -1, inString = false;
  for (let i = 0; i < line.length; i++) {
    const c = line[i];
    if (inString) {
      if (c === '\\') i++;
      else if (c === '"') inString = false;
    } else if (depth > 0 && c === '"') {
      inString = true;
    } else if (c === '{') {
      if (depth++ === 0) start = i;
    } else if (c === '}' && depth > 0 && --depth === 0) {
      try {
        found.push(JSON.parse(unescape(line.slice(start, i + 1))));
      } catch {
        return [];
      }
    }
  }
  return found;
}

// unescape doubles a backslash that begins no JSON escape: the C:\ws of a Windows
// path that something wrote into a string as it was must not lose a whole line. Nor must a tab.
function unescape(json) {
  return json.replace(/\\(.)/g, (pair, c) => ('"\\/bfnrtu'.includes(c) ? pair : '\\' + pair))
    .replace(STRING, (string) => string.replaceAll('\t', '\\t'));
}

const STRING = /"(?:[^"\\]|\\.)*"/g;

export function isObject(value) {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

// provesCursor: an init with apiKeySource and permissionMode, a tool_call with a
// subtype at its top level, thinking, model_call_id, or a result with request_id and
// duration_api_ms.
function provesCursor(o) {
  return (o.type === 'system' && o.subtype === 'init' && 'apiKeySource' in o && 'permissionMode' in o) ||
    (o.type === 'tool_call' && typeof o.subtype === 'string') ||
    o.type === 'thinking' || 'model_call_id' in o ||
    (o.type === 'result' && 'request_id' in o && 'duration_api_ms' in o && 'is_error' in o);
}

// provesAnother: the marks of agents whose lines look much like Cursor's.
function provesAnother(o) {
  return 'claude_code_version' in o || 'qwen_code_version' in o || ('uuid' in o && 'session_id' in o) ||
    'mcp_servers' in o || 'toolName' in o || 'finalText' in o || 'sessionId' in o;
}

// linesOf returns how many lines have the event that begins at a line. One that ends inside
// a string had a line break of a text written as it is: it goes on until the whole is JSON.
// Where a new event begins before, or there is no end within 1 MiB, each line is its own.
function linesOf(lines, first) {
  let text = lines[first];
  if (!/^\s*\{"/.test(text) || !endsInString(text)) return 1;
  for (let i = first + 1; i < lines.length && !/^\s*\{"/.test(lines[i]); i++) {
    text += '\\n' + lines[i];
    if (text.length > 1 << 20) return 1;
    if (objects(text).length > 0) return i - first + 1;
  }
  return 1;
}

// endsInString: what is left without whole strings has a quote.
const endsInString = (text) => text.replace(STRING, '').includes('"');

// readRuns returns the runs of a recording in the order in which they begin. A
// run is everything of one session from an init to its result; what comes after
// the result and before the next init stays with the run, in after.
export function readRuns(text) {
  const sessions = new Map();
  const runs = [];
  let badLines = 0;
  const lines = text.replace(/^\ufeff/, '').split('\n').map((raw) => raw.replace(/\r$/, ''));
  for (let i = 0; i < lines.length; i++) {
    if (lines[i].trim() === '') continue;
    const count = [...sessions.values()].some((run) => run.lines.some(({ o }) => provesCursor(o))) ? linesOf(lines, i) : 1;
    const line = lines.slice(i, i + count).join('\\n');
    i += count - 1;
    const typed = objects(line).filter((o) => typeof o.type === 'string');
    if (typed.length === 0) badLines++;
    for (const o of typed) {
      if (typeof o.session_id !== 'string') continue;
      let run = sessions.get(o.session_id);
      const isInit = o.type === 'system' && o.subtype === 'init';
      if (!run || isInit) {
        run = { session: o.session_id, lines: [], after: [], result: null };
        sessions.set(o.session_id, run);
        runs.push(run);
      }
      if (run.result) {
        run.after.push({ o });
        continue;
      }
      run.lines.push({ o });
      if (o.type === 'result') run.result = o;
    }
  }
  const proven = runs.filter((run) => {
    const all = run.lines.map((line) => line.o);
    return all.some(provesCursor) && !all.some(provesAnother);
  });
  proven.forEach(stamp);
  return { badLines, runs: proven };
}

// stamp gives every line its instant, in milliseconds.
//   "In a recording an unstamped line inherits the last stamp, and the root
//   starts at its end minus the reported duration", if that is earlier than the
//   first stamp. "A stamp that jumps by more than a day within a run, or lies
//   outside 2000-2100, is no stamp."
function stamp(run) {
  let last = null;
  for (const line of [...run.lines, ...run.after]) {
    const t = line.o.timestamp_ms;
    line.hasStamp = t !== undefined;
    if (typeof t === 'number' && t >= OLDEST && t < NEWEST && (last === null || Math.abs(t - last) <= DAY)) {
      last = t;
      line.stamped = true;
      run.firstStamp ??= t;
      if (run.lines.includes(line)) run.end = t;
    }
    line.at = last;
  }
  run.reported = run.result?.duration_ms ?? null;
  const stamped = run.end - run.firstStamp; // NaN without a stamp
  const believed = run.reported !== null && !(run.reported >= stamped + DAY);
  if (run.firstStamp === undefined) { // no clock at all: only the length is known
    Object.assign(run, { start: 0, end: run.reported ?? 0 });
    for (const line of [...run.lines, ...run.after]) line.at = 0;
    return;
  }
  run.end ??= run.firstStamp;
  run.start = run.firstStamp;
  if (believed) run.start = Math.min(run.start, run.end - run.reported);
  for (const line of run.lines) line.at ??= run.start;
}
