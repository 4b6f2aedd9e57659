// Says what a recorded Cursor stream tells, as JSON: turns and their borders,
// tool calls, approvals, background work, retries, deltas, tokens, idle time.
//
//   node .ci/reading/reading.mjs STREAM
//
// It was written from the span model alone, without the mapper's code, so that
// the two can be compared (compare.mjs). The sentences in quotes are the model's.
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { DAY, isObject, readRuns } from './lines.mjs';

const SUCCESSES = new Set(['success', 'startSuccess', 'saveSuccess', 'discardSuccess', 'async']);
const VARIANTS = new Set([...SUCCESSES, 'failure', 'error', 'rejected', 'timeout', 'permissionDenied',
  'spawnError', 'fileNotFound', 'notFile', 'fileBusy', 'notFound', 'readPermissionDenied', 'writePermissionDenied']);

// KNOWN are the types of lines that end or continue a text.
const KNOWN = new Set(['assistant', 'thinking', 'tool_call', 'interaction_query', 'retry', 'connection', 'user', 'result']);

// Captures are edited, and lose lines: a flush repeats deltas if it begins as they do.
const begins = (flush, deltas) => {
  const head = deltas.slice(0, 64).trim();
  const text = flush.trim();
  const length = Math.min(head.length, text.length);
  return head.slice(0, length) === text.slice(0, length);
};

const bytes = (text) => Buffer.byteLength(text, 'utf8');
const textOf = (o) => {
  const block = Array.isArray(o.message?.content) ? o.message.content[0] : null;
  return typeof block?.text === 'string' ? block.text : null;
};

export function read(text) {
  const { badLines, runs } = readRuns(text);
  return { badLines, runs: runs.map((run) => new Reader(run).read()) };
}

class Reader {
  constructor(run) {
    this.run = run;
    this.turns = [];
    this.turn = null; // the newest turn
    this.waitingSince = run.start; // when the agent began to wait for the model
    this.waitingGuessed = false; // it is the end of a call that was printed late
    this.unstampedDeltas = saysTwice(run.lines);
    this.tools = [];
    this.open = new Map(); // call id → tool that has not completed
    this.approvals = [];
    this.asked = null; // the agent asked its user something, and said or did nothing since
    this.background = [];
    this.nested = []; // notifications of tasks that no tool result names
    this.idle = [];
    this.frames = [];
    this.later = []; // frames after words: the agent may be idle
    this.segment = { text: '', deltas: 0 }; // said since the last flush
    // Deltas, ends of thinking and ends of calls, and starts of calls: when each was printed.
    this.printed = [];
    this.restarted = 0; // when a call began whose id was in use
    this.halves = { text: '', thinking: '' }; // of a character whose other half is in the next delta
  }

  // step notes a line that a later call's start does not reach behind.
  step(at, isStep = true) {
    this.printed.push({ at, isStep });
  }

  // floorOf: "the last delta, thinking end or tool line ahead of it that was not printed in
  // one burst with it (within 10 ms)". Starts of calls are in bursts, but may overlap with a call.
  floorOf(at) {
    let i = this.printed.length - 1;
    for (let last = at; i >= 0 && last - this.printed[i].at <= 10; i--) last = this.printed[i].at;
    return Math.max(this.restarted, ...this.printed.slice(0, i + 1).filter((line) => line.isStep).map((line) => line.at));
  }

