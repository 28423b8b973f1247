"use strict";
const test = require("node:test");
const assert = require("node:assert");
const { Arguments, Indexed, Reader, Slices, axisTime, boxTotals, boxWords, drawnEdges, fineness, layOut } = require("./load.js")(
  "Arguments", "Indexed", "Reader", "Slices", "axisTime", "boxTotals", "boxWords", "drawnEdges", "fineness", "layOut",
);

/** Slices of some lanes, each a list of starts and ends. */
function slicesOf(lanes) {
  const all = lanes.flatMap((lane) => lane.slices);
  let from = 0;
  const placed = lanes.map(({ slices, ...lane }) => ({ recovered: 0, gapFrom: 0, gapTo: 0, ...lane, from, to: (from += slices.length) }));
  return new Slices(Float64Array.from(all, ([start]) => start), Float64Array.from(all, ([, end]) => end), new Uint32Array(all.length), new Int32Array(all.length).fill(-1), placed, () => {});
}

const core = (name, kind, slices) => ({ name, kind: "core", class: kind, core: 0, slices });
const runOf = (cores, agents = [], workers = false) => ({ cores: slicesOf(cores), agents: slicesOf(agents), curves: [], counted: [], meta: { workers, makespan_ns: 100 } });

test("a box counts each kind apart, and only what lies inside it", () => {
  const run = runOf([core("aic 0", "aic", [[0, 1000]]), core("aic 1", "aic", [[0, 10], [20, 25]])], [{ name: "scopes", kind: "scope", class: "", slices: [[0, 5000]] }]);
  const row = (slices, at, y) => ({ run, slices, lane: slices.lanes[at], y, height: 10 });
  const rows = [row(run.cores, 0, 0), row(run.cores, 1, 20), row(run.agents, 0, 40)];
  const totals = boxTotals(rows, run, 0, 60, 5, 15);
  assert.deepStrictEqual(totals.get("core"), { slices: 2, ns: 15, longest: 10 });
  assert.strictEqual(totals.get("scope").slices, 1);
  assert.strictEqual(boxWords(totals, 10), "10 ns selected: 2 executions, 15 ns in kernels, at most 10 ns in one; 1 scope");
  const other = { ...row(run.cores, 0, 0), run: runOf([]) };
  assert.strictEqual(boxTotals([other, { ...other, lane: run.agents.lanes[0] }], run, 0, 60, 5, 15).get("before").slices, 1, "of the run before only kernels");
  assert.strictEqual(boxTotals(rows, run, 0, 15, 5, 15).get("core").slices, 1, "rows outside are not counted");
  assert.strictEqual(boxWords(new Map(), 10), "10 ns selected: nothing in it");
});

test("the one that was followed is drawn first, and what is not drawn is counted", () => {
  const edges = Array.from({ length: 10 }, (_, task) => ({ task, why: 0 }));
  const { shown, more } = drawnEdges(edges, 9);
  assert.deepStrictEqual([shown[0].task, shown.length + more], [9, 10]);
  assert.ok(shown.length < 8 && new Set(shown).size === shown.length);
  assert.deepStrictEqual(drawnEdges(edges.slice(0, 8), -1), { shown: edges.slice(0, 8), more: 0 }, "eight fit");
});

test("cores that ran nothing share a line", () => {
  const idle = Array.from({ length: 24 }, (_, at) => core(`aic ${at}`, "aic", []));
  const busy = Array.from({ length: 12 }, (_, at) => core(`aiv ${at}`, "aiv", [[0, 10]]));
  const { rows } = layOut(runOf([...idle, ...busy]), null, true, 400);
  assert.deepStrictEqual(rows.filter((row) => row.note).map((row) => row.note), ["24 AIC cores ran nothing"]);
  assert.strictEqual(rows.length, 13);
  assert.ok(rows[1].label === "AIV cores" && rows[1].until > rows[12].y, "its label may stay in sight to its last row");
  const some = layOut(runOf([core("worker 0", "any", [[0, 1]]), core("worker 1", "any", [])], [], true), null, true, 400).rows;
  assert.deepStrictEqual(some.map((row) => row.note || row.label), ["worker 0", "1 more worker ran nothing"]);
});

test("two runs lie class by class, the present one first", () => {
  const cores = (end) => [core("aic 0", "aic", [[0, end]]), core("aiv 0", "aiv", [[0, end]])];
  const { rows } = layOut(runOf(cores(5)), runOf(cores(9)), true, 400);
  assert.deepStrictEqual(rows.map((row) => row.label), ["now: aic 0", "before: aic 0", "now: aiv 0", "before: aiv 0"]);
  const whole = (end) => {
    const run = runOf([], [{ name: "orchestrator", kind: "orchestrator", class: "", slices: [[0, end]] }]);
    run.curves = [{ name: "r1 heap", unit: "bytes", capacity: 4096, peak: 1024 * end }];
    return run;
  };
  const both = layOut(whole(1), whole(2), true, 400).rows;
  assert.deepStrictEqual(both.map((row) => row.label), ["now: orchestrator", "before: orchestrator", "now: r1 heap", "before: r1 heap"]);
  assert.deepStrictEqual(both.slice(2).map((row) => row.sub), ["peak 1 KiB/4 KiB", "peak 2 KiB/4 KiB"]);
});

test("times of a short task differ", () => {
  const [start, end] = [1_030_020, 1_030_050];
  const [from, to] = [start, end].map((time) => axisTime(time, fineness(start, end)));
  assert.deepStrictEqual([from, to], ["1.030020 ms", "1.030050 ms"]);
  assert.strictEqual(axisTime(5e6, fineness(5e6, 9e6)), "5.0 ms");
});

test("an argument of which a file tells neither element nor shape has a dash", () => {
  const column = (...bytes) => new Indexed(new Reader(Uint8Array.from(bytes)), "plain");
  const forms = [{ mode: "output", dtype: "user", shape: [] }, { mode: "output", dtype: "user", shape: [4] }, { mode: "scalar", dtype: "user", shape: [] }];
  const all = new Arguments({ meta: { forms } }, column(3), column(0, 1, 2), column(0, 0, 0), column(0, 0, 0), column(), column());
  assert.deepStrictEqual([0, 1, 2].map((at) => all.argument(at).type), ["–", "user[4]", "user"]);
});
