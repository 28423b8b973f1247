"use strict";
const test = require("node:test");
const assert = require("node:assert");
const zlib = require("node:zlib");
const { Indexed, Reader, fromBase64, inflate } = require("./load.js")("Indexed", "Reader", "fromBase64", "inflate");

test("numbers of any size and sign are read back", () => {
  const reader = new Reader(Uint8Array.of(0xac, 2, 1, 0xd0, 0x0f, 1));
  assert.deepStrictEqual([reader.next(), reader.signed(), reader.delta(), reader.delta()], [300, -1, 1000, 999]);
  const large = new Reader(Uint8Array.of(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f));
  assert.strictEqual(large.next(), 2 ** 53 - 1);
  assert.strictEqual(large.next(), 0, "past the end");
});

test("deflated base64 is unpacked", async () => {
  const bytes = Uint8Array.from({ length: 10_000 }, (_, at) => at % 7);
  const text = zlib.deflateRawSync(bytes).toString("base64");
  assert.deepStrictEqual(await inflate(fromBase64(text)), bytes);
});

test("numbers are found by their place", () => {
  // 0, 1, 2 … 1999 as they are: two bytes from 128 on.
  const bytes = Uint8Array.from(Array.from({ length: 2000 }, (_, at) => (at < 128 ? [at] : [(at & 127) | 128, at >> 7])).flat());
  const of = (kind, ...places) => places.map((at) => new Indexed(new Reader(bytes), kind).at(at));
  assert.deepStrictEqual(of("plain", 0, 511, 512, 1999), [0, 511, 512, 1999]);
  assert.deepStrictEqual(of("sum", 0, 3, 1000), [0, 6, 500_500]);
  assert.deepStrictEqual(of("signed", 3, 4), [-2, 2]);
  assert.deepStrictEqual(of("delta", 2, 1999), [0, -1000]);
});
