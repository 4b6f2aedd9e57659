// Types that the modules of the page share. Only the type checker reads this file.

// The API's answers, which the Go types of the same names describe. Times are in microseconds.
interface Session {
  id: string; name: string; service: string; agent: string; model: string; prompt: string; first: string; folder: string; failure: string;
  start: number; end: number; came: number; firstChunk: number;
  spans: number; turns: number; tools: number; toolErrors: number;
  retries: number; reconnects: number; compactions: number; retryDelay: number;
  input: number; output: number; cached: number; cost: number;
  ended: boolean; pinned?: boolean; timeless?: boolean; doubts?: { name: string; count: number }[]; now?: Now;
}
interface Now { op: string; what: string; text: string; event: string; since: number; heard: number; asked: number; read: number; gone: boolean; stall: number }
interface Hit { span: string; name: string; text: string[] }
interface Hits { total: number; hits: Hit[] }
interface List {
  seq: number; order: string[];
  sessions: Session[]; matching: number; total: number; spans: number; unindexed?: number; agents: string[]; models: string[]; folders: string[];
  kept: { bytes: number; limit?: number; memory?: boolean; going: { sessions: number; before: number } };
}
interface Bar {
  id: string; parent: string; name: string; op?: string; title?: string; detail?: string; path?: boolean; tool?: string; script?: boolean; turn?: number;
  start: number; end: number; failure?: string; executable?: string; firstChunk?: number; open?: boolean; coarse?: boolean; startInferred?: boolean; endInferred?: boolean;
  input?: number; output?: number; cached?: number; cost?: number;
  chunks?: number; text?: number[]; thinking?: number[]; marks?: Mark[];
}
interface Mark { name: string; at: number }
interface Overview { session: Session; seq: number; more: boolean; spans: Bar[]; open: Bar[] }
interface Step {
  id: string; prompt?: string; answer?: string; arguments?: string; result?: string; said?: Said[]; notes?: Note[]; cut?: number;
  weight?: number; // see Entry
}
interface Said { kind: string; text: string }
interface Note { at: number; name: string; text: string }
interface Steps { seq: number; more: boolean; spans: Step[]; open: Step[] }
interface Attribute { key: string; type: string; value: string }
interface SpanEvent { name: string; at: number; attributes: Attribute[] }
interface SpanLink { trace: string; span: string; attributes: Attribute[] }
interface Detail {
  id: string; trace: string; parent: string; name: string; kind: string; status: string; message: string; start: number; end: number;
  attributes: Attribute[]; events: SpanEvent[]; links: SpanLink[]; resource: Attribute[]; scope: string; dropped: number; omitted: number;
}
interface RunsAnswer {
  unindexed?: number; agents: string[]; models: string[]; folders: string[]; all: Measures; groups: Group[]; days: Group[]; each: Single[];
  tools: { name: string; agent: string; calls: number; failed: number; total: number; p50: number | null; p95: number | null }[];
  errors: Record<string, number>; peaks: Single[];
}
type Times = "durationP50" | "durationP95" | "firstP50" | "firstP95" | "toolP50" | "toolP95";
type Sums = "runs" | "failed" | "timeless" | "tools" | "toolErrors" | "input" | "output" | "stated" | "statedRuns" | "computed" | "computedRuns";
type Measures = Record<Times, number | null> & Record<Sums, number>;
type Group = Measures & { name: string };
type Single = Measures & { title: string; session: Session };
type Named = Pick<Session, "name" | "agent" | "service" | "model" | "prompt" | "first">;

type Trace = import("./web/trace.js").Trace;
type TraceNode = import("./web/trace.js").Node;
type Content = import("./web/transcript.js").Content;
type Entry = ReturnType<typeof import("./web/transcript.js").entries>[number];
type Timeline = import("./web/timeline.js").Timeline;
type Waterfall = import("./web/waterfall.js").Waterfall;
type Pen = import("./web/pen.js").Pen;
type Match = (n: TraceNode) => boolean;
type Select = (id: string | null) => void;

// A View fills a Place, which is its own until the signal is aborted.
interface Place { main: HTMLElement; signal: AbortSignal; address: URLSearchParams; entitle(title: string, back?: Element): void }
type Filtered = { q: string; state: string; time: string; agent: string; model: string; folder: string };
type Chosen = Filtered & { sort: string; offset: string };
interface View { changed(ids: Set<string> | null): void }

// What h makes elements of.
interface Props {
  onclick?: (e: MouseEvent) => void;
  onchange?: (e: Event) => void;
  [name: string]: string | number | boolean | null | undefined | ((e: MouseEvent) => void);
}
type Child = Leaf | Leaf[];
type Leaf = Element | string | number | false | null | undefined;

// A Part is a share of the time of a session, from a kind of work.
interface Kind { key: string; label: string; color: string; rank: number; order: number; tool?: string }
interface Part extends Kind { us: number; estimated: boolean }
interface Edge { at: number; of: { kind: Kind; inferred: boolean }; begins: boolean; inferred: boolean }

// A Block is a piece of a tool call as people read it.
type Block =
  | { kind: "command" | "path" | "query" | "output" | "text" | "error"; value: string; error?: boolean }
  | { kind: "diff"; value: DiffLine[] }
  | { kind: "list"; value: string[]; note?: string }
  | { kind: "links"; value: { title: string; url: string; text: string }[] }
  | { kind: "todos"; value: { done: boolean; doing: boolean; text: string }[] }
  | { kind: "fields"; value: [string, unknown][] };
interface DiffLine { sign: string; text: string }

// A Foreign is JSON of an agent's tool, whose fields nobody promises.
type Foreign = Record<string, any>;

interface Pair<T = TraceNode> { left: T | null; right: T | null }

// What draws a Trace, and how.
interface TimeView { redraw(): void; moved?(): void }
interface Box { x: number; y: number; width: number; height: number; color: string }
interface On { select(n: TraceNode | null): void; open(n: TraceNode): void; rows?(): void }
type Act = (w: Waterfall) => void;
type Font = "body" | "strong" | "small" | "number";
type Measure = { lines: [label: string, key: keyof Measures][]; timed?: boolean; format(v: number): string; one(m: Measures): number };
type Column<T> = { key: keyof T & string; title: string; cell(row: T): Child };
declare class uPlot {
  constructor(options: object, data: (number | null)[][], into: HTMLElement);
  root: HTMLElement; over: HTMLElement;
  posToIdx(left: number): number;
  setSize(size: { width: number; height: number }): void;
  destroy(): void;
}
type Add = (kind: Block["kind"], value: unknown, more?: { error?: boolean; note?: string }) => boolean;
