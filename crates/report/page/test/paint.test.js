"use strict";
const test = require("node:test");
const assert = require("node:assert");
const { MaxTree, Painter, Slices } = require("./load.js")("MaxTree", "Painter", "Slices");

/** A picture of 110 by 4 pixels whose colours are numbers, with one row of slices and gaps over 100 ns: a pixel is a ns. */
function painted(slices, gaps) {
  const painter = Object.assign(Object.create(Painter.prototype), { width: 110, scale: 1, pixels: new Uint32Array(440), shown: new Float64Array(110), labels: new Float64Array(50), labelled: 0 });
  const lane = { from: 0, to: slices.length, gapFrom: 0, gapTo: gaps.length };
  const [start, end] = [0, 1].map((at) => Float64Array.from(slices, (slice) => slice[at]));
  const all = new Slices(start, end, new Uint32Array(slices.length), new Int32Array(slices.length), [lane], () => {});
  const [gapStart, gapEnd] = [0, 1].map((at) => Float64Array.from(gaps, (gap) => gap[at]));
  const run = { gapStart, gapEnd, gapLengths: new MaxTree(gapEnd, gapStart) };
  const view = { from: 0, to: 100 };
  painter.slices(all, lane, view, 0, 100, 0, Uint32Array.of(1), new Set(), 14);
  painter.repeat(0, 4);
  painter.gaps(run, lane, view, 0, 100, 0, 4, { bad: 2, bg: 3 });
  painter.cutLabels(0);
  const hatched = [];
  for (let x = 0; x < 100; x++) if ([0, 1, 2, 3].some((y) => painter.pixels[y * 110 + x] > 1)) hatched.push(x);
  return { hatched, labels: Array.from({ length: painter.labelled }, (_, at) => [painter.labels[5 * at], painter.labels[5 * at + 2]]) };
}

const range = (from, to) => Array.from({ length: to - from }, (_, at) => from + at);

test("many short gaps hatch no more than the pixels that they lie in", () => {
  const gaps = range(0, 500).map((at) => [10 + at * 0.02, 10 + at * 0.02 + 0.01]);
  const { hatched, labels } = painted([[0, 10], [20, 90]], gaps);
  assert.deepStrictEqual(hatched, range(10, 20));
  assert.deepStrictEqual(labels, [[20, 69]]);
});

test("a slice that is longer than the gaps beside it keeps its pixels", () => {
  assert.deepStrictEqual(painted([[0, 40.4], [40.9, 60]], [[40.4, 40.9]]).hatched, [], "the pixel shows the slice");
  assert.deepStrictEqual(painted([[40, 40.2]], [[40.3, 40.9]]).hatched, [40], "the gap is longer");
  assert.deepStrictEqual(painted([], [[40.3, 40.301]]).hatched, [40], "there is nothing else");
});

test("a wait inside a longer slice is hatched, and the slice's name ends there", () => {
  const { hatched, labels } = painted([[0, 100]], [[60, 80]]);
  assert.deepStrictEqual(hatched, range(60, 80));
  assert.deepStrictEqual(labels, [[0, 60]]);
  assert.deepStrictEqual(painted([[0, 100]], [[20, 80]]).labels, [], "no room is left for it");
});

test("a gap that began before the window is hatched from its edge", () => {
  assert.deepStrictEqual(painted([], [[-50, 3]]).hatched, [0, 1, 2]);
});
