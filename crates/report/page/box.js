// What a box around some rows and a stretch of time holds. Kinds are counted apart: scopes lie around tasks, and phases of schedulers
// beside them, so one sum over all would count the same time twice.

/** What people call the slices of a kind of lane, one and many, and where their time goes; scopes nest, so theirs has no sum.
 * @type {[string, string, string, string][]} */
const BOX_KINDS = [
  ["core", "execution", "executions", "in kernels"],
  ["before", "execution of the run before", "executions of the run before", "in kernels"],
  ["orchestrator", "submit or phase of the orchestrator", "submits and phases of the orchestrator", "in them"],
  ["scheduler", "phase of schedulers", "phases of schedulers", "in them"],
  ["scope", "scope", "scopes", ""],
];

/** @typedef {{ slices: number, ns: number, longest: number }} Total how many slices, their time inside the box, the longest of these times */

/** Sums up the rows between two heights. @param {Row[]} rows @param {Run} run @param {number} top @param {number} bottom in the rows' own pixels
 * @param {number} from @param {number} to @returns {Map<string, Total>} by kind of lane */
function boxTotals(rows, run, top, bottom, from, to) {
  /** @type {Map<string, Total>} */
  const totals = new Map();
  for (const row of rows) {
    if (!row.slices || !row.lane || row.y + row.height < top || row.y > bottom) continue;
    const kind = row.run === run ? row.lane.kind : "before";
    if (kind === "before" && row.lane.kind !== "core") continue;
    const total = totals.get(kind) ?? { slices: 0, ns: 0, longest: 0 };
    totals.set(kind, total);
    const { start, end, ends } = row.slices;
    for (let at = ends.firstAbove(row.lane.from, row.lane.to, from); at < row.lane.to && start[at] < to; at++) {
      if (end[at] <= from) continue;
      const inside = Math.min(end[at], to) - Math.max(start[at], from);
      total.slices++;
      total.ns += inside;
      total.longest = Math.max(total.longest, inside);
    }
  }
  return totals;
}

/** @param {Map<string, Total>} totals @param {number} ns how long the box is */
function boxWords(totals, ns) {
  const words = BOX_KINDS.flatMap(([kind, one, many, where]) => {
    const total = totals.get(kind);
    if (!total?.slices) return [];
    const said = `${count(total.slices)} ${total.slices === 1 ? one : many}`;
    return [where ? `${said}, ${duration(total.ns)} ${where}, at most ${duration(total.longest)} in one` : said];
  });
  return `${duration(ns)} selected: ${words.join("; ") || "nothing in it"}`;
}