  read() {
    const { run } = this;
    run.lines.forEach((line, i) => this.line(line, run.lines.slice(i + 1, i + 9).find((l) => KNOWN.has(l.o.type))?.o));
    const completed = run.result !== null && run.result.is_error !== true && run.result.subtype !== 'error';
    for (const tool of this.open.values()) Object.assign(tool, { end: run.end, outcome: 'incomplete' });
    if (this.turn && !this.turn.ended) {
      const said = completed || this.turn.answered;
      if (!said) this.goOn();
      // A run that breaks off inside a turn ends it.
      this.endTurn(said ? this.turn.last : run.end, said ? 'stop' : 'error');
      this.shareUnstamped(said);
    }
    for (const line of run.after) this.line(line);
    for (const approval of this.approvals) approval.end ??= run.end;
    for (const work of this.background) work.guessedEnd ||= work.end === null; // nobody ended it
    const usage = run.result?.usage;
    return {
      session: run.session,
      lone: run.lines.length === 1 && run.result !== null,
      stamped: run.firstStamp !== undefined,
      start: run.start, end: run.end, reported: run.reported, completed,
      turns: this.turns.map(({ ended, last, id, ...turn }) => turn),
      tools: this.tools, approvals: this.approvals, background: this.background,
      nested: this.nested, idle: this.idle, frames: this.frames,
      deltas: this.turns.reduce((sum, turn) => sum + turn.text.deltas + turn.thinking.deltas, 0),
      tokens: isObject(usage) ? {
        // Cursor's inputTokens leaves out what came from and went to the cache.
        input: (usage.inputTokens ?? 0) + (usage.cacheReadTokens ?? 0) + (usage.cacheWriteTokens ?? 0),
        output: usage.outputTokens ?? 0, cacheRead: usage.cacheReadTokens ?? 0, cacheWrite: usage.cacheWriteTokens ?? 0,
      } : null,
    };
  }

  // shareUnstamped: "where the last words of a recording have no stamp, the time that
  // nobody stamped (reported duration less the stamped span) is shared between the first
  // and the last chat, also where a run has no last words", and both are marked. A result that
  // breaks a turn off, or ends one without words, is such words.
  shareUnstamped(completed) {
    const { run, turn } = this;
    const spoke = completed && turn.first !== null;
    if (run.result === null || run.firstStamp === undefined || (spoke && !turn.unstamped)) return;
    turn.guessedEnd = true;
    if (turn.timedOut) return; // it ended with its last word
    const unstamped = run.reported === null || run.reported >= DAY ? 0
      : run.reported - (run.end - Math.min(run.firstStamp, ...this.tools.map((tool) => tool.start)));
    if (unstamped <= 0) return;
    turn.end += (run.end - turn.end) / (spoke ? 2 : 1) + unstamped / 2;
    const later = Math.max(0, turn.end - run.end);
    run.end += later;
    run.start += later;
    this.turns[0].start = run.start;
  }

  line(line, next) {
    const { o, at } = line;
    const kind = `${o.type}/${o.subtype ?? ''}`;
    if (kind === 'thinking/delta') {
      this.say('thinking', line, this.joined('thinking', typeof o.text === 'string' ? o.text : ''), true);
    } else if (kind === 'thinking/completed') {
      const late = this.turn?.ended && this.turn.thinks; // the end of the block was printed after the turn
      if (!late && (!this.turn || this.turn.ended) && this.open.size === 0 && !this.turn?.answered) {
        if (!this.heldWithAnswer(line)) this.takeAnswer();
        this.beginTurn(); // thinking without deltas
        this.turn.first = at;
      }
      if (this.turn) this.turn.thinks = false;
      if (this.turn && !this.turn.ended) this.turn.last = this.heldWithAnswer(line) ? this.asked.at : at;
      this.step(at);
    } else if (o.type === 'assistant') {
      this.assistant(line, next);
    } else if (kind === 'tool_call/started') {
      this.started(line);
    } else if (kind === 'tool_call/completed') {
      this.completed(line);
    } else if (kind === 'interaction_query/request') {
      this.request(o, at);
    } else if (kind === 'interaction_query/response') {
      this.response(o, at);
    } else if (kind === 'system/task_notification') {
      this.notification(o, at);
    } else if (kind === 'system/background_shell_timeout') {
      this.timeout(at);
    } else if (o.type === 'connection' || o.type === 'retry') {
      this.frame(kind, at);
    }
  }

