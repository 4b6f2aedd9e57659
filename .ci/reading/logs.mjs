// Reads session logs of Claude Code, Codex and pi, as the agents keep them on disk, into
// the runs that their traces must have. It shares no code with the Go mapper: it
// is a second reading of the same rows.
//
//   node .ci/reading/logs.mjs LOG|FOLDER
import { readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

// read returns the runs of a log, or of all logs in a folder: a run has its session,
// start and end, whether it failed, its calls, its model calls (turns), and what its
// session's sub-agents did in it.
export function read(path) {
  const files = logs(path).map((file) => rows(readFileSync(file, 'utf8'))).filter((file) => file.length > 0);
  files.sort((a, b) => a[0].at - b[0].at);
  if (files.length === 0) return [];
  const reading = { session_meta: codex, session: pi }[files[0][0].type] ?? claude;
  return reading(files).map(finish).sort((a, b) => a.start - b.start);
}

function logs(path) {
  if (!statSync(path).isDirectory()) return [path];
  return readdirSync(path).sort().flatMap((name) => (/\.jsonl$/.test(name) || statSync(join(path, name)).isDirectory() ? logs(join(path, name)) : []));
}

// rows returns the rows with an instant: what is cut, or has none, says nothing of a run. But
// what a session has cost is what it had when the row before was written.
function rows(text) {
  let at;
  return text.split('\n').flatMap((line) => {
    try {
      const row = JSON.parse(line);
      at = row?.timestamp === undefined ? at : Date.parse(row.timestamp);
      return row?.timestamp === undefined && row?.type !== 'cost-state' ? [] : [{ ...row, at }];
    } catch {
      return [];
    }
  });
}

const blocks = (row) => (Array.isArray(row.message?.content) ? row.message.content : []);
const words = (row) => (typeof row.message?.content === 'string' ? row.message.content
  : blocks(row).filter((block) => block.type === 'text').map((block) => block.text).join('\n'));

// claude: "a row's uuid counts once, in the oldest file"; "a sub-agent's rows carry the
// parent's sessionId", in a file of their own, in the main one, or in both.
function claude(files) {
  const seen = new Set();
  const all = files.flat().filter((row) => {
    const fresh = row.uuid === undefined || !seen.has(row.uuid);
    seen.add(row.uuid);
    return fresh;
  }).sort((a, b) => a.at - b.at).filter(first()).filter(once());

  const kept = new Set(all), copies = new Set();
  for (const rows of files) {
    const said = rows.filter((row) => row.type === 'assistant' || (row.type === 'user' && words(row) !== '' && !row.isMeta));
    said.forEach((row, i) => {
      const answer = said[i + 1];
      if (row.type === 'user' && answer?.type === 'assistant' && !kept.has(answer)) copies.add(row);
    });
  }
  const runs = [], agents = new Map(), owners = new Map(), threads = new Map();
  for (const row of all) {
    row.isSidechain ||= row.type === 'api-request' && row.agentId !== undefined;
    if (row.type === 'progress' && row.data?.agentId) owners.set(row.data.agentId, row.parentToolUseID);
    const result = blocks(row).find((block) => block.type === 'tool_result');
    if (result && row.toolUseResult?.agentId) owners.set(row.toolUseResult.agentId, result.tool_use_id);
    // Version 1.0 names no agents: the rows of one hang together by their parents.
    const thread = row.isSidechain ? row.agentId ?? threads.get(row.parentUuid) ?? row.uuid : row.sessionId;
    threads.set(row.uuid, thread);
    if (row.isSidechain && !agents.has(thread)) agents.set(thread, []);
    if (row.isSidechain) agents.get(thread).push(row);
  }
  const main = all.filter((row) => !row.isSidechain && !copies.has(row));
  for (const session of new Set(main.map((row) => row.sessionId))) runs.push(...claudeRuns(main.filter((row) => row.sessionId === session)));

  // A call without agents' ids is found by its prompt, "two with the same prompt" in their order.
  const later = [];
  const works = new Map([...agents].map(([id, rows]) => {
    const [part, ...parts] = untilEnds(rows, main.filter((row) => words(row).includes(`<task-id>${id}</task-id>`)));
    later.push(...parts.map((more) => ({ id, ...more })));
    return [id, claudeWork(part.rows)];
  }));
  const calls = [...runs, ...works.values()].flatMap((work) => work.calls);
  // No row says which sub-agents a workflow starts: those that nobody else started while it ran.
  const flows = main.filter((row) => row.toolUseResult?.workflowRunId).map((row) => ({
    call: blocks(row)[0].tool_use_id, from: row.at,
    to: main.find((later) => words(later).includes(`<task-id>${row.toolUseResult.taskId}</task-id>`))?.at ?? Infinity,
  }));
  const named = new Set(owners.values());
  for (const [id, rows] of agents) {
    if (owners.has(id)) continue;
    const call = calls.find((c) => c.prompt === words(rows[0]) && !named.has(c.id));
    if (call) owners.set(id, call.id);
    if (call) named.add(call.id);
    const flow = flows.findLast(({ from, to }) => from <= rows[0].at && rows[0].at < to);
    if (!call && flow) owners.set(id, flow.call);
  }
  const holder = (call) => {
    const run = runs.find((r) => r.calls.some((c) => c.id === call));
    if (run) return run;
    const [agent] = [...works].find(([, work]) => work.calls.some((c) => c.id === call)) ?? [];
    return agent && owners.has(agent) ? holder(owners.get(agent)) : undefined;
  };
  for (const [id, work] of works) {
    const run = holder(owners.get(id));
    if (!run) continue;
    attach(run, { ...work, call: owners.get(id) });
  }
  // "nothing is dropped": what a sub-agent does after its end while its parent is idle is a run.
  const parents = [...runs];
  for (const { id, rows, end } of later) {
    const work = claudeWork(rows);
    const open = parents.find((run) => run.session === work.session && run.start <= work.start && work.start <= run.end);
    if (open) attach(open, { ...work, call: owners.get(id) });
    else runs.push({ ...work, end: end ?? work.end });
  }
  return runs;
}

// untilEnds splits the rows of a sub-agent into what it did until each end that is told.
function untilEnds(rows, ends) {
  const parts = [...ends.map((row) => row.at), undefined].map((end, i, all) => ({
    end, rows: rows.filter((row) => row.at >= (all[i - 1] ?? -Infinity) && row.at < (end ?? Infinity)),
  }));
  return parts.filter((part, i) => i === 0 || part.rows.length > 0);
}

// once: a resume writes rows again, into the same session or into another, with other ids and
// perhaps other times. A call has one result, and a prompt with a copied answer is a copy.
function once() {
  const seen = new Set();
  return (row) => {
    const key = row.message?.id ? [row.message.id, row.isSidechain, row.message.content, row.message.usage]
      : blocks(row).some((block) => block.type === 'tool_result') ? blocks(row).map((block) => block.tool_use_id)
        : row.type === 'user' && !row.isSidechain && row.parentUuid ? [row.timestamp, row.message.content] : undefined;
    const again = key && seen.has(JSON.stringify(key));
    seen.add(JSON.stringify(key));
    return !again;
  };
}

const LOCAL = /^<(local-command-|bash-(input|stdout|stderr)>|command-name>\/exit<)/;

// claudeRuns: "each prompt to its last word is one run". What the user has done without the model is none.
// first: a model call counts once, for the agent that made it: a copied history repeats it in
// rows with other ids.
function first() {
  const makers = new Map();
  return (row) => {
    if (!row.message?.id) return true;
    const call = `${row.message.id} ${row.requestId}`;
    const maker = `${row.sessionId} ${row.agentId}`;
    if (!makers.has(call)) makers.set(call, row.isSidechain && !row.agentId ? undefined : maker);
    return makers.get(call) === undefined || makers.get(call) === maker;
  };
}

// queued tells what waited for an agent at work: the user's words, or the end of a background task.
const queued = (row) => row.type === 'attachment' && row.attachment?.type === 'queued_command';
const tooManyTurns = (row) => row.type === 'attachment' && row.attachment?.type === 'max_turns_reached';

// told returns what an attachment tells an agent at work in the program's name.
const told = (row) => (row.type === 'attachment' && row.attachment?.commandMode === 'task-notification');

// steers: what the user says while a tool runs, or while the model waits to go on, is for the
// agent at work; but one whose call never ends, or who has been silent for long, was killed.
function steers(run, rest) {
  const called = run.filter((row) => row.type === 'assistant').flatMap(blocks).filter((b) => b.type === 'tool_use').map((b) => b.id);
  const open = called.filter((id) => !run.some((row) => blocks(row).some((b) => b.tool_use_id === id)));
  if (called.length === 0 || answered(run)) return false;
  if (open.length === 0) return rest[0].at - run.at(-1).at < 10 * 60 * 1000;
  const next = rest.find((row) => row.type === 'assistant' || blocks(row).some((b) => b.type === 'tool_result'));
  return next?.type === 'user';
}

// answered: "a turn ends with stop_reason end_turn"; builds that write none end it with a text
// without an open call. A session that has stated one is of another build.
function answered(run) {
  const last = run.findLast((row) => row.type === 'assistant' || row.type === 'user');
  if (last?.type !== 'assistant') return false;
  if (last.message.stop_reason) return last.message.stop_reason !== 'tool_use';
  if (last.stated) return false;
  const results = new Set(run.flatMap(blocks).map((b) => b.tool_use_id));
  return blocks(last).at(-1)?.type === 'text' && run.flatMap(blocks).every((b) => b.type !== 'tool_use' || results.has(b.id));
}

function claudeRuns(session) {
  const runs = [];
  let run, begun, stated = false, total = 0, paid = 0; // for so many of the runs
  for (const [i, row] of session.entries()) {
    row.stated = stated ||= Boolean(row.message?.stop_reason) && row.message.model !== '<synthetic>';
    const said = row.type === 'user' ? words(row) : '';
    if (told(row) && run && answered(run)) {
      run = [];
      begun = { command: true, closed: false, rows: run, notes: [] };
      runs.push(begun);
    }
    const prompt = row.type === 'user' && !row.isMeta && !row.isCompactSummary && said !== '' && !LOCAL.test(said) &&
      !said.startsWith('[Request interrupted by user');
    if (prompt && (!run || begun.closed || (row.origin?.kind === 'task-notification' ? answered(run) : !(row.steers = steers(run, session.slice(i)))))) {
      run = [];
      begun = { command: /^<command-(name|message)>/.test(said), closed: false, notes: [] };
      runs.push(Object.assign(begun, { rows: run }));
    }
    if (run && (row.type === 'user' || row.type === 'assistant') && !LOCAL.test(said)) run.push(row);
    if (run && (row.type === 'api-request' || queued(row) || tooManyTurns(row))) begun.notes.push(row);
    if (run && tooManyTurns(row)) begun.closed = true;
    if (row.type === 'cost-state') {
      // It grows with the session. What several runs share is nobody's.
      if (runs.length === paid + 1) begun.cost = row.totalCostUSD - (row.totalCostUSD < total ? 0 : total);
      [total, paid] = [row.totalCostUSD, runs.length];
    }
    if (said.startsWith('[Request interrupted by user')) begun.closed = true;
  }
  const worked = (row) => row.isMeta || row.type === 'assistant';
  return runs.filter(({ command, rows }) => !command || rows.some(worked)).map(({ rows, notes, cost }) => ({ ...claudeWork(rows, notes), cost }));
}

// claudeWork reads the rows of one agent from its prompt to its last word. Notes are the rows
// beside them that tell when its model was asked, or that it was stopped.
function claudeWork(rows, notes = []) {
  const work = { session: rows[0].sessionId, start: rows[0].at, end: rows[0].at, complete: false, failed: false, calls: [], turns: [], agents: [] };
  let asked = rows[0].at;
  for (const row of [...rows, ...notes].sort((a, b) => a.at - b.at)) {
    if (tooManyTurns(row)) Object.assign(work, { end: row.at, interrupted: true });
    if (row.type === 'api-request' || queued(row)) asked = row.at;
    const results = blocks(row).filter((block) => block.type === 'tool_result');
    for (const result of results) {
      const call = work.calls.find((c) => c.id === result.tool_use_id && c.end === null);
      if (call) Object.assign(call, { end: row.at, failed: result.is_error === true });
    }
    if (results.length > 0) work.end = row.at;
    // A compaction is no reason for the model to go on: it waited since its last call.
    if (row.type === 'user' && !row.isCompactSummary) asked = row.at;
    if (row.type === 'user' && words(row).startsWith('[Request interrupted by user')) Object.assign(work, { end: row.at, interrupted: true });
    if (row.type !== 'assistant' || (row.message.model === '<synthetic>' && !row.isApiErrorMessage)) continue;
    claudeAnswer(work, row, asked);
  }
  const last = work.turns.at(-1);
  work.complete = !work.interrupted && last !== undefined && answered(rows);
  work.failed = !work.complete || last.failed;
  return work;
}

// claudeAnswer: "one model call is several rows with one message.id + requestId,
// output_tokens growing: the largest counts".
function claudeAnswer(work, row, asked) {
  const { id, model, stop_reason: stop, usage = {} } = row.message;
  let turn = work.turns.find((t) => t.id === id);
  if (!turn) {
    turn = { id, model, start: asked, end: row.at, stop: null, called: false, usage: {}, failed: row.isApiErrorMessage === true };
    work.turns.push(turn);
  }
  turn.stop = stop ?? turn.stop;
  const cacheRead = usage.cache_read_input_tokens ?? 0, cacheWrite = usage.cache_creation_input_tokens ?? 0;
  const now = { input: (usage.input_tokens ?? 0) + cacheRead + cacheWrite, output: usage.output_tokens ?? 0, cacheRead, cacheWrite };
  for (const key of Object.keys(now)) turn.usage[key] = Math.max(turn.usage[key] ?? 0, now[key]);
  if (!turn.called) turn.end = row.at; // "first tool call of this turn, the last word of the answer"
  for (const block of blocks(row).filter((b) => b.type === 'tool_use')) {
    turn.called = true;
    work.calls.push({ id: block.id, name: block.name, prompt: block.input?.prompt, start: row.at, end: null, failed: true });
  }
  work.end = row.at;
}

// codex: "only the first session_meta counts, leading turns whose turn_id is in the parent are dropped".
function codex(files) {
  const sessions = files.map((rows) => ({ meta: rows.find((row) => row.type === 'session_meta').payload, rows }));
  const runs = [], dropped = new Map();
  for (const { meta, rows } of sessions) {
    const starter = meta.parent_thread_id ?? meta.source?.subagent?.thread_spawn?.parent_thread_id;
    const parent = meta.forked_from_id ?? starter;
    const works = codexRuns(rows, meta.id);
    dropped.set(meta.id, new Set([...(dropped.get(parent) ?? []), ...works.map((work) => work.turn)]));
    const own = works.filter((work) => work.turn === undefined || !dropped.get(parent)?.has(work.turn));
    const call = starter === undefined ? undefined
      : runs.flatMap((run) => [run, ...run.agents].flatMap((work) => work.calls.map((c) => ({ run, ...c })))).find((c) => c.made.includes(meta.id));
    if (!call) runs.push(...own);
    // "nothing is dropped": what a sub-agent does while no run of its parent is open is a run.
    for (const [i, work] of (call ? own : []).entries()) {
      const waiting = runs.some((run) => run.session === call.run.session && run.start <= work.start && work.start <= run.end);
      if (i === 0 || waiting) attach(call.run, { ...work, call: call.id });
      else runs.push({ ...work, session: call.run.session });
    }
  }
  return runs;
}

// codexRuns: "one run per task_started to task_complete or turn_aborted"; version 0.40
// has neither: there one goes from what the user says to the last row before he says more.
function codexRuns(rows, session) {
  const runs = [], marked = rows.some((row) => row.payload?.type === 'task_started');
  let run, model, total = '';
  for (const row of rows) {
    const p = row.payload ?? {}, kind = row.type === 'response_item' ? p.type : `${row.type}/${p.type ?? ''}`;
    if (kind === (marked ? 'event_msg/task_started' : 'event_msg/user_message')) {
      run = { session, turn: p.turn_id, start: row.at, end: row.at, complete: false, failed: false, calls: [], turns: [], agents: [] };
      runs.push(run);
    }
    if (row.type === 'turn_context') model = p.model;
    const changed = kind === 'event_msg/token_count' && p.info != null && JSON.stringify(p.info.total_token_usage) !== total;
    if (changed) total = JSON.stringify(p.info.total_token_usage);
    if (run && row.type === 'session_meta' && p.id === session) run.closed = true; // a resume begins so
    if (!run || run.closed) continue;
    // What the user's next words are preceded by is no part of the run.
    if (marked || p.role !== 'user') run.end = row.at;
    if (changed) run.turns.push({ model, usage: codexUsage(p.info.last_token_usage) });
    if (!marked && row.type === 'response_item' && p.role !== 'user') run.complete = p.role === 'assistant';
    if (kind === 'event_msg/error' || (kind === 'event_msg/task_complete' && (p.error ?? null) !== null)) run.failed = true;
    if (kind === 'event_msg/turn_aborted') run.failed = true;
    if (['event_msg/task_complete', 'event_msg/turn_aborted'].includes(kind)) Object.assign(run, { complete: true, closed: true });
    codexCall(run, kind, p, row.at);
  }
  return runs;
}

const codexUsage = (usage) => ({ input: usage.input_tokens, output: usage.output_tokens, cacheRead: usage.cached_input_tokens ?? 0, cacheWrite: 0 });

// codexName: the log's items are the stream's, in another spelling; those that are tools of an
// MCP server, or work with other agents, are named by the tool.
function codexName({ type, tool }) {
  const snake = (name) => name.replace(/(?<=.)(?=[A-Z])/g, '_').toLowerCase();
  return type === 'CommandExecution' ? 'shell' : snake(tool ?? type);
}

// codexItem: "item_completed items are the calls, with their own started_at_ms,
// completed_at_ms, exit_code, status. The script around them stays as their parent".
function codexItem(run, { item, started_at_ms: start, completed_at_ms: end }, at) {
  if (item.status === undefined && item.command === undefined && item.tool === undefined && item.query === undefined) return;
  const failed = ['failed', 'declined'].includes(item.status) || (item.exit_code ?? 0) !== 0 || (item.error ?? null) !== null;
  const own = run.calls.find((c) => c.id === item.id);
  const running = run.calls.filter((c) => c.end === null), script = running.findLast((c) => c.script);
  // Codex waits for 150 ms before it says that a command has begun.
  const begun = item.command !== undefined && own && start - own.start <= 300 ? own.start : start;
  if (own) Object.assign(own, { broken: own.broken || failed, own: { start: begun, end } });
  if (own || (!script && running.length > 0 && item.tool === 'spawn_agent')) return;
  if (script) script.makes += 1;
  const by = script ? script.id : null;
  run.calls.push({ id: item.id, name: codexName(item), start: start ?? at, end: end ?? at, failed, made: '', by });
}

function codexCall(run, kind, p, at) {
  if (kind === 'event_msg/item_completed') codexItem(run, p, at);
  const call = run.calls.find((c) => c.id === p.call_id && c.end === null);
  if (kind === 'function_call' || kind === 'custom_tool_call') {
    const script = kind === 'custom_tool_call' && p.name === 'exec';
    run.calls.push({ id: p.call_id, name: p.name, start: at, end: null, failed: true, broken: false, made: '', by: null, script, makes: 0 });
  } else if (kind === 'web_search_call') {
    run.calls.push({ id: p.id, name: 'web_search', start: at, end: at, failed: p.status !== 'completed', made: '' });
  } else if (call && kind === 'event_msg/mcp_tool_call_end') {
    call.broken = p.result?.Err !== undefined || p.result?.Ok?.isError === true;
  } else if (call && kind === 'event_msg/patch_apply_end') {
    call.broken = p.success === false;
  } else if (call && kind.endsWith('_call_output')) {
    const said = typeof p.output === 'string' ? p.output : (p.output ?? []).map((part) => part.text ?? '').join('\n');
    const code = /(?:^|\n)(?:Process exited with code|Exit code:) (-?\d+)|"exit_code": ?(-?\d+)/.exec(said);
    const refused = /rejected by user|^(?:Wall time: .*\n)?aborted by user|^unsupported custom tool call|^Script failed/.test(said);
    Object.assign(call, { end: at, failed: call.broken || refused || Number(code?.[1] ?? code?.[2] ?? 0) !== 0, made: said });
    if (call.own?.end <= at) Object.assign(call, call.own); // its own clock beats the rows around it
  }
}

// pi: "the rows form a tree, and only the active branch is the conversation, but every
// branch was paid for"; a session that branched off another begins with copies of its rows.
function pi(files) {
  const runs = [], seen = new Set();
  for (const [header, ...rows] of files) {
    let run;
    for (const { message, ...row } of rows) {
      const key = row.id === undefined ? JSON.stringify([row.timestamp, message]) : `${row.id} ${row.timestamp}`;
      if (row.type !== 'message' || seen.has(key)) continue;
      seen.add(key);
      // What the user says to an agent at work begins no run; what is typed after a prompt
      // without an answer does.
      const working = run && (run.turns.length === 0 ? message.timestamp < run.start : run.turns.at(-1).stop === 'toolUse');
      if (message.role === 'user' && !working) {
        run = { session: header.id, start: row.at, end: row.at, complete: false, failed: false, calls: [], turns: [], agents: [] };
        runs.push(run);
      }
      if (run) piMessage(run, message, row.at);
    }
  }
  return runs;
}

// piMessage: "a row's timestamp is when it was stored, message.timestamp when it began":
// an answer has ended when it is stored, and a result begins when its call has ended.
function piMessage(run, message, stored) {
  if (message.role === 'assistant') {
    const { input, output, cacheRead, cacheWrite, cost } = message.usage;
    const usage = { input: input + cacheRead + cacheWrite, output, cacheRead, cacheWrite };
    run.turns.push({ model: message.model, usage, cost: cost?.total ?? 0, stop: message.stopReason });
    for (const block of message.content.filter((b) => b.type === 'toolCall')) {
      run.calls.push({ id: block.id, name: block.name, start: stored, end: null, failed: true });
    }
    Object.assign(run, { end: stored, complete: message.stopReason !== 'toolUse', failed: ['error', 'aborted'].includes(message.stopReason) });
  } else if (message.role === 'toolResult') {
    const call = run.calls.find((c) => c.id === message.toolCallId && c.end === null);
    const end = call && message.durationMs !== undefined ? call.start + message.durationMs : message.timestamp;
    if (call) Object.assign(call, { end, failed: message.isError });
    run.end = message.timestamp;
  }
}

// attach: a run that broke off waited for its agents.
function attach(run, agent) {
  run.agents.push(agent);
  if (!run.complete) run.end = Math.max(run.end, agent.end);
}

// finish: a call whose end no row has ends with its run, as incomplete; tokens and
// counts are those of all model calls, of sub-agents too: they "are real spend". One
// that continues after the run has counts of its own.
function finish(run) {
  const works = [run, ...run.agents];
  for (const work of works) {
    for (const call of work.calls) call.end ??= work === run ? run.end : null;
  }
  const tokens = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };
  const counted = works.filter((work) => work.end <= run.end);
  for (const turn of counted.flatMap((work) => work.turns)) {
    for (const key of Object.keys(tokens)) tokens[key] += turn.usage[key] ?? 0;
  }
  return { ...run, failed: run.failed || !run.complete, tokens, cost: run.cost ?? counted.flatMap((work) => work.turns).reduce((sum, turn) => sum + (turn.cost ?? 0), 0), tools: counted.flatMap((work) => work.calls).filter((call) => !call.makes).length };
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  console.log(JSON.stringify(read(process.argv[2]), null, 2));
}
