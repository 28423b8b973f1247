// Captured values of arguments: what a task saw and made.

/** @typedef {{ min: number | null, max: number | null, mean: number | null, nan: number, inf: number, count: number }} ElementStats
 * @typedef {{ index: number, role: string, stage: string, kind: string, dtype: string, shape: number[], truncated: boolean,
 *   captured: boolean, value: unknown, stats: ElementStats | null, values: (number | string)[] | null }} CapturedRow */

class Captured {
  /** @param {Run} run @param {Reader} task @param {Indexed} length @param {Uint8Array} text */
  constructor(run, task, length, text) {
    /** The task of each row, in order. */
    this.task = Float64Array.from({ length: run.meta.captured }, () => task.delta() - 1);
    this.length = length;
    this.text = text;
  }

  /** @param {Run} run @param {Source} column @returns {Promise<Captured | null>} */
  static async load(run, column) {
    const [task, length, text] = await Promise.all(["dump.task", "dump.length", "dump.text"].map(column));
    return task && length && text ? new Captured(run, task, new Indexed(length, "sum"), text.bytes) : null;
  }

  /** What was captured of a task. @param {number} task @returns {CapturedRow[]} */
  of(task) {
    const rows = [];
    for (let at = lowerBound(this.task, 0, this.task.length, task); this.task[at] === task; at++) {
      const from = at > 0 ? this.length.at(at - 1) : 0;
      rows.push(JSON.parse(new TextDecoder().decode(this.text.subarray(from, this.length.at(at)))));
    }
    return rows;
  }
}

/** A number of four figures, or the word for what is none. @param {unknown} value */
function figure(value) {
  return typeof value === "number" ? String(Number(value.toPrecision(4))) : String(value);
}

/** What a captured argument holds, in words. @param {CapturedRow} row */
function capturedWords(row) {
  if (row.kind === "scalar") return figure(row.value ?? "NaN");
  if (!row.captured) return "elements not captured";
  const words = [];
  if (row.stats && row.stats.min !== null) words.push(`${figure(row.stats.min)} … ${figure(row.stats.max)}, mean ${figure(row.stats.mean)}`);
  if (row.stats?.nan) words.push(`${count(row.stats.nan)} NaN`);
  if (row.stats?.inf) words.push(`${count(row.stats.inf)} Inf`);
  if (row.truncated) words.push("truncated");
  return words.join(", ");
}