  // assistant tells deltas from flushes. "A flush repeats its deltas: it adds no
  // event; where it is the only copy it is one text.message event." A flush has
  // a model_call_id, or no stamp at all; or neither, if a query or a retry
  // follows: then it repeats at least two deltas, or one, or is the only copy.
  assistant(line, next) {
    let text = textOf(line.o);
    if (text === null) return;
    if ((line.hasStamp || this.unstampedDeltas) && !('model_call_id' in line.o)) text = this.joined('text', text);
    const { segment } = this;
    const interrupted = next !== undefined &&
      ((next.type === 'interaction_query' && next.subtype === 'request') || next.type === 'retry');
    let flush = (!line.hasStamp && !this.unstampedDeltas) || 'model_call_id' in line.o;
    if (!flush) {
      const repeats = text === segment.text;
      flush = (segment.deltas >= 2 && repeats) || (segment.deltas === 1 && repeats && interrupted) ||
        (segment.deltas === 0 && interrupted);
    }
    if (!flush) {
      segment.text += text;
      segment.deltas++;
      this.say('text', line, text, true);
      return;
    }
    const onlyCopy = segment.deltas === 0 || !begins(text, segment.text);
    const more = !onlyCopy && text.length > segment.text.length && text.startsWith(segment.text);
    if (more) this.say('text', line, text.slice(segment.text.length), true); // deltas were lost
    this.segment = { text: '', deltas: 0 };
    const id = line.o.model_call_id;
    if (onlyCopy) this.say('text', line, text, false, id);
    if (id !== undefined && this.turn) this.turn.id ??= id;
    if (!line.hasStamp && this.turn) this.turn.answered = true;
  }

  // say adds to the turn, or begins the next: a model that speaks after its tool
  // calls has been called again, unless the model_call_id says otherwise.
  say(kind, line, text, isDelta, id) {
    const { at: printed, stamped } = line;
    const same = id !== undefined && this.turn?.id === id;
    const held = this.heldWithAnswer(line);
    if (!(this.turn?.timedOut && !line.hasStamp)) this.goOn();
    if (!held) this.takeAnswer();
    if (!this.turn || (this.turn.ended && !same)) this.beginTurn();
    const { turn } = this;
    turn.timedOut &&= !line.hasStamp;
    const at = held ? this.asked.at : turn.timedOut ? turn.last : printed;
    if (turn.first === null) Object.assign(turn, { first: at, firstMeasured: isDelta && stamped === true && !held });
    Object.assign(turn, { last: at, unstamped: stamped !== true });
    if (isDelta) this.step(printed);
    turn.thinks = kind === 'thinking';
    if (turn.ended) turn.end = Math.max(turn.end, at); // it went on after its tool call
    turn[kind].bytes += bytes(text);
    if (isDelta) turn[kind].deltas++;
    else turn.messages++;
  }

  // heldWithAnswer: no model answers within 10 ms. A text that is printed in one burst with
  // an approval's answer was held back until then, and said before the question.
  heldWithAnswer({ at, hasStamp }) {
    return hasStamp && this.asked?.answer != null && at - this.asked.answer <= 10;
  }

  // joined moves half a character from the end of a delta to the beginning of the next.
  joined(kind, text) {
    const whole = /^[\udc00-\udfff]/.test(text) ? this.halves[kind] + text : text;
    this.halves[kind] = /[\ud800-\udbff]$/.exec(whole)?.[0] ?? '';
    return whole.slice(0, whole.length - this.halves[kind].length);
  }

