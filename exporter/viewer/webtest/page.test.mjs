// The computing parts of the page, in Node: node --test exporter/viewer/webtest
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { alignLines } from "../web/align.js";
import { drawBar } from "../web/bars.js";
import { percentages, slowest, timeSpent, toolStats, usage } from "../web/breakdown.js";
import { parseAddress, parseFilter, toolWord, writeAddress } from "../web/finding.js";
import { duration, money, percent, size } from "../web/format.js";
import { diffLines, patchLines, readCall } from "../web/reading.js";
import { sortBy, week, withGaps } from "../web/stats.js";
import { share, shorten } from "../web/strip.js";
import { steps, stepLabel, Timeline } from "../web/timeline.js";
import { lanes, Trace } from "../web/trace.js";
import { Content, entries } from "../web/transcript.js";
import { activity, failedTools, headline, inState, parted, present, readable, rowDetail, rowName, state, tellApart, tokens } from "../web/words.js";

const s = 1e6;
const t0 = 1_790_000_000 * s;

// bar is a span, from and to so many seconds after t0.
const bar = (id, parent, op, title, from, to, more = {}) =>
  ({ id, parent, op, name: `${op} ${title}`, title, tool: op === "tool" ? title : "", start: t0 + from * s, end: t0 + to * s, ...more });

const session = { folder: "/home/dev/shop", agent: "cursor-agent", model: "GPT-5", prompt: "", service: "", name: "" };

function traced(spans, open = [], more = {}) {
  const t = new Trace("t");
  t.merge({ session: { ...session, ...more }, seq: 1, spans, open });
  return t;
}

// A turn, two parallel reads, a sub-agent that thinks and greps, and a last turn.
const run = () => traced([
  bar("r", "", "agent", "cursor-agent", 0, 20),
  bar("c1", "r", "chat", "GPT-5", 0, 4, { turn: 1, firstChunk: 2 * s, text: [2 * s, 3 * s], chunks: 2, input: 1000, output: 50, cached: 200, cost: 0.5 }),
  bar("a", "r", "tool", "read", 4, 6, { turn: 1, detail: "/home/dev/shop/a.go", path: true }),
  bar("b", "r", "tool", "read", 4, 8, { turn: 1, detail: "/home/dev/shop/b.go", failure: "not found" }),
  bar("k", "r", "tool", "task", 8, 16, { turn: 1 }),
  bar("i", "k", "agent", "explore", 8.5, 15.5, { input: 700 }),
  bar("ic", "i", "chat", "GPT-5", 8.5, 11, { turn: 1, input: 700, output: 10 }),
  bar("ig", "i", "tool", "grep", 11, 15, { turn: 1 }),
  bar("c2", "r", "chat", "GPT-5", 16, 20, { turn: 2, input: 3000, output: 70, cached: 1000 }),
  bar("d", "c2", "deltas", "", 17, 19, { text: [0, 1 * s], chunks: 2 }),
]);

test("a trace is a tree, and deltas belong to their chat", () => {
  const t = run();
  assert.equal(t.nodes.length, 9);
  const chat = t.byId.get("c2");
  assert.equal(t.byId.get("d"), chat);
  assert.deepEqual(chat.text, [t0 + 17 * s, t0 + 18 * s]);
  assert.equal(chat.chunks, 2);
  assert.equal(t.byId.get("ig").inner, t.byId.get("i"));
  assert.equal(t.byId.get("a").inner, null);
  assert.deepEqual(t.rows(new Set()).map((n) => n.id), ["r", "c1", "a", "b", "k", "i", "ic", "ig", "c2"]);
  assert.deepEqual(t.rows(new Set(["c1"])).map((n) => n.id), ["r", "c1", "c2"]); // a folded turn
  assert.deepEqual(t.rows(new Set(), (n) => n.failure).map((n) => n.id), ["r", "c1", "b"]);
});

test("deltas without their chat, orphans and circles are shown", () => {
  const t = traced([bar("r", "", "agent", "x", 0, 9), bar("d", "lost", "deltas", "", 1, 2, { text: [0] }), bar("o", "lost", "tool", "read", 1, 2),
    bar("p", "q", "tool", "p", 3, 4), bar("q", "p", "tool", "q", 3, 5)]);
  assert.deepEqual(new Set(t.rows(new Set()).map((n) => n.id)), new Set(["r", "d", "o", "p", "q"]));
});

