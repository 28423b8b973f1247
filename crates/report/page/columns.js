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

/** Numbers between two marks of an `Indexed`. */
const MARK = 512;

/** A column whose numbers are asked for one at a time, by place. It stays as it came: few of its numbers are ever asked for. */
class Indexed {
  /** @param {Reader} reader @param {"plain" | "signed" | "delta" | "sum"} kind how a number follows from what is written: as it is, of
   * either sign, as a difference from the one before, or as the sum of all up to it */
  constructor(reader, kind) {
    this.bytes = reader.bytes;
    this.kind = kind;
    /** Where every 512th number begins, and what the numbers before it come to. @type {{ at: Uint32Array, last: Float64Array } | null} */
    this.marks = null;
  }

  index() {
    const bytes = this.bytes;
    let many = 0;
    for (let at = 0; at < bytes.length; at++) if (bytes[at] < 0x80) many++;
    const marks = { at: new Uint32Array(Math.ceil(many / MARK) + 1), last: new Float64Array(Math.ceil(many / MARK) + 1) };
    const reader = new Reader(bytes);
    for (let place = 0; place < many; place++) {
      if (place % MARK === 0) {
        marks.at[place / MARK] = reader.at;
        marks.last[place / MARK] = reader.last;
      }
      this.read(reader);
    }
    this.length = many;
    return (this.marks = marks);
  }

  /** @param {Reader} reader */
  read(reader) {
    if (this.kind === "plain") return reader.next();
    if (this.kind === "signed") return reader.signed();
    return this.kind === "delta" ? reader.delta() : (reader.last += reader.next());
  }

  /** The number at a place. @param {number} place @returns {number} */
  at(place) {
    const marks = this.marks ?? this.index();
    const mark = Math.floor(place / MARK);
    const reader = new Reader(this.bytes);
    reader.at = marks.at[mark];
    reader.last = marks.last[mark];
    for (let skip = place - mark * MARK; skip > 0; skip--) this.read(reader);
    return this.read(reader);
  }
}

/** @param {Reader | null} reader @param {"plain" | "signed" | "delta" | "sum"} kind @returns {Indexed | null} */
function indexed(reader, kind) {
  return reader && new Indexed(reader, kind);
}