  // beginTurn: a turn starts "when the agent began waiting for the model (run
  // start, the end of the last tool of the turn before, a notification that wakes it)".
  beginTurn() {
    // Tools that still run, or never end, are not what the model waited for.
    if (this.turn?.ended && this.open.size > 0) this.waitFrom(Math.max(this.waitingSince, this.turn.end), true);
    this.turn = {
      start: this.waitingSince, end: null, first: null, firstMeasured: false, finish: null, inferredStart: this.waitingGuessed,
      guessedStart: this.turns.length === 0, // no line of a run's start has a stamp
      text: { deltas: 0, bytes: 0 }, thinking: { deltas: 0, bytes: 0 }, messages: 0, frames: 0,
      tools: 0, ended: false, answered: false, timedOut: false, thinks: false, last: this.waitingSince, id: undefined,
    };
    this.woken = false;
    this.turns.push(this.turn);
  }

  // waitFrom: a call whose end was printed later than its length says had ended before: when
  // the model was asked is inferred. It is also where the model speaks while a call still runs.
  waitFrom(at, guessed = false) {
    Object.assign(this, { waitingSince: at, waitingGuessed: guessed });
  }

  // endTurn: "an approval's wait is not model time".
  endTurn(at, finish) {
    Object.assign(this.turn, { end: Math.min(at, this.asked?.at ?? at), ended: true, finish });
    this.asked = null;
  }

  // takeAnswer: a chat ends with "the question that the agent asks its user". A model that
  // speaks after the answer has been called again; one that speaks before it was not done.
  takeAnswer() {
    if (this.asked?.answer != null) {
      const { answer } = this.asked;
      if (!this.turn || this.turn.ended) this.beginTurn();
      this.endTurn(this.asked.at, 'tool_call');
      this.waitFrom(answer);
    }
    this.asked = null;
  }

  // callTool: the first tool call ends the turn's chat. A call with another
  // model_call_id belongs to another model call, even if that said nothing.
  callTool(tool, id, beside = false) {
    this.goOn();
    const { turn } = this;
    const another = turn?.ended && !beside && (id === undefined ? this.open.size === 0 : turn.id !== undefined && turn.id !== id);
    if (!turn || another) this.beginTurn();
    this.turn.id ??= id;
    this.turn.tools++;
    if (!this.turn.ended) this.endTurn(tool.start, 'tool_call');
    this.asked = null;
    tool.turn = this.turns.length - 1;
    this.tools.push(tool);
  }

  started({ o, at, stamped }) {
    const { kind } = toolCall(o);
    const id = idOf(o);
    const before = this.open.get(id);
    if (before) {
      Object.assign(before, { end: at, outcome: 'incomplete' });
      this.restarted = at;
    }
    const tool = { id, kind, start: at, guessed: stamped !== true, floor: this.floorOf(at), end: null, own: null, outcome: null, exitCode: null, background: false };
    this.step(at, false);
    this.callTool(tool, o.model_call_id);
    this.open.set(id, tool);
  }

