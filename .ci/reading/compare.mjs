// Compares the reading of a recorded Cursor stream with the spans that
// `spantee --to SPANS < STREAM` wrote, prints every disagreement and exits with
// status 1 if there is one.
//
//   node .ci/reading/compare.mjs STREAM SPANS
//
// Borders may differ by a millisecond: spantee ends a span one microsecond
// before the next begins and rounds to microseconds.
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { read } from './reading.mjs';
import { readSpans } from './spans.mjs';

const TOLERANCE = 1; // ms

class Comparison {
  constructor(stream, spans) {
    this.reading = read(stream);
    this.spans = spans;
    this.problems = [];
    this.place = '';
  }

  say(what, reading, trace) {
    this.problems.push(`${this.place}: ${what}: the stream says ${show(reading)}, the trace ${show(trace)}`);
  }

  same(what, reading, trace) {
    if (JSON.stringify(reading ?? null) !== JSON.stringify(trace ?? null)) this.say(what, reading, trace);
  }

  // hasReason: what failed says so "at every level".
  hasReason(span) {
    if (span.failed && !span.reason) this.say(`status of ${span.name}`, 'a text', span.reason);
  }

  // instant compares two instants, shown as milliseconds since the run's start.
  instant(what, reading, trace) {
    if (!this.run.stamped) return; // no line says when it happened
    const relative = (t) => (t === null || t === undefined ? t : Math.round((t - this.run.start) * 1000) / 1000);
    if (trace === undefined || reading === null || Math.abs(reading - trace) > TOLERANCE) {
      this.say(what, relative(reading), relative(trace));
    }
  }

  compare() {
    const ids = new Set(this.spans.map((span) => span.id));
    const roots = this.spans.filter((span) => !ids.has(span.parent) && span.operation === 'invoke_agent');
    this.place = 'file';
    this.same('runs', this.reading.runs.length, roots.length);
    const bySession = (session) => roots.filter((root) => root.attributes['gen_ai.conversation.id'] === session)
      .sort((a, b) => a.start - b.start);
    const seen = new Map();
    this.reading.runs.forEach((run, i) => {
      this.place = `run ${i + 1}`;
      const nth = seen.get(run.session) ?? 0;
      seen.set(run.session, nth + 1);
      const root = bySession(run.session)[nth];
      if (!root) {
        this.say('root span', run.session, undefined);
        return;
      }
      this.run = run;
      const family = this.spans.filter((span) => span.trace === root.trace && span !== root);
      this.compareRoot(run, root, family);
      this.compareTurns(run, root, family);
      this.compareTools(run, family);
      this.compareApprovals(run, family);
      this.compareBackground(run, root, family);
      this.compareIdle(run, family);
    });
    if (this.reading.runs.length === 1 && roots.length === 1) {
      this.place = 'run 1';
      this.same('lines that are no records', this.reading.badLines, roots[0].attributes['spantee.bad_lines']);
    }
    return this.problems;
  }

  compareRoot(run, root) {
    const a = root.attributes;
    if (run.stamped) {
      this.instant('start', run.start, root.start);
      this.instant('end', run.end, root.end);
    } else if (run.reported !== null && Math.abs(root.end - root.start - run.reported) > TOLERANCE) {
      this.say('length', run.reported, root.end - root.start);
    }
    this.same('failed', !run.completed, root.failed);
    const unlessLone = (n) => (run.lone ? undefined : n); // "the lone result leaves out what it does not say"
    this.same('turns', unlessLone(run.turns.length), a['spantee.turns']);
    this.same('tools', unlessLone(run.tools.length), a['spantee.tools']);
    this.same('deltas', unlessLone(run.deltas), a['spantee.deltas']);
    if (run.lone) this.same('model time', undefined, a['spantee.model_ms']);
    this.hasReason(root);
    const count = (kind) => run.frames.filter((frame) => frame.kind === kind).length;
    this.same('retries', count('retry/starting') || undefined, a['spantee.retries'] || undefined);
    this.same('reconnects', count('connection/reconnecting') || undefined, a['spantee.reconnects'] || undefined);
    if (run.tokens === null) return;
    const prefix = 'gen_ai.usage.';
    this.same('input tokens', run.tokens.input, a[`${prefix}input_tokens`]);
    this.same('output tokens', run.tokens.output, a[`${prefix}output_tokens`]);
    this.same('tokens from the cache', run.tokens.cacheRead, a[`${prefix}cache_read.input_tokens`]);
    this.same('tokens to the cache', run.tokens.cacheWrite, a[`${prefix}cache_write.input_tokens`]);
  }

  compareTurns(run, root, family) {
    const chats = family.filter((span) => span.operation === 'chat').sort((a, b) => a.start - b.start || a.end - b.end);
    const place = this.place;
    this.same('chats', run.turns.length, chats.length);
    run.turns.forEach((turn, i) => {
      const chat = chats[i];
      if (!chat) return;
      this.place = `${place}, turn ${i + 1}`;
      const a = chat.attributes;
      this.instant('start', turn.start, chat.start);
      this.instant('end', turn.end, chat.end);
      for (const kind of ['text', 'thinking']) {
        this.same(`${kind} deltas`, turn[kind].deltas, a[`spantee.${kind}.deltas`]);
        this.same(`${kind} bytes`, turn[kind].bytes, a[`spantee.${kind}.bytes`]);
      }
      this.same('number', i + 1, a['spantee.turn']);
      this.same('finish reason', [turn.finish], a['gen_ai.response.finish_reasons']);
      this.same('failed', turn.finish === 'error', chat.failed);
      if (turn.guessedEnd && this.run.stamped) this.same('marked', true, a['spantee.time.estimated']);
      if (turn.inferredStart && this.run.stamped) this.same('how its start is known', 'inferred', a['spantee.time.start']);
      this.hasReason(chat);
      this.compareFirstChunk(turn, a);
      const events = family.filter((span) => span === chat || span.parent === chat.id).flatMap((span) => span.events);
      const frames = events.filter((event) => /^(retry|connection\.)/.test(event.name));
      this.same('retry and connection events', turn.frames, frames.length);
    });
    this.place = place;
  }

