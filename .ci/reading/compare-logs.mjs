// Compares the reading of session logs with the spans that `spantee replay --to SPANS
// LOG` wrote, prints every disagreement and exits with status 1 if there is one.
//
//   node .ci/reading/compare-logs.mjs LOG|FOLDER SPANS
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { read } from './logs.mjs';
import { readSpans } from './spans.mjs';

const TOLERANCE = 1; // ms: borders are rounded, and 1 us apart

// paid tells the model calls that have tokens. One that failed has none, and the search
// that Codex's model calls within its answer splits that answer's chat, but not its tokens.
const paid = ({ usage }) => usage.input + usage.output > 0;

function usageOf(chat) {
  const usage = (key) => chat.attributes[`gen_ai.usage.${key}`] ?? 0;
  return {
    input: usage('input_tokens'), output: usage('output_tokens'),
    cacheRead: usage('cache_read.input_tokens'), cacheWrite: usage('cache_write.input_tokens'),
  };
}

function compare(runs, spans) {
  const problems = [], byId = new Map(spans.map((span) => [span.id, span]));
  let place = '';
  const same = (what, log, trace) => {
    if (JSON.stringify(log ?? null) === JSON.stringify(trace ?? null)) return;
    problems.push(`${place}: ${what}: the log says ${JSON.stringify(log ?? null)}, the trace ${JSON.stringify(trace ?? null)}`);
  };
  const instant = (what, log, trace) => {
    if (log !== null && !(Math.abs(log - trace) <= TOLERANCE)) same(what, new Date(log), new Date(trace));
  };
  // caller returns the id of the call that a span's agent was started by.
  const caller = (span) => {
    for (let up = byId.get(span.parent); up; up = byId.get(up.parent)) {
      if (up.operation === 'invoke_agent') return callOf(up) ?? null;
    }
    return null;
  };
  // An agent that works on after its call is under the call's background span, which
  // begins where the call ends and has its name.
  const callOf = (agent) => {
    const above = byId.get(agent.parent);
    if (!above) return undefined;
    if (above.operation === 'execute_tool') return above.attributes['gen_ai.tool.call.id'];
    const call = (span) => span.operation === 'execute_tool' && span.parent === above.parent &&
      `background ${span.attributes['gen_ai.tool.name']}` === above.name && Math.abs(span.end - above.start) <= TOLERANCE;
    return spans.find(call)?.attributes['gen_ai.tool.call.id'];
  };

  const roots = spans.filter((span) => span.operation === 'invoke_agent' && !byId.has(span.parent)).sort((a, b) => a.start - b.start);
  place = 'log';
  const told = runs.map(({ session, start }) => ({ session, start }));
  const traced = roots.map((root) => ({ session: root.attributes['gen_ai.conversation.id'], start: root.start }));
  const alone = (some, others) => some.filter((run) => !others.some((o) => o.session === run.session && Math.abs(o.start - run.start) <= TOLERANCE))
    .map((run) => `${run.session} at ${new Date(run.start).toISOString()}`);
  same('runs that only one has', alone(told, traced), alone(traced, told));
  if (runs.length !== roots.length) return problems;
  runs.forEach((run, i) => {
    const root = roots[i], family = spans.filter((span) => span.trace === root.trace);
    const chats = family.filter((span) => span.operation === 'chat' && paid({ usage: usageOf(span) }))
      .sort((a, b) => a.start - b.start || a.end - b.end);
    const tools = family.filter((span) => span.operation === 'execute_tool');
    place = `run ${i + 1}`;
    instant('start', run.start, root.start);
    instant('end', run.end, root.end);
    same('failed', run.failed, root.failed);
    const total = (key) => root.attributes[`spantee.usage.${key}_tokens`] ?? 0;
    same('tokens', run.tokens, { input: total('input'), output: total('output'), cacheRead: total('cache_read'), cacheWrite: total('cache_write') });
    const cost = root.attributes['spantee.usage.cost'] ?? 0;
    if (Math.abs(run.cost - cost) > 1e-9) same('cost', run.cost, cost);
    const works = [{ ...run, call: null }, ...run.agents];
    same('tools', run.tools, root.attributes['spantee.tools']);
    same('tool spans', works.flatMap((work) => work.calls).length, tools.length);
    same('model calls', works.flatMap((work) => work.turns).filter(paid).length, chats.length);
    for (const work of works) {
      for (const call of work.calls) {
        place = `run ${i + 1}, ${call.name} ${call.id}`;
        const found = tools.filter((span) => span.attributes['gen_ai.tool.call.id'] === call.id);
        same('spans', 1, found.length);
        if (found.length !== 1) continue;
        same('name', call.name, found[0].attributes['gen_ai.tool.name']);
        instant('start', call.start, found[0].start);
        instant('end', call.end, found[0].end);
        same('failed', call.failed, found[0].failed);
        same('started by', work.call, caller(found[0]));
        if (call.by === undefined) continue; // only Codex's scripts make calls
        const above = byId.get(found[0].parent);
        same('made by', call.by, above?.operation === 'execute_tool' ? above.attributes['gen_ai.tool.call.id'] : null);
      }
      place = `run ${i + 1}, agent of ${work.call ?? 'the run'}`;
      const beside = works.filter((w) => w.call === work.call); // a workflow starts several
      const turns = beside.length === 1 ? work.turns : beside.flatMap((w) => w.turns).sort((a, b) => a.start - b.start || a.end - b.end);
      compareTurns(work, turns.filter(paid), chats.filter((chat) => caller(chat) === work.call));
    }
  });

  function compareTurns(work, turns, chats) {
    same('model calls', turns.length, chats.length);
    turns.forEach((turn, i) => {
      const chat = chats[i];
      if (!chat) return;
      same('model', turn.model, chat.attributes['gen_ai.request.model']);
      same('tokens of a model call', turn.usage, usageOf(chat));
      if (turn.id === undefined) return; // Codex's rows do not say where a model call begins
      same('model call', turn.id, chat.attributes['gen_ai.response.id']);
      if (work.call === null || i > 0) instant(`start of ${turn.id}`, turn.start, chat.start); // a sub-agent begins with its call
      instant(`end of ${turn.id}`, turn.end, chat.end);
    });
  }
  return problems;
}

const [log, spans] = process.argv.slice(2);
if (!log || !spans) {
  console.error('usage: compare-logs.mjs LOG|FOLDER SPANS');
  process.exit(2);
}
const problems = compare(read(log), readSpans(readFileSync(spans, 'utf8')));
for (const problem of problems) console.log(`${basename(log)}: ${problem}`);
process.exit(problems.length > 0 ? 1 : 0);