  // completed: "An end without a start: a span of the agent's own length if it says one."
  // "Where a start is printed late and the agent says its own length or start of the
  // call, the span has the agent's: it may reach behind an answer's flush, an approval's
  // answer or any other line that was merely printed with it, but not behind the last
  // delta, thinking end or tool line ahead of it". The turn that made the calls ends when
  // the first of them starts, as long as one of them runs.
  completed({ o, at, stamped }) {
    const { kind, call, result } = toolCall(o);
    const own = call.startedAtMs && call.completedAtMs ? Number(call.completedAtMs) - Number(call.startedAtMs) : null;
    const body = Object.values(result).find((value) => isObject(value)) ?? {};
    const took = own || Number(body.durationMs ?? body.executionTime ?? 0);
    const id = idOf(o);
    let tool = this.open.get(id), late = false;
    if (!tool) {
      const start = stamped ? at - took : at;
      // The model waits while a call runs: it made this one with that.
      const beside = start < at && (this.open.size > 0 || this.tools.some((t) => t.start <= start && start < t.end));
      late = beside && this.open.size === 0; // printed after the calls that it ran beside
      tool = { id, kind, start, guessed: late };
      this.callTool(tool, o.model_call_id, beside);
    } else if (stamped && took > 0) {
      const turn = this.turns[tool.turn];
      const open = turn === this.turn && !turn.settled;
      const start = Math.max(at - took, tool.floor, open ? (turn.guessedStart ? 0 : turn.start) : turn.end);
      if (open && turn.guessedStart) this.run.start = turn.start = Math.min(turn.start, start);
      tool.start = Math.min(tool.start, start);
      if (open) turn.end = Math.min(turn.end, tool.start);
    }
    if (this.open.size === 1 && this.turn) this.turn.settled = this.turn.ended;
    this.step(at);
    this.open.delete(id);
    // "Where a span stays more than 60 ms from the agent's own clock, it is marked."
    const stated = own !== null || took > 0;
    tool.guessed ||= stamped !== true || (stated && Math.abs(at - tool.start - took) > 60);
    const outcome = Object.keys(result).find((key) => VARIANTS.has(key) && isObject(result[key])) ?? Object.keys(result).find((key) => isObject(result[key])) ?? null;
    const said = outcome === null || !isObject(result[outcome]) ? {} : result[outcome];
    // What was refused, or failed, left nothing running.
    const background = SUCCESSES.has(outcome) && (said.isBackground === true || result.isBackground === true);
    Object.assign(tool, {
      end: at, own: own ?? (said.durationMs === undefined ? null : Number(said.durationMs)), outcome, background,
      failed: (outcome !== null && VARIANTS.has(outcome) && !SUCCESSES.has(outcome)) || said.isError === true,
      exitCode: typeof said.exitCode === 'number' && !background ? said.exitCode : null,
    });
    if (at >= this.waitingSince) this.waitFrom(at, late || (stated && at - tool.start - took > 60));
    if (background) {
      const task = String(said.shellId ?? said.agentId);
      const early = this.nested.find((n) => n.task === task); // it ended before its call did
      this.background.push({ task, kind, start: at, called: tool.start, end: early ? at : null, guessedEnd: early !== undefined, status: early?.status ?? null, exitCode: null });
    }
    if (isObject(said.complete)) this.awaited(said.complete, at);
  }

  // awaited: a background span runs "to when it really ended (an await's
  // runtime, else its notification)".
  awaited(complete, at) {
    const work = this.background.find((b) => b.task === String(complete.taskId) && (b.end === null || (b.guessedEnd && b.status === null)));
    if (!work) return;
    work.guessedEnd = false;
    const took = complete.runtimeMs === undefined ? Infinity : Number(complete.runtimeMs);
    work.end = Math.max(work.start, Math.min(at, work.called + took));
    work.exitCode = complete.exitCode ?? null;
  }

  request(o, at) {
    const query = o.query?.[o.query_type] ?? {};
    if ((this.turn && !this.turn.ended) || (this.open.size === 0 && !this.turn?.answered)) this.asked = { at: this.asked?.at ?? at, answer: null };
    this.approvals.push({
      query: o.query_type, number: o.query?.id, tool: query.args?.toolCallId ?? query.toolCallId ?? null,
      start: at, end: null, outcome: null,
    });
  }

  // response: ids of queries are always 0, so that the type has to match too.
  // askQuestion and createPlan nest their outcome in a result.
  response(o, at) {
    const type = o.query_type ?? Object.keys(o.response ?? {}).find((key) => key.endsWith('Response'))?.replace(/Response$/, 'Query');
    const approval = this.approvals.find((a) => a.end === null && a.query === type && a.number === o.response?.id);
    if (!approval) return;
    const answer = Object.entries(o.response).find(([key, value]) => key !== 'id' && isObject(value))?.[1] ?? {};
    const inner = isObject(answer.result) ? answer.result : answer;
    Object.assign(approval, { end: at, outcome: Object.keys(inner)[0] ?? null });
    if (this.asked) this.asked.answer = at;
  }

