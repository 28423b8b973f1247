"use strict";
const test = require("node:test");
const assert = require("node:assert");
const { CounterCurves, Indexed, Reader } = require("./load.js")("CounterCurves", "Indexed", "Reader");

/** Two cores: a task on each from 0 to 10, on the first another one from 10 to 30. The second reading is of the second core. */
function curves() {
  const lanes = [{ core: 0, from: 0, to: 2 }, { core: 1, from: 2, to: 3 }];
  const cores = { start: Float64Array.of(0, 10, 0), end: Float64Array.of(10, 30, 10), task: Int32Array.of(0, 2, 1), lanes };
  const column = (...bytes) => new Indexed(new Reader(Uint8Array.from(bytes)), "plain");
  const counters = { names: ["cycles", "instructions"], task: Float64Array.of(0, 1, 2), core: column(0, 1, 0), value: column(20, 40, 20, 10, 60, 60) };
  return new CounterCurves({ cores, meta: { ratios: [["instructions_per_cycle", 1, 0]] } }, counters);
}

/** What a curve stands at after a time. */
const at = (curve, time) => curve.points.value[curve.points.time.findLastIndex((point) => point <= time)];

test("a counter is the sum over the executions that run", () => {
  const [cycles] = curves().chosen("c0");
  assert.deepStrictEqual([cycles.name, cycles.unit], ["cycles", "/ µs"]);
  for (const [time, wanted] of [[5, 4000], [15, 3000], [30, 0]]) assert.ok(Math.abs(at(cycles, time) - wanted) < 1e-6, `${time}: ${at(cycles, time)}`);
  assert.ok(Math.abs(cycles.peak - 4000) < 1e-6, "where one ends and another starts there is no peak of both");
});

test("a ratio is that of the sums, and all counters can be shown at once", () => {
  const all = curves();
  const [ipc] = all.chosen("r0");
  assert.strictEqual(ipc.name, "instructions per cycle");
  for (const [time, wanted] of [[5, 1.25], [15, 1], [30, 0]]) assert.ok(Math.abs(at(ipc, time) - wanted) < 1e-9, `${time}: ${at(ipc, time)}`);
  assert.deepStrictEqual(all.chosen("all").map((curve) => curve.name), ["instructions per cycle", "cycles", "instructions"]);
  assert.deepStrictEqual(all.chosen(""), []);
});

test("a reading is spread over the time in which it was counted, halfway to its neighbours at most", () => {
  const lanes = [{ core: 0, from: 0, to: 2 }];
  const cores = { start: Float64Array.of(100, 120), end: Float64Array.of(101, 140), task: Int32Array.of(0, 1), lanes };
  const column = (...bytes) => new Indexed(new Reader(Uint8Array.from(bytes)), "plain");
  const [dispatch, finish] = [column(9, 30), column(50, 5)];
  const run = { cores, dispatch, finish, meta: { ratios: [] } };
  const all = new CounterCurves(run, { names: ["cycles"], task: Float64Array.of(0, 1), core: column(0, 0), value: column(39, 69) });
  assert.deepStrictEqual([[...all.spans.start], [...all.spans.end]], [[91, 110.5], [110.5, 145]]);
  assert.ok(Math.abs(all.chosen("c0")[0].peak - 2000) < 1e-6);
});

test("readings of several executions on one core go to them in order", () => {
  const lanes = [{ core: 0, from: 0, to: 2 }];
  const cores = { start: Float64Array.of(0, 10), end: Float64Array.of(10, 20), task: Int32Array.of(0, 0), lanes };
  const column = (...bytes) => new Indexed(new Reader(Uint8Array.from(bytes)), "plain");
  const all = new CounterCurves({ cores, meta: { ratios: [] } }, { names: ["cycles"], task: Float64Array.of(0, 0), core: column(0, 0), value: column(1, 2) });
  assert.deepStrictEqual([...all.reading], [0, 1]);
});