test("open spans last until now, and are replaced by their ends", () => {
  const t = traced([bar("c", "r", "chat", "m", 0, 2)], [bar("r", "", "agent", "x", 0, 3, { open: true }), bar("o", "r", "tool", "shell", 2, 3, { open: true })]);
  t.tick(t0 + 10 * s);
  assert.equal(t.live, true);
  assert.equal(t.byId.get("o").duration, 8 * s);
  assert.equal(t.duration, 10 * s);
  // The same ones again change nodes in place; one that ended is another matter.
  const node = t.byId.get("o");
  t.merge({ session, seq: 1, spans: [], open: [bar("r", "", "agent", "x", 0, 4, { open: true }), bar("o", "r", "tool", "shell", 2, 4, { open: true })] });
  assert.equal(t.byId.get("o"), node);
  t.merge({ session, seq: 2, spans: [bar("o", "r", "tool", "shell", 2, 5)], open: [bar("r", "", "agent", "x", 0, 5, { open: true })] });
  assert.equal(t.byId.get("o").duration, 3 * s);
  // What its process holds back, but no longer lets last, has ended.
  const held = traced([], [bar("r", "", "agent", "x", 0, 200, { open: true }), bar("c1", "r", "chat", "m", 0, 2, { open: true, firstChunk: s }), bar("c2", "r", "chat", "m", 10, 200, { open: true })],
    { now: { asked: t0 + 200 * s } });
  held.tick(t0 + 200.5 * s);
  assert.deepEqual(Object.fromEntries(timeSpent(held).parts.map((p) => [p.label, p.us / s])), { "model output": 1, "waiting for the model": 191.5, "agent's own": 8 });
  // Those of a process that died end when it was last heard of.
  t.merge({ session: { ...session, now: { gone: true } }, seq: 3, spans: [], open: [bar("r", "", "agent", "x", 0, 6, { open: true })] });
  t.tick(t0 + 100 * s);
  assert.equal(t.duration, 6 * s);
  assert.equal(t.live, false);
});

test("every instant counts once, and a sub-agent's time is that of its steps", () => {
  const { total, parts } = timeSpent(run());
  const us = Object.fromEntries(parts.map((p) => [p.label, p.us / s]));
  assert.equal(total, 20 * s);
  assert.equal(parts.reduce((sum, p) => sum + p.us, 0), total);
  assert.deepEqual(us, { "model output": 2 + 3, "waiting for the model": 2 + 2.5 + 1, "read": 4, "grep": 4, "task": 1.5 });
  const stats = Object.fromEntries(toolStats(run()).map((t) => [t.tool, t]));
  assert.equal(stats.task.total, 8 * s);
  assert.equal(stats.read.calls, 2);
  assert.equal(stats.read.failed, 1);
  assert.equal(stats.read.p95, 4 * s);
  assert.deepEqual(slowest(run(), 3).map((n) => n.id), ["c1", "b", "ig"]);
});

test("a session ends with its last root, whatever still runs in the background", () => {
  const shell = bar("b", "r", "background", "shell", 1, 9);
  assert.equal(traced([bar("r", "", "agent", "cursor-agent", 0, 3), bar("q", "", "agent", "cursor-agent", 3, 5), shell]).ran, 5 * s);
  assert.equal(traced([shell]).ran, 8 * s);
});

test("what is slow are calls without steps of their own", () => {
  const t = traced([
    bar("r", "", "agent", "cursor-agent", 0, 9), bar("h", "r", "hook", "Stop", 0, 9), bar("s", "r", "tool", "script", 0, 8), bar("i", "s", "tool", "read", 0, 3),
    bar("m", "r", "tool", "rm", 4, 9), bar("a", "m", "approval", "rm", 4, 8), bar("c", "r", "chat", "GPT-5", 0, 4),
  ]);
  assert.deepEqual(slowest(t).map((n) => n.id), ["m", "c", "i"]);
});

