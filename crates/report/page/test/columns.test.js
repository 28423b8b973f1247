"use strict";
const test = require("node:test");
const assert = require("node:assert");
const zlib = require("node:zlib");
const { Reader, fromBase64, inflate } = require("./load.js")("Reader", "fromBase64", "inflate");

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
