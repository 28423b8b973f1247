"use strict";
const test = require("node:test");
const assert = require("node:assert");
const { Graph, Run, Scopes, Slices, busyShare, isFound, lookUp, searchedTasks, spanWords } = require("./load.js")("Graph", "Run", "Scopes", "Slices", "busyShare", "isFound", "lookUp", "searchedTasks", "spanWords");

/** A run of tasks in groups, without slices. */
function runOf(groups, more = {}) {
  const meta = { names: ["(unknown)", "gemm", "conv2"], kernels: 3, open: [], open_agents: [], cores: [], agents: [], curves: [], scopes: [], spans: 0, left_out: [], ...more };
  meta.groups = groups.map(([prefix, suffix, round, ring, locals]) => ({ prefix, suffix, round, ring, count: locals.length }));
  const run = new Run(meta);
  run.local = Uint32Array.from(groups.flatMap((group) => group[4]));
  return run;
}

test("tasks are found as people write them, by round and without rings", () => {
  const run = runOf([["r0t", "", 0, 0, [0]], ["r2t", "", 0, 2, [3, 4, 9]], ["r2t", "@1", 1, 2, [3, 4]], ["g3t", "", 0, null, [17]]]);
  assert.deepStrictEqual([" r2t9 ", "R2T4@1", "g3t17", "r2t5", "r7t1", "gemm"].map((text) => run.find(text)), [3, 5, 6, -1, -1, undefined]);
  for (let task = 0; task < 7; task++) assert.strictEqual(run.find(run.label(task)), task);
  assert.deepStrictEqual(lookUp(run, "conv2").names, new Set([2]), "a name that ends in a number is a name");
  assert.deepStrictEqual(lookUp(run, " "), { task: undefined, names: null });
});

test("cores that never came back are busy until the end, and no more than that", () => {
  const run = runOf([["r0t", "", 0, 0, [0, 1]]], { makespan_ns: 10 });
  run.cores = { start: Float64Array.of(0, 10), end: Float64Array.of(200, 200) };
  const [first, second] = [{ from: 0, to: 1 }, { from: 1, to: 2 }];
  assert.strictEqual(busyShare(run, [first, second]), 390 / 400);
});

test("edges along the critical path are known without the others", () => {
  const run = runOf([["r0t", "", 0, 0, [0, 1, 2, 3]]]);
  run.path = Int32Array.of(0, 2, 3);
  run.pathWhy = Uint8Array.of(0, 3, 0);
  const graph = new Graph(run);
  assert.deepStrictEqual(graph.producers(2), [{ task: 0, why: 2 }]);
  assert.deepStrictEqual(graph.consumers(0), [{ task: 2, why: 2 }]);
  assert.deepStrictEqual([graph.producers(3), graph.consumers(3), graph.producers(1)], [[], [], []]);
});

test("tasks belong to the innermost scope, and rounds count their rings anew", () => {
  const scopes = [
    { site: "root:1", parent: null, depth: 0, ring: 0 },
    { site: "step:2", parent: 0, depth: 1, ring: 1 },
  ];
  const run = runOf([["r0t", "", 0, 0, [0, 1]], ["r1t", "", 0, 1, [0, 1, 2]], ["r1t", "@1", 1, 1, [0, 1]]], { scopes, spans: 5 });
  const all = new Scopes(run);
  all.node.set([0, 1, 1, 0, 1]);
  all.first.set([0, 0, 2, 0, 1]);
  all.count.set([2, 2, 1, 0, Infinity]);
  assert.deepStrictEqual([...all.ofTasks()], [0, 0, 1, 1, 1, -1, 1]);
  assert.deepStrictEqual(all.around(4), ["root:1", "step:2"]);
  assert.deepStrictEqual(all.within(0), new Set([0, 1]));
});

/** Gives a run lanes of slices: start, end and task of each. */
function withCores(run, lanes) {
  let many = 0;
  const made = lanes.map((slices, core) => ({ name: `core ${core}`, core, recovered: 0, from: many, to: (many += slices.length) }));
  const all = lanes.flat();
  const [start, end] = [0, 1].map((at) => Float64Array.from(all, (slice) => slice[at]));
  run.cores = new Slices(start, end, Uint32Array.from(all, (slice) => slice[3] ?? 1), Int32Array.from(all, (slice) => slice[2]), made, () => {});
  run.joinSlices(run.local.length);
  return run;
}

test("a task on several cores is told from its first start to its last end, and named by its lowest core", () => {
  const run = withCores(runOf([["r0t", "", 0, 0, [0, 1]]]), [[[50, 60, 0, 2]], [[10, 90, 0], [100, 110, 1]], [[20, 70, 0]]]);
  assert.deepStrictEqual([run.firstSlice[0], run.lastSlice[0], run.nameOf(0), run.slicesOf(0)], [1, 1, "conv2", [0, 1, 3]]);
  assert.strictEqual(spanWords(run, 0), "3 executions, first on core 1 · 10 ns → 90 ns · 80 ns");
  assert.strictEqual(spanWords(run, 1), "core 1 · 100 ns → 110 ns · 10 ns");
  run.open.add(3);
  assert.match(spanWords(run, 0), /10 ns → still running 80 ns later/);
});

test("a text that names a scope without times finds the scope's tasks", () => {
  const scopes = [
    { site: "root.cpp:1", parent: null, depth: 0, ring: 0 },
    { site: "step.cpp:2", parent: 0, depth: 1, ring: 1 },
  ];
  const run = runOf([["r0t", "", 0, 0, [0, 1]], ["r1t", "", 0, 1, [0]]], { scopes, spans: 2, names: ["(unknown)", "gemm", "conv2", "root.cpp:1", "step.cpp:2"] });
  const all = (run.scopes = new Scopes(run));
  all.node.set([0, 1]);
  all.count.set([2, 1]);
  const found = (text) => {
    const { names } = lookUp(run, text);
    const searched = { names, tasks: searchedTasks(run, names) };
    return [0, 1, 2].filter((task) => isFound(searched, 1, task));
  };
  assert.deepStrictEqual([".cpp", "step", "gemm", "nothing"].map(found), [[0, 1, 2], [2], [0, 1, 2], []]);
  all.slice.fill(0);
  assert.deepStrictEqual(found("step"), [], "scopes with times are lit themselves");
});