test("the microsecond between two spans is no idle time", () => {
  const labels = (gap) => timeSpent(traced([
    bar("r", "", "agent", "cursor-agent", 0, 3),
    bar("a", "r", "tool", "read", 0, 1 - gap),
    bar("b", "r", "tool", "grep", 1, 3),
  ])).parts.map((p) => p.label);
  assert.deepEqual(labels(1e-6), ["grep", "read"]);
  assert.deepEqual(labels(0.5), ["grep", "read", "agent's own"]);
  assert.deepEqual(timeSpent(traced([bar("r", "", "agent", "cursor-agent", 0, 3)])).parts, []); // without a step nothing is known
});

test("spantee's times have milliseconds, those of others may be shorter", () => {
  for (const [coarse, said, ids] of [[true, "", []], [false, "400µs", ["a"]]]) {
    const t = traced([bar("r", "", "agent", "x", 0, 1, { coarse }), bar("a", "r", "tool", "read", 0, 4e-4, { coarse })]);
    assert.deepEqual([t.time(400), t.time(1), t.time(1000)], [said, "", "1ms"]);
    assert.deepEqual(slowest(t).map((n) => n.id), ids);
  }
});

test("tokens are those of the calls, each once", () => {
  const used = usage(run());
  assert.equal(used.input, 1000 + 700 + 3000);
  assert.equal(used.output, 130);
  assert.equal(used.cached, 1200);
  assert.equal(used.cost, 0.5);
  assert.deepEqual(used.turns.map((u) => u.inner), [false, true, false]);
  assert.equal(tokens(used).join(", "), "4,700 tokens in (26% cached), 130 out, $0.500");
  assert.equal(tokens({ input: 0, output: 1, cached: 0, cost: 0 }).join(", "), "1 token out"); // what is not known is not said
});

test("filters", () => {
  const t = run();
  const found = (text) => t.nodes.filter(parseFilter(text)).map((n) => n.id);
  assert.deepEqual(found("is:error"), ["b"]);
  assert.deepEqual(found("tool:READ"), ["a", "b"]);
  assert.deepEqual(found("b.go"), ["b"]);
  assert.deepEqual(found("op:chat is:wait"), ["c1"]);
  assert.deepEqual(found("read nothing"), []);
  assert.equal(parseFilter("  "), null);
  assert.equal(toolWord("web search"), "tool:web+search");
  t.byId.get("a").content = "package main";
  assert.deepEqual(found("PACKAGE"), ["a"]);
});

test("addresses come back as they were written", () => {
  const written = writeAddress(["trace", "ab", ""], { q: "a b&c", from: 0, to: "", tab: "Span" });
  assert.equal(written, "#/trace/ab?q=a+b%26c&from=0&tab=Span");
  const { parts, query } = parseAddress(written);
  assert.deepEqual(parts, ["trace", "ab"]);
  assert.equal(query.get("q"), "a b&c");
  assert.deepEqual(parseAddress("#/").parts, [""]);
  assert.deepEqual(parseAddress("#/trace/%ff?x").parts, ["trace", "%ff"]);
});

test("calls are read as a person would", () => {
  const kinds = (a, r) => readCall(JSON.stringify(a), JSON.stringify(r)).map((b) => b.kind);
  assert.deepEqual(readCall('{"command":"go test","parsingResult":{},"toolCallId":"x"}', '{"failure":{"exitCode":1,"interleavedOutput":"FAIL\\n","stderr":""}}'), [
    { kind: "command", value: "go test" }, { kind: "output", value: "FAIL\n", error: false }, { kind: "error", value: "exit code 1" },
  ]);
  const [path, edit] = readCall('{"file_path":"a.go","old_string":"a\\nb\\nc","new_string":"a\\nB\\nc"}', '"done"');
  assert.equal(path.value, "a.go");
  assert.deepEqual(edit.value.map((l) => l.sign + l.text), [" a", "-b", "+B", " c"]);
  assert.deepEqual(kinds({ path: "x" }, { success: { diffString: " a\n+b" } }), ["path", "diff"]);
  assert.deepEqual(kinds({ pattern: "TODO" }, { success: { workspaceResults: { "/w": { files: { files: ["a", "b"] } } } } }), ["query", "list"]);
  assert.deepEqual(kinds({ path: "x" }, { error: { errorMessage: "File not found" } }), ["path", "error"]);
  assert.deepEqual(kinds({ path: "x" }, { fileNotFound: { path: "x" } }), ["path", "error"]);
  assert.deepEqual(kinds({ id: "SHOP-1" }, { success: { content: [{ text: { text: "hi" } }], isError: false } }), ["fields", "output"]);
  assert.deepEqual(kinds({ path: "n.txt", fileText: "one\ntwo\n" }, { success: {} }), ["path", "diff"]);
  assert.deepEqual(readCall("not json", ""), [{ kind: "text", value: "not json" }]);
  assert.deepEqual(readCall("", ""), []);
});

