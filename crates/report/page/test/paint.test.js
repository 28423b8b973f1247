"use strict";
const test = require("node:test");
const assert = require("node:assert");
const { LABEL, MaxTree, Painter, Run, Slices, contrast, inkOn, stripeOf } = require("./load.js")("LABEL", "MaxTree", "Painter", "Run", "Slices", "contrast", "inkOn", "stripeOf");

/** A painter of 110 by 4 pixels. */
const small = () => Object.assign(Object.create(Painter.prototype), { width: 110, scale: 1, pixels: new Uint32Array(440), shown: new Float64Array(110), labels: new Float64Array(10 * LABEL), labelled: 0, held: new Int32Array(64) });

/** A picture whose colours are numbers, with one row of slices and gaps over 100 ns: a pixel is a ns. */
function painted(slices, gaps) {
  const painter = small();
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
  return { hatched, labels: Array.from({ length: painter.labelled }, (_, at) => [painter.labels[LABEL * at], painter.labels[LABEL * at + 2]]) };
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

/** Slices of one lane, each with a name of its own that is its number. */
function laneOf(slices) {
  const lane = { from: 0, to: slices.length, gapFrom: 0, gapTo: 0, recovered: 0 };
  const [start, end] = [0, 1].map((at) => Float64Array.from(slices, (slice) => slice[at]));
  return new Slices(start, end, Uint32Array.from(slices, (_, at) => at), new Int32Array(slices.length), [lane], () => {});
}

test("of slices that began before the window the innermost is on top, and each goes on where the one inside it ends", () => {
  const slices = laneOf([[-500, -400], [-300, 90], [-250, -200], [-200, 70], [-20, 50], [60, 65]]);
  const painter = small();
  painter.slices(slices, slices.lanes[0], { from: 0, to: 100 }, 0, 100, 0, Uint32Array.of(10, 11, 12, 13, 14, 15), new Set(), 14);
  const at = (x) => painter.pixels[x];
  assert.deepStrictEqual([0, 40, 55, 62, 68, 80, 95].map(at), [14, 14, 13, 15, 13, 11, 0]);
  const names = Array.from({ length: painter.labelled }, (_, at) => [painter.labels[LABEL * at], painter.labels[LABEL * at + 4]]);
  assert.deepStrictEqual(names, [[0, 4]], "names do not lie on each other");
});

test("recovered slices are underlined, and none that had not ended", () => {
  const run = new Run({ open: [3], open_agents: [] });
  const slices = (run.cores = laneOf([[0, 10], [20, 30], [40, 50], [60, 100]]));
  const lane = slices.lanes[0];
  lane.recovered = 2;
  assert.deepStrictEqual([0, 1, 2, 3].map((at) => run.isRecovered(slices, lane, at)), [false, false, true, false]);
  const painter = small();
  painter.recovered(run, slices, lane, { from: 0, to: 100 }, 0, 100, 4, { warn: 7 });
  const underlined = range(0, 100).filter((x) => painter.pixels[330 + x] === 7);
  assert.deepStrictEqual(underlined, range(40, 50));
});

test("a curve ends at its last point", () => {
  const time = Float64Array.of(10, 40);
  const value = Float64Array.of(5, 5);
  const curve = { from: 0, to: 2, peak: 5, points: { time, value, tree: new MaxTree(value, null) } };
  const painter = small();
  painter.curve(curve, { from: 0, to: 100 }, 0, 100, 0, 4, { accent: 0xff000001, bg: 0xff000003 });
  assert.deepStrictEqual(range(0, 100).filter((x) => painter.pixels[330 + x] > 0), range(10, 41));
  const run = new Run({ open: [], open_agents: [] });
  assert.deepStrictEqual([0, 20, 40, 41].map((at) => run.curveAt(curve, at)), [0, 5, 5, null]);
});

test("a curve has a gap where nothing is known", () => {
  const time = Float64Array.of(10, 40, 70, 90);
  const value = Float64Array.of(5, -1, 2, 2);
  const curve = { from: 0, to: 4, peak: 5, points: { time, value, tree: new MaxTree(value, null) } };
  const painter = small();
  painter.curve(curve, { from: 0, to: 100 }, 0, 100, 0, 4, { accent: 0xff000001, bg: 0xff000003 });
  assert.deepStrictEqual(range(0, 100).filter((x) => painter.pixels[330 + x] > 0), [...range(10, 41), ...range(70, 91)]);
  const run = new Run({ open: [], open_agents: [] });
  assert.deepStrictEqual([20, 50, 80].map((at) => run.curveAt(curve, at)), [5, null, 2]);
});

test("names on slices have the better of two contrasts, on stripes that of the worse ground", () => {
  const [white, dark] = [0xffffffff, 0xff111111];
  assert.ok(Math.abs(contrast(0xffffffff, 0xff000000) - 21) < 1e-9);
  // The palette's nine in light and in dark, as ImageData has them: blue, green, red.
  for (const colour of [0xb27200, 0x009fe6, 0x739e00, 0xe9b456, 0x005ed5, 0xa779cc, 0x1f6d8c, 0xa04f6b, 0x94877a, 0xcf932f, 0x8cb51f, 0x2a74e8, 0x3a92b8, 0xd0809b, 0xa39588]) {
    const ground = (0xff000000 | colour) >>> 0;
    const own = inkOn(ground) === "#fff" ? white : dark;
    assert.ok(contrast(own, ground) >= contrast(own === white ? dark : white, ground) && contrast(own, ground) >= 4.2, `${colour.toString(16)}`);
    const striped = inkOn(ground, stripeOf(ground)) === "#fff" ? white : dark;
    const least = (ink) => Math.min(contrast(ink, ground), contrast(ink, stripeOf(ground)));
    assert.ok(least(striped) >= least(striped === white ? dark : white));
  }
});
