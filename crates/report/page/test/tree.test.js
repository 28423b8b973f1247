"use strict";
const test = require("node:test");
const assert = require("node:assert");
const { MaxTree, firstThat, lowerBound } = require("./load.js")("MaxTree", "firstThat", "lowerBound");

/** Numbers that repeat from run to run. @param {number} seed */
function draw(seed) {
  return () => (seed = (seed * 1103515245 + 12345) % 2147483648);
}

test("the longest of any range, and the first above a limit, are those a plain search finds", () => {
  const next = draw(7);
  for (const size of [1, 15, 16, 17, 256, 257, 5000]) {
    const values = Float64Array.from({ length: size }, () => next() % 50);
    const tree = new MaxTree(values, null);
    for (let turn = 0; turn < 300; turn++) {
      const from = next() % size;
      const to = from + 1 + (next() % (size - from));
      const most = Math.max(...values.subarray(from, to));
      const found = tree.longest(from, to);
      assert.ok(found >= from && found < to && values[found] === most, `${size}: ${from}..${to}`);
      const limit = next() % 55;
      const plain = values.subarray(from, to).findIndex((value) => value > limit);
      assert.strictEqual(tree.firstAbove(from, to, limit), plain < 0 ? to : from + plain, `${size}: ${from}..${to} above ${limit}`);
    }
  }
});

test("lengths are differences", () => {
  const tree = new MaxTree(Float64Array.of(5, 9, 30), Float64Array.of(0, 1, 29));
  assert.strictEqual(tree.longest(0, 3), 1);
});

test("a bound is found from anywhere", () => {
  const column = Float64Array.from({ length: 1000 }, (_, at) => at * 2);
  for (const [from, limit, want] of [[0, 0, 0], [0, 1, 1], [500, 3, 500], [3, 1997, 999], [3, 5000, 1000]]) {
    assert.strictEqual(lowerBound(column, from, 1000, limit), want);
  }
});

test("the first that something holds for is found among any number", () => {
  for (const many of [0, 1, 2, 7, 1000]) {
    for (const first of [0, 1, 5, 999, 1000]) assert.strictEqual(firstThat(many, (at) => at >= first), Math.min(many, first));
  }
});