test("differences", () => {
  const text = (lines) => lines.map((l) => l.sign + l.text);
  assert.deepEqual(text(diffLines("", "a\nb\n")), ["+a", "+b"]);
  assert.deepEqual(text(diffLines("a\nb\nc\nd", "a\nc\nx\nd")), [" a", "-b", " c", "+x", " d"]);
  assert.deepEqual(text(diffLines("same", "same")), [" same"]);
  assert.deepEqual(patchLines("@@ -1 +1 @@\n-a\n+b\n c\n").map((l) => l.sign), ["@", "-", "+", " "]);
  const long = Array.from({ length: 2000 }, (_, i) => `a${i}`).join("\n");
  assert.equal(diffLines(long, long.replaceAll("a", "b")).length, 4000); // too long to compare
});

test("a transcript reads in order, with and without content", () => {
  const t = run();
  const bare = entries(t, new Content());
  assert.deepEqual(bare.map((e) => e.kind), ["agent", "turn", "tool", "tool", "tool", "agent", "turn", "tool", "turn"]);
  assert.deepEqual(bare.map((e) => e.depth), [0, 0, 0, 0, 0, 1, 2, 2, 0]);
  const content = new Content();
  content.merge({ seq: 1, spans: [
    { id: "r", prompt: JSON.stringify([{ role: "user", parts: [{ type: "text", content: "Fix it" }] }]) },
    { id: "c1", answer: JSON.stringify([{ role: "assistant", parts: [{ type: "reasoning", content: "hm" }, { type: "text", content: "Reading." }] }]), notes: [{ at: 1, name: "retry", text: "attempt 1" }] },
    { id: "a", arguments: '{"path":"a.go"}', result: '{"success":{"content":"x"}}', cut: 7 },
  ], open: [{ id: "c2", said: [{ kind: "text", text: "Do" }] }] });
  const full = entries(t, content);
  assert.equal(full[0].prompt, "Fix it");
  assert.deepEqual(full[1].said, [{ kind: "thinking", text: "hm" }, { kind: "text", text: "Reading." }]);
  assert.equal(full[1].notes[0].name, "retry");
  assert.deepEqual(full[2].blocks.map((b) => b.kind), ["path", "output"]);
  assert.equal(full[2].cut, 7);
  assert.equal(full[8].said[0].text, "Do");
});

test("two sessions, step by step", () => {
  const other = run(), failed = run();
  other.byId.get("a").detail = "/home/dev/shop/other.go";
  failed.byId.get("a").failure = "no";
  const [x, y, z] = [run(), other, failed].map((trace) => trace.rows(new Set()));
  assert.deepEqual(alignLines(x, x).differences, []);
  assert.deepEqual(alignLines(x, z).differences.map((i) => x[i].id), ["a"]);
  const { lines, differences } = alignLines(x, y);
  assert.deepEqual(lines.map((l) => l.left).filter(Boolean), x);
  assert.deepEqual(lines.map((l) => l.right).filter(Boolean), y);
  assert.equal(lines.length, x.length + 1); // all stand side by side, but for one step that differs
  assert.deepEqual(differences.map((i) => lines[i].left?.id), ["a"]);
  assert.deepEqual(alignLines(x, []).differences, [0]);
});

test("groups are sorted, and days without runs are shown", () => {
  const groups = [{ name: "2026-09-01", runs: 2, firstP50: s }, { name: "2026-09-04", runs: 1, firstP50: null }];
  for (const column of ["firstP50", "-firstP50"]) assert.deepEqual(sortBy(groups, column).map((d) => d.name), ["2026-09-01", "2026-09-04"]); // what has none comes last
  assert.deepEqual(sortBy(groups, "runs").map((d) => d.runs), [1, 2]);
  assert.deepEqual(withGaps(groups).map((d) => [d.name, d.runs]), [["2026-09-01", 2], ["2026-09-02", 0], ["2026-09-03", 0], ["2026-09-04", 1]]);
});