  // "A time to first chunk that would be a guess is left out": in a recording
  // that of a run's first turn is one, and so are that of a turn whose start is
  // inferred, that of a delta without a stamp and that of a flush, which is printed when all of it has been said. It is the whole
  // wait, "retries and lost connections included".
  compareFirstChunk(turn, attributes) {
    const key = 'gen_ai.response.time_to_first_chunk';
    const said = attributes[key];
    if (!this.run.stamped || turn.guessedStart || turn.inferredStart || turn.first === null || !turn.firstMeasured || turn.first > turn.end) {
      if (said !== undefined) this.say('time to first chunk', 'nothing', said);
      return;
    }
    const waited = turn.first - turn.start;
    if (said === undefined || Math.abs(said * 1000 - waited) > TOLERANCE) this.say('time to first chunk', waited, said && said * 1000);
  }

  compareTools(run, family) {
    const calls = family.filter((span) => span.operation === 'execute_tool').sort((a, b) => a.start - b.start);
    const place = this.place;
    this.same('tool spans', run.tools.length, calls.length);
    const seen = new Map();
    for (const tool of run.tools) {
      const nth = seen.get(tool.id) ?? 0;
      seen.set(tool.id, nth + 1);
      const call = calls.filter((span) => span.attributes['gen_ai.tool.call.id'] === tool.id)[nth];
      this.place = `${place}, ${tool.kind} ${String(tool.id).split('\n')[0]}`;
      if (!call) {
        this.say('span', 'one', undefined);
        continue;
      }
      const a = call.attributes;
      this.instant('start', tool.start, call.start);
      this.instant('end', tool.end, call.end);
      this.same('failed', tool.outcome === 'incomplete' || tool.failed === true, call.failed);
      if (tool.failed && tool.outcome !== 'success') this.same('outcome', tool.outcome, a['error.type']);
      if (tool.outcome === 'incomplete') this.same('outcome', 'incomplete', a['error.type']);
      if (tool.exitCode !== null && tool.exitCode !== undefined) this.same('exit code', tool.exitCode, a['process.exit.code']);
      this.same('in the background', tool.background || undefined, a['spantee.tool.is_background'] || undefined);
      this.same('own length', tool.own, a['spantee.tool.duration_ms']);
      this.same('turn', tool.turn + 1, a['spantee.turn']);
      if (this.run.stamped && tool.outcome !== 'incomplete') this.same('marked', tool.guessed || undefined, a['spantee.time.estimated']);
    }
    this.place = place;
  }

  compareApprovals(run, family) {
    const waits = family.filter((span) => span.name.startsWith('await_approval')).sort((a, b) => a.start - b.start);
    const place = this.place;
    this.same('approvals', run.approvals.length, waits.length);
    run.approvals.forEach((approval, i) => {
      const wait = waits[i];
      if (!wait) return;
      this.place = `${place}, approval ${i + 1}`;
      this.instant('start', approval.start, wait.start);
      this.instant('end', approval.end, wait.end);
      this.same('outcome', approval.outcome, wait.attributes['spantee.query.outcome']);
      this.same('tool call', approval.tool, wait.attributes['gen_ai.tool.call.id']);
      this.same('failed', approval.outcome === 'rejected' || approval.outcome === null, wait.failed);
    });
    this.place = place;
  }

  compareBackground(run, root, family) {
    const spans = family.filter((span) => span.name.startsWith('background '));
    const place = this.place;
    for (const work of run.background) {
      this.place = `${place}, background ${work.task}`;
      const span = spans.find((s) => s.attributes['spantee.task.id'] === work.task);
      if (!span) {
        this.say('span', 'one', undefined);
        continue;
      }
      this.instant('start', work.start, span.start);
      if (work.end !== null) this.instant('end', work.end, span.end);
      this.same('marked', work.guessedEnd || undefined, span.attributes['spantee.time.estimated']);
      this.hasReason(span);
      if (work.status !== null) this.same('status', work.status, span.attributes['spantee.task.status']);
      const failed = (work.status !== null && work.status !== 'success') || (work.exitCode ?? 0) !== 0;
      if (work.end !== null) this.same('failed', failed, span.failed);
    }
    this.place = place;
  }

  // "never idle time": no chat may hold a moment in which the agent was idle.
  compareIdle(run, family) {
    if (!run.stamped) return;
    for (const idle of run.idle) {
      for (const chat of family.filter((span) => span.operation === 'chat')) {
        const shared = Math.min(idle.end, chat.end) - Math.max(idle.start, chat.start);
        if (shared > TOLERANCE) this.say(`${chat.name} idles`, 0, shared);
      }
    }
  }
}

function show(value) {
  return value === undefined || value === null ? 'nothing' : JSON.stringify(value);
}

const [stream, spans] = process.argv.slice(2);
if (!stream || !spans) {
  console.error('usage: compare.mjs STREAM SPANS');
  process.exit(2);
}
const problems = new Comparison(readFileSync(stream, 'utf8'), readSpans(readFileSync(spans, 'utf8'))).compare();
for (const problem of problems) console.log(`${basename(stream)}: ${problem}`);
process.exit(problems.length > 0 ? 1 : 0);
