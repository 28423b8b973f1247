// Which rows there are, from top to bottom, and how high each is. Lengths are CSS pixels.

/** Room for the rows' names. Those of two runs say which run as well. */
const [GUTTER, WIDE_GUTTER] = [136, 184];
let gutter = GUTTER;
/** Room for the minimap and the axis. */
const TOP = 62;
const MINIMAP = { y: 8, height: 22 };
/** Rows of a folded class share about this much height; of two runs that are compared, half as much each. */
const FOLDED = 216;

/** @typedef {{ run: Run, slices: Slices | null, lane: Lane | null, curve: Curve | null, y: number, height: number, label: string, sub: string, note: string, until: number }} Row
 * `note` is said across a row that has no slices; `until` is where the rows end that a label is of */

/** Rows are at most so much higher than they need be, to fill a high window. */
const MOST_STRETCH = 2;

/** Lays the rows out; in a window that has more room than they need, they are higher.
 * @param {Run} run @param {Run | null} before @param {boolean} folded @param {number} room @returns {{ rows: Row[], height: number }} */
function layOut(run, before, folded, room) {
  const plain = stretched(run, before, folded, 1);
  const stretch = Math.min(MOST_STRETCH, room / plain.height);
  if (stretch <= 1.1) return plain;
  const higher = stretched(run, before, folded, stretch);
  return higher.height <= room ? higher : plain;
}

/** @param {Run} run @param {Run | null} before @param {boolean} folded @param {number} stretch @returns {{ rows: Row[], height: number }} */
function stretched(run, before, folded, stretch) {
  /** @type {Row[]} */
  const rows = [];
  let y = 6;
  /** @type {(row: Partial<Row>, height: number, after: number) => void} */
  const add = (row, own, after) => {
    const height = Math.floor(own * stretch);
    rows.push({ run, slices: null, lane: null, curve: null, label: "", sub: "", note: "", until: y + height, ...row, y, height });
    y += height + after;
  };
  // The run itself and the one before it, kind by kind and class by class, so that what is compared lies together.
  /** @type {[Run, string][]} */
  const runs = before ? [[run, "now: "], [before, "before: "]] : [[run, ""]];
  const agents = (/** @type {string} */ kind, /** @type {number} */ height) => {
    for (const [run, prefix] of runs) {
      const lanes = run.agents.lanes.filter((lane) => lane.kind === kind && lane.to > lane.from);
      for (const lane of lanes) add({ run, slices: run.agents, lane, label: prefix + lane.name }, height, 3);
      if (lanes.length) y += 7;
    }
  };
  agents("orchestrator", 16);
  agents("scheduler", 12);
  const cores = (/** @type {Run} */ run, /** @type {string} */ name, /** @type {Lane[]} */ lanes, /** @type {string} */ prefix) => {
    const idle = lanes.filter((lane) => lane.to === lane.from).length;
    if (idle < lanes.length && folded && lanes.length > 8) {
      const height = Math.max(2, Math.min(9, Math.floor(FOLDED / (before ? 2 : 1) / lanes.length) - 1));
      const first = rows.length;
      const sub = `${lanes.length} · ${percent(busyShare(run, lanes))} busy`;
      lanes.forEach((lane, at) => add({ run, slices: run.cores, lane, ...(at === 0 && { label: `${prefix}${name} cores`, sub }) }, height, 1));
      rows[first].until = y;
    } else {
      const height = lanes.length > 24 ? 12 : 18;
      for (const lane of lanes) if (lane.to > lane.from) add({ run, slices: run.cores, lane, label: prefix + lane.name }, height, 2);
      if (idle > 0) add({ run, note: idleWords(run, name, idle, idle === lanes.length, prefix) }, 14, 2);
    }
    y += 8;
  };
  const classes = coreClasses(run);
  const classesBefore = before ? coreClasses(before) : new Map();
  for (const name of new Set([...classes.keys(), ...classesBefore.keys()])) {
    cores(run, name, classes.get(name) ?? [], before ? "now: " : "");
    if (before) cores(before, name, classesBefore.get(name) ?? [], "before: ");
  }
  agents("scope", 12);
  for (const name of new Set(runs.flatMap(([run]) => run.curves.map((curve) => curve.name)))) {
    for (const [run, prefix] of runs) {
      for (const curve of run.curves) if (curve.name === name) add({ run, curve, label: prefix + name, sub: peakWords(curve) }, 34, 6);
    }
  }
  for (const curve of run.counted) add({ curve, label: curve.name, sub: peakWords(curve) }, 34, 6);
  return { rows, height: y };
}

/** The peak of a curve, to which its row is scaled, against the capacity if there is one. @param {Curve} curve */
function peakWords(curve) {
  const capacity = curve.capacity > 0 ? `/${amount(curve.capacity, curve.unit)}` : "";
  return `peak ${amount(curve.peak, curve.unit)}${capacity}`;
}

/** Says that cores of a class have no row. @param {Run} run @param {string} name @param {number} many @param {boolean} isAll @param {string} prefix */
function idleWords(run, name, many, isAll, prefix) {
  const noun = `${run.meta.workers ? "worker" : "core"}${many === 1 ? "" : "s"}`;
  const kind = run.meta.workers || name === "all" ? "" : ` ${name}`;
  return `${prefix}${count(many)}${isAll ? "" : " more"}${kind} ${noun} ran nothing`;
}

/** Lanes of cores by class, in the order of the cores. @param {Run} run @returns {Map<string, Lane[]>} */
function coreClasses(run) {
  /** @type {Map<string, Lane[]>} */
  const classes = new Map();
  for (const lane of run.cores.lanes) {
    const name = lane.class === "any" ? "all" : lane.class.toUpperCase();
    const lanes = classes.get(name);
    if (lanes) lanes.push(lane);
    else classes.set(name, [lane]);
  }
  return classes;
}

/** The busy share of each class, by its first lane: rows are laid out at every change of size. @type {WeakMap<Lane, number>} */
const busyShares = new WeakMap();

/** Time in kernels over cores and makespan. @param {Run} run @param {Lane[]} lanes */
function busyShare(run, lanes) {
  const known = busyShares.get(lanes[0]);
  if (known !== undefined) return known;
  let busy = 0;
  // Slices that had not ended go on after the last kernel that did.
  let whole = Math.max(1, run.meta.makespan_ns);
  for (const lane of lanes) {
    for (let at = lane.from; at < lane.to; at++) busy += run.cores.end[at] - run.cores.start[at];
    if (lane.to > lane.from) whole = Math.max(whole, run.cores.end[lane.to - 1]);
  }
  const share = busy / (whole * lanes.length);
  busyShares.set(lanes[0], share);
  return share;
}
