// Columns of numbers, as crates/report/src/page/columns.rs writes them: differences, as numbers of seven bits a byte,
// deflated, in base64.

/** @param {string} text @returns {Uint8Array} */
function fromBase64(text) {
  const direct = /** @type {any} */ (Uint8Array).fromBase64;
  if (direct) return direct.call(Uint8Array, text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < bytes.length; at++) bytes[at] = binary.charCodeAt(at);
  return bytes;
}

/** @param {Uint8Array} bytes @returns {Promise<Uint8Array>} */
async function inflate(bytes) {
  const stream = new Blob([/** @type {any} */ (bytes)]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Reads the numbers of one column, first to last. */
class Reader {
  /** @param {Uint8Array} bytes */
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
    this.last = 0;
  }

  /** The next number; 0 past the end. */
  next() {
    const bytes = this.bytes;
    let byte = bytes[this.at++];
    if (byte < 0x80) return byte;
    if (byte === undefined) return 0;
    // Five bytes hold 35 bits, so shifts would lose the upper ones: add and multiply instead.
    let value = byte & 0x7f;
    let unit = 128;
    do {
      byte = bytes[this.at++];
      value += (byte & 0x7f) * unit;
      unit *= 128;
    } while (byte >= 0x80);
    return value;
  }

  /** The next number of either sign. */
  signed() {
    const value = this.next();
    return value % 2 === 1 ? -(value + 1) / 2 : value / 2;
  }

  /** The next number that was written as its difference from the one before. */
  delta() {
    return (this.last += this.signed());
  }
}