// The process reports every second. Its last span came when the silence began, its last report a
// second ago, which the page reads another half a second later. Its clock may be another than ours.
test("a live session is as old as its clock says, however long it is silent", () => {
  const says = { 1: "1s", 30: "30s", 600: "10m00s" };
  for (const skew of [0, -3600 * s]) {
    for (const silence of [1, 30, 600]) {
      for (const [op, what, words] of [["chat", "m", "waiting for the model"], ["tool", "shell", "running shell"], ["approval", "shell", "waiting for approval of shell"], ["agent", "x", "between steps"]]) {
        const came = t0 + 10 * s, read = came + Math.max(0, silence - 1.5) * s, wall = came + silence * s;
        const now = { op, what, text: "", event: "", since: came + skew, heard: came + skew, asked: read + skew, read, gone: false, stall: 300 * s };
        const live = { ...session, now, came, start: t0 + skew };
        assert.equal(present(live, wall), wall + skew);
        const [kind, said] = state(live, present(live, wall) / 1e3);
        assert.equal(kind, silence >= 300 ? "stuck" : "running");
        assert.ok(said.includes(`${words} for ${says[silence]}`), said);
        assert.equal(said.includes(`silent for ${says[silence]}`), silence > 5, said);
        const t = traced([], [bar("r", "", "agent", "x", skew / s, (read + skew - t0) / s, { open: true })], live);
        t.tick(present(live, wall));
        assert.equal(t.duration, (10 + silence) * s);
        assert.equal(present({ now: { ...now, gone: true } }, wall), now.asked);
      }
    }
  }
});

test("shares are rounded once, away from 0 and 100, and add up to 100", () => {
  const t = traced([
    bar("r", "", "agent", "x", 0, 1000), bar("c", "r", "chat", "m", 0, 997, { firstChunk: 997 * s - 1 }), bar("a", "r", "tool", "read", 997, 999), bar("b", "r", "tool", "edit", 999, 1000),
  ]);
  const said = (most) => {
    const { total, parts } = timeSpent(t), timed = parts.filter((p) => t.time(p.us)), shares = percentages({ total, parts: timed });
    return shorten(timed.map((p, i) => ({ ...p, share: shares[i] })), most).map((p) => `${p.label} ${share(p, total)}`);
  };
  assert.deepEqual(said(9), ["waiting for the model >99%", "read <1%", "edit <1%"]);
  assert.deepEqual(said(1), ["waiting for the model >99%", "2 tools <1%"]);
  const part = (order, share) => ({ order, share, us: share, label: "x" });
  assert.deepEqual(shorten([part(4, 50), part(1, 30), part(6, 15), part(1, 5)], 2).map((p) => [p.label, p.share]), [["x", 50], ["x", 30], ["other", 20]]);
  assert.equal(shorten([part(4, 50), part(1, 50)], 1).length, 2); // one part is no others
  assert.equal(share({ share: 100, us: 5e6 }, 5e6 + 1), "100%"); // a microsecond is no time
});