  // notification: "a turn ends when the agent went idle: never idle time", and
  // the notification that wakes the agent begins the next. An agent that waits
  // for a tool, or thinks, is not idle. A stream without deltas does not show
  // whether an agent without output since its last tool is idle, but "a new model
  // call begins here".
  notification(o, at) {
    const work = this.background.find((b) => b.task === String(o.task_id) && b.status === null);
    if (work) {
      work.guessedEnd ||= work.end === null;
      work.end ??= at;
      work.status = o.status;
    } else {
      this.nested.push({ task: String(o.task_id), status: o.status, at });
    }
    const { turn } = this;
    if (!turn || this.open.size > 0 || turn.thinks) return;
    if (turn.ended) {
      if (!this.woken && !this.turns.some((t) => t.text.deltas + t.thinking.deltas > 0)) this.wake(at);
      return;
    }
    if (turn.first === null) return;
    this.later = [];
    this.endTurn(turn.unstamped ? (turn.last + at) / 2 : turn.last, 'stop');
    turn.guessedEnd = turn.unstamped;
    this.idle.push({ start: turn.end, end: at });
    this.wake(at);
  }

  wake(at) {
    this.waitFrom(at);
    this.woken = true;
  }

  // timeout: a background_shell_timeout "wakes nobody": what the model says later without a
  // stamp, it had said before. The background work of shells "ends at that line at the latest".
  timeout(at) {
    const { turn } = this;
    if (turn && !turn.ended && turn.first !== null && this.open.size === 0) {
      turn.timedOut = true;
      this.idle.push({ start: turn.last, end: at });
    }
    for (const work of this.background) {
      if (work.end === null && work.kind === 'shell') Object.assign(work, { end: at, guessedEnd: true });
    }
  }

  // frame: "retries and lost connections are events on the chat span". The
  // agent waits for the model meanwhile, so the turn goes on. If it waits for
  // a tool instead, or for nothing, no chat covers that instant.
  // One event tells of a retry, when it starts: that it was scheduled, or that
  // it resumes, is part of it.
  frame(kind, at) {
    this.frames.push({ kind, at });
    if (this.turn && (this.turn.answered || (this.turn.ended && this.open.size > 0))) return;
    if (!this.turn || this.turn.ended) this.beginTurn();
    if (this.turn.first === null) this.addFrame({ kind, at });
    else this.later.push({ kind, at });
  }

  // goOn adds the held frames to the turn: more output came.
  goOn() {
    this.later.forEach((frame) => this.addFrame(frame));
    this.later = [];
  }

  addFrame({ kind, at }) {
    if (kind !== 'retry/scheduled' && kind !== 'retry/resuming') this.turn.frames++;
    if (!this.turn.ended) this.turn.last = at;
  }
}

// saysTwice: "two unstamped assistant lines in one segment cannot both be a flush; once that
// has been seen, all unstamped ones of that run are deltas".
function saysTwice(lines) {
  let said = false;
  return lines.some(({ o, hasStamp }) => {
    if (!KNOWN.has(o.type)) return false;
    const says = o.type === 'assistant' && !hasStamp && !('model_call_id' in o);
    const again = says && said;
    said = says;
    return again;
  });
}

// idOf: calls "pair by toolCallId where call_id is missing, empty or no string".
function idOf(o) {
  return typeof o.call_id === 'string' && o.call_id !== '' ? o.call_id : o.tool_call?.toolCallId ?? o.call_id;
}

function toolCall(o) {
  const call = isObject(o.tool_call) ? o.tool_call : {};
  const key = Object.keys(call).find((k) => k.endsWith('ToolCall'));
  const inner = isObject(call[key]) ? call[key] : {};
  return { kind: key?.slice(0, -'ToolCall'.length) ?? call.function?.name ?? null, call, result: isObject(inner.result) ? inner.result : {} };
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  console.log(JSON.stringify(read(readFileSync(process.argv[2] ?? 0, 'utf8')), null, 2));
}
