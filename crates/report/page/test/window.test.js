"use strict";
const test = require("node:test");
const assert = require("node:assert");
const { TimeWindow, duration, axisTime, step } = require("./load.js")("TimeWindow", "duration", "axisTime", "step");

test("zooming keeps the time under the pointer, and stays within the run", () => {
  const view = new TimeWindow(0, 1000);
  view.zoom(0.5, 250);
  assert.ok(Math.abs((250 - view.from) / (view.to - view.from) - (250 + 10) / 1020) < 1e-9);
  view.zoom(100, 250);
  assert.ok(view.isWhole());
  view.zoom(1e-12, 250);
  assert.ok(view.to - view.from >= 4);
  view.pan(-1e9);
  assert.strictEqual(view.from, view.least);
});

test("the way back leads back and forward again", () => {
  const view = new TimeWindow(0, 1000);
  view.remember();
  view.set(100, 200);
  view.travel(false);
  assert.ok(view.isWhole());
  view.travel(true);
  assert.deepStrictEqual([view.from, view.to], [100, 200]);
});

test("what moves nothing leaves nothing to go back to, and no window is without an end", () => {
  const view = new TimeWindow(0, 1000);
  view.remember();
  view.set(100, 200);
  view.travel(false);
  view.remember();
  view.set(view.from, view.to);
  view.travel(true);
  assert.deepStrictEqual([view.from, view.to, view.back.length], [100, 200, 1], "the way forward is still there");
  for (const [from, to] of [[-Infinity, Infinity], [NaN, 3], [-1e308, 1e308 * 10]]) view.set(from, to);
  assert.deepStrictEqual([view.from, view.to], [100, 200]);
});

test("times have the digits that the command prints", () => {
  const pairs = [[7, "7 ns"], [2120, "2.12 µs"], [45_200, "45.2 µs"], [452_000, "452 µs"], [1.27e6, "1.27 ms"], [-1500, "-1.50 µs"]];
  for (const [ns, text] of pairs) assert.strictEqual(duration(ns), text);
  assert.deepStrictEqual([step(7), step(11), step(30)], [10, 20, 50]);
  assert.strictEqual(axisTime(1_000_200, 100), "1.0002 ms");
});