test("what goes on, in words", () => {
  const now = (more) => ({ op: "tool", what: "shell", text: "go test", event: "", since: t0, heard: t0, stall: 600 * s, ...more });
  assert.equal(activity(now({}), t0 / 1e3 + 3000), "running shell go test for 3s");
  assert.equal(activity(now({ what: "shell go" }), t0 / 1e3 + 3000), "running shell go test for 3s");
  assert.equal(activity(now({ what: "shell go", text: "" }), t0 / 1e3 + 3000), "running shell go for 3s");
  assert.equal(activity(now({}), t0 / 1e3 + 70_000), "running shell go test for 1m10s, silent for 1m10s");
  assert.equal(activity(now({ op: "chat" }), t0 / 1e3 + 1000), "waiting for the model for 1s");
  assert.equal(activity(now({ op: "chat", event: "text.delta", heard: t0 + 2 * s }), t0 / 1e3 + 3000), "writing for 3s");
  assert.deepEqual(parted("running shell sleep for 3m for 20m00s, silent for 1m10s"), ["running shell sleep for 3m", " for 20m00s, silent for 1m10s"]);
  assert.deepEqual(parted("ended, 3 errors"), ["ended, 3 errors", ""]);
  assert.deepEqual(state({ now: now({}), came: 0 }, t0 / 1e3 + 1_200_000), ["stuck", "stuck in a tool: running shell go test for 20m00s, silent for 20m00s"]);
  assert.equal(state({ now: now({ op: "background" }), came: 0 }, t0 / 1e3 + 3_600_000)[0], "running"); // however long
  assert.equal(state({ now: now({ gone: true }), came: 0 })[0], "gone");
  assert.equal(state({ now: now({ op: "chat" }), came: 0 }, t0 / 1e3 + 599_000)[0], "running");
  assert.equal(state({ now: now({ op: "chat" }), came: 0 }, t0 / 1e3 + 600_000)[0], "stuck");
  assert.equal(state({ now: now({ op: "chat", stall: 60 * s }), came: 0 }, t0 / 1e3 + 60_000)[0], "stuck");
  assert.equal(state({ now: now({ op: "chat", stall: 0 }), came: 0 }, t0 / 1e3 + 3_600_000)[0], "running"); // --stall-after=0s
  assert.equal(state({ came: t0, failure: "", ended: false }, t0 / 1e3 + 60_000)[0], "running");
  assert.equal(state({ came: t0, failure: "", ended: false }, t0 / 1e3 + 3_600_000)[0], "open");
  assert.deepEqual(state({ came: t0, failure: "", ended: true, toolErrors: 2, doubts: [{ name: "denied", count: 2 }, { name: "last_command_failed", count: 1 }] }), ["mixed", "ended, but 2 calls denied, its last command failed"]);
  assert.equal(headline({ ...session, prompt: "Fix **it**" }), "Fix it");
  assert.equal(headline({ ...session, prompt: `${"the same ".repeat(60)}but this` }).slice(-8), "but this");
  assert.equal(headline({ ...session, first: "$ go test ./..." }), "$ go test ./...");
  assert.equal(headline(session), "cursor-agent · GPT-5");
});

test("a bar's notes say what its row does not", () => {
  const trace = traced([
    bar("r", "", "agent", "cursor-agent", 0, 10),
    bar("a", "r", "tool", "shell go", 0, 1, { executable: "go", failure: "exit 1" }),
    bar("b", "r", "tool", "shell", 1, 2, { executable: "go" }),
    bar("c", "r", "tool", "shell", 2, 3, { executable: "go", detail: "go test", endInferred: true }),
    bar("d", "r", "chat", "chat", 3, 4),
  ]);
  assert.deepEqual(["a", "b", "c", "d"].map((id) => trace.byId.get(id).notes().join()), ["exit 1", "go", "times estimated", ""]);
  assert.deepEqual(["b", "c"].map((id) => trace.took(trace.byId.get(id))), ["1.00s", "1.00s estimated"]);
  assert.deepEqual(toolStats(trace).map((t) => [t.tool, t.estimated]), [["shell", true], ["shell go", false]]);
  assert.equal(rowName(trace.byId.get("d"), session), "chat"); // not "chat · chat"
});

test("errors are failed tools, and a run that failed says so itself", () => {
  const ran = (more) => ({ came: t0, failure: "", ended: true, toolErrors: 0, ...more });
  const aborted = ran({ failure: "aborted" }), three = ran({ toolErrors: 3 }), well = ran({}); // even if a hook failed
  assert.deepEqual(state(aborted), ["failed", "failed: aborted"]);
  assert.deepEqual(state(three), ["mixed", "ended, 3 errors"]);
  assert.deepEqual(state(well), ["ok", "ended well"]);
  assert.deepEqual([aborted, three, well].map((s) => inState(s, "failed")), [true, true, false]);
});

test("steps are told apart, and what failed comes first", () => {
  const t = run();
  const named = (n) => `${rowName(n, t.session)} ${rowDetail(n, session.folder)}`;
  assert.deepEqual(["c1", "c2", "a"].map((id) => named(t.byId.get(id))), ["turn 1 → read, read, task", "turn 2 → answer", "read a.go"]);
  assert.deepEqual(failedTools(t).map((n) => n.id), ["b"]);
  const script = traced([bar("s", "", "tool", "exec", 0, 2, { script: true, failure: "error" }), bar("i", "s", "tool", "read", 0, 1, { failure: "error" })]); // only what a script called is counted
  assert.deepEqual([failedTools(script).map((n) => n.id), toolStats(script).map((s) => s.tool)], [["i"], ["read"]]);
  const other = traced([bar("c", "", "chat", "small", 0, 1, { turn: 3 }), bar("s", "c", "tool", "shell go", 1, 2, { detail: "cd x && ./bin/go test" }), bar("u", "c", "tool", "shell go", 1, 2)]);
  assert.deepEqual(["c", "s", "u"].map((id) => rowName(other.byId.get(id), other.session)), ["turn 3 · small", "shell", "shell go"]); // another model, and a program that the command has
});

test("a turn is called by its first words, which it keeps when others come", () => {
  const t = run(), content = new Content();
  const said = (text) => JSON.stringify([{ role: "assistant", parts: [{ type: "reasoning", content: "Hm." }, { type: "text", content: text }] }]);
  const answer = { seq: 9, more: false, spans: [{ id: "c1", answer: said("**Two files**\nto read.") }, { id: "d", said: [{ kind: "text", text: "All done." }] }, { id: "b", result: "Not There" }], open: [] };
  content.merge(answer);
  content.tell(answer, t);
  const words = () => ["c1", "c2", "ic"].map((id) => rowDetail(t.byId.get(id)));
  assert.deepEqual(words(), ["Two files to read.", "All done.", "→ grep"]);
  t.merge({ session, seq: 2, spans: [bar("e", "r", "tool", "shell", 20, 21)], open: [] });
  assert.deepEqual(words(), ["Two files to read.", "All done.", "→ grep"]);
  assert.deepEqual(t.nodes.filter(parseFilter("there")).map((n) => n.id), ["b"]);
});

test("names are shortened at what they have in common", () => {
  const asked = "Fix the failing test of the package";
  const shorten = tellApart([`${asked} cart`, `${asked} cart`, `${asked} coupon`, "Say done."]);
  assert.deepEqual([`${asked} cart`, `${asked} coupon`, "Say done.", "another"].map(shorten), ["Fix the failing test… cart", "Fix the failing test… coupon", "Say done.", "another"]);
  assert.equal(tellApart([asked, `${asked} cart`])(asked), asked); // there is little to leave out
  const path = `/${"a".repeat(60)}`;
  assert.equal(tellApart([`${path}1`, `${path}2`])(`${path}2`), `${path.slice(0, 20)}… 2`);
});

test("the sums of a week are those of its days", () => {
  const day = (ago, runs) => ({ name: new Date(new Date().setDate(new Date().getDate() - ago)).toLocaleDateString("sv"), runs, durationP50: 5 });
  const days = [day(14, 1), day(13, 2), day(7, 4), day(6, 8), day(0, 16)];
  assert.deepEqual(week(days, "this", 0), { name: "this", runs: 24, durationP50: null });
  assert.deepEqual(week(days, "before", 7), { name: "before", runs: 6, durationP50: null });
  assert.equal(week(days.slice(0, 1), "this", 0), null);
});

test("what events say is words, not keys", () => {
  assert.equal(readable("stall.after 25.0s, idle_ms 20682"), "stall after 25.0s, idle 20.7s");
  assert.equal(readable("gen_ai.usage.input_tokens 900, usage.cost 0.018045000000000002"), "input tokens 900, usage cost $0.018");
  assert.equal(readable("connection_lost"), "connection lost");
  assert.equal(readable("error the tool said: idle_ms is 5"), "error the tool said: idle_ms is 5");
  assert.deepEqual(readCall("", JSON.stringify({ exitCode: 1 })).map((b) => b.kind), ["error"]);
});

test("what has no time shows none, and only all is 100 %", () => {
  const trace = traced([bar("r", "", "agent", "x", 0, 10), bar("c", "r", "chat", "m", 0, 1e-6), bar("d", "r", "tool", "read", 1, 1.5)]);
  assert.deepEqual(["c", "d"].map((id) => trace.time(trace.byId.get(id).duration)), ["", "500ms"]);
  assert.deepEqual([0, 0.001, 0.01, 0.5, 0.99, 0.997, 1].map(percent), ["0%", "<1%", "1%", "50%", "99%", ">99%", "100%"]);
});

test("a turn shows its wait apart from its rhythm, failed or not", () => {
  for (const failure of ["", "incomplete"]) {
    const trace = traced([
      bar("r", "", "agent", "cursor-agent", 0, 10),
      bar("c", "r", "chat", "GPT-5", 0, 10, { failure, firstChunk: 4 * s, text: [4 * s, 6 * s, 8 * s], chunks: 3 }),
    ]);
    const filled = [], crossed = [];
    const pen = { fill: (ink, x, y, width, height) => filled.push([ink, Math.round(x), Math.round(width), height]), rounded: () => assert.fail("no rhythm"),
      cross: (x, y, ink) => crossed.push([Math.round(x), y, ink]) };
    const w = { left: 0, width: 100, trace, x: (at) => (at - t0) / s * 10, at: (x) => x / 10 * s };
    drawBar(pen, w, trace.byId.get("c"), { x: 0, y: 0, width: 100, height: 12, color: failure ? "error" : "chat" });
    const [stream, ink] = failure ? ["error-stream", "error"] : ["chat-stream", "chat"];
    assert.deepEqual(filled.slice(0, 2), [["chat-wait", 0, 40, 4], [stream, 40, 60, 12]]);
    assert.deepEqual(filled.slice(2, 5), [[ink, 40, 1, 12], [ink, 60, 1, 12], [ink, 80, 1, 12]]);
    assert.deepEqual(crossed, failure ? [[108, 6, "error"]] : []); // told by shape, too
  }
});

test("time", () => {
  const t = new Timeline();
  t.extend(100);
  t.set(20, 40);
  t.reveal(60, 70);
  assert.deepEqual([t.from, t.to], [55, 75]);
  t.zoom(0.5, 60);
  assert.equal(Math.round(t.span), 10);
  t.fit();
  assert.equal(t.zoomed, false);
  const { list, step } = steps(0, 24.3 * s, 6);
  assert.equal(step, 5 * s);
  assert.deepEqual(list.map((at) => stepLabel(at, step)), ["0", "5s", "10s", "15s", "20s"]);
  assert.deepEqual([0, 0.5, 850, 1234, 39999, 1684999, 2654999, 6.26 * s, 62 * s, 3900 * s].map(duration), ["0ms", "1µs", "850µs", "1.23ms", "40ms", "1.69s", "2.66s", "6.26s", "1m02s", "1h05m"]);
  assert.deepEqual([0, 0.001234, 0.05, 1.5, 250].map(money), ["$0", "$0.0012", "$0.050", "$1.50", "$250"]);
  assert.deepEqual([500, 2048, 200 << 10, 256 << 20].map(size), ["500 B", "2 KiB", "200 KiB", "256 MiB"]);
  assert.deepEqual(lanes([{ start: 0, end: 2 }, { start: 1, end: 3 }, { start: 2, end: 4 }], 2).map((l) => l.lane), [0, 1, 0]);
});

// WCAG's contrast of two colours.
function contrast(a, b) {
  const luminance = (hex) => {
    const [r, g, blue] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * blue;
  };
  const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
  return (x + 0.05) / (y + 0.05);
}

test("bars and text can be seen on every background, in both themes", () => {
  const css = readFileSync(new URL("../web/base.css", import.meta.url), "utf8");
  const colors = new Map([...css.matchAll(/--([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)/g)].map(([, name, light, dark]) => [name, [light, dark]]));
  for (const theme of [0, 1]) {
    for (const ground of ["panel", "page", "hover", "selected"]) {
      for (const ink of ["agent", "chat", "chat-stream", "chat-wait", "thinking", "tool", "background", "approval", "other", "idle", "error", "error-stream", "accent"]) {
        const c = contrast(colors.get(ink)[theme], colors.get(ground)[theme]);
        assert.ok(c >= 3, `${ink} on ${ground}: ${c.toFixed(2)}`);
      }
      for (const ink of ["text", "dim", "error-text", "good-text", "warn-text", "accent"]) {
        const c = contrast(colors.get(ink)[theme], colors.get(ground)[theme]);
        assert.ok(c >= 4.5, `${ink} on ${ground}: ${c.toFixed(2)}`);
      }
    }
  }
});
