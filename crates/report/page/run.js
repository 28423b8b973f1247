// The run, unpacked into typed arrays. Times are nanoseconds since the first kernel's start.

/**
 * @typedef {{ name: string, kind: string, class: string, core: number | null, count: number, recovered: number, gaps: number, from: number, to: number, gapFrom: number, gapTo: number }} Lane
 * @typedef {{ time: Float64Array, value: Float64Array, tree: MaxTree }} Points when curves changed, and to what; -1 where nothing is known until the next point
 * @typedef {{ name: string, unit: string, capacity: number, count: number, from: number, to: number, peak: number, points: Points }} Curve
 * @typedef {{ prefix: string, suffix: string, round: number, ring: number | null, count: number }} Group
 * @typedef {{ title: string, zero_ns: number, end_ns: number, makespan_ns: number, workers: boolean, virtual_time: boolean, emulated: boolean, arch: string, names: string[], kernels: number,
 *   groups: Group[], cores: Lane[], agents: Lane[], open: number[], open_agents: number[], lifecycle: boolean,
 *   nodes: number, edges: number, forms: Form[], captured: number, captured_in_all: number, incomplete: boolean, counted: string[], readings: number, ratios: [string, number, number][], scopes: ScopeNode[], spans: number, curves: Curve[], path: number, waits: string[], left_out: string[], no_dependencies: string }} Meta
 * @typedef {(name: string) => Promise<Reader | null>} Source
 */

/** Slices of many lanes as columns, by lane and by start within a lane. */
class Slices {
  /** @param {Float64Array} start @param {Float64Array} end @param {Uint32Array} name @param {Int32Array} task @param {Lane[]} lanes
   * @param {(columns: Slices) => void} fill writes the columns */
  constructor(start, end, name, task, lanes, fill) {
    this.start = start;
    this.end = end;
    this.name = name;
    this.task = task;
    this.lanes = lanes;
    fill(this);
    this.lengths = new MaxTree(end, start);
    this.ends = new MaxTree(end, null);
    /** Where each slice lies among all; null if these are all. @type {Uint32Array | null} */
    this.origin = null;
  }

  /** The slices for which `keep` holds, with trees of their own. @param {(at: number) => boolean} keep @returns {Slices} */
  only(keep) {
    const kept = new Uint32Array(this.start.length);
    let many = 0;
    const lanes = this.lanes.map((lane) => {
      const from = many;
      for (let at = lane.from; at < lane.to; at++) if (keep(at)) kept[many++] = at;
      return { ...lane, from, to: many };
    });
    const origin = kept.slice(0, many);
    const part = new Slices(new Float64Array(many), new Float64Array(many), new Uint32Array(many), new Int32Array(many), lanes, (columns) => {
      for (let at = 0; at < many; at++) {
        const own = origin[at];
        columns.start[at] = this.start[own];
        columns.end[at] = this.end[own];
        columns.name[at] = this.name[own];
        columns.task[at] = this.task[own];
      }
    });
    part.origin = origin;
    return part;
  }

  /** The innermost slice of a lane at a time; -1 if there is none. @param {Lane} lane @param {number} time */
  at(lane, time) {
    let at = lowerBound(this.start, lane.from, lane.to, time + 1e-6);
    // Slices nest: the one that holds the time and starts last is the innermost. Few are looked at, because a lane's are
    // mostly one after the other.
    for (let seen = 0; at > lane.from && seen < 64; seen++) {
      at--;
      if (this.end[at] >= time) return at;
    }
    const outer = this.ends.firstAbove(lane.from, lane.to, time);
    return outer < lane.to && this.start[outer] <= time ? outer : -1;
  }
}

/** @param {Lane[]} lanes @param {Reader | null} gap @param {Reader | null} length @param {Reader | null} name @param {Reader | null} task @param {number} zero */
function readSlices(lanes, gap, length, name, task, zero) {
  let total = 0;
  for (const lane of lanes) {
    lane.from = total;
    total += gap ? lane.count : 0;
    lane.to = total;
  }
  return new Slices(new Float64Array(total), new Float64Array(total), new Uint32Array(total), new Int32Array(total), lanes, (columns) => {
    if (!gap || !length || !name || !task) return;
    const { start, end, name: names, task: tasks } = columns;
    for (const lane of lanes) {
      let last = -zero;
      for (let at = lane.from; at < lane.to; at++) {
        start[at] = last + gap.signed();
        end[at] = last = start[at] + length.next();
        names[at] = name.next();
        tasks[at] = task.delta() - 1;
      }
    }
  });
}

/** What is said of a slice whose record was still in its buffer when the run ended. */
const RECOVERED = "its record was recovered after the run had ended";

/** Everything about a run. */
class Run {
  /** Reads what the picture is drawn from. @param {Meta} meta @param {Source} column @returns {Promise<Run>} */
  static async load(meta, column) {
    const run = new Run(meta);
    const of = (/** @type {string[]} */ ...names) => Promise.all(names.map(column));
    const [gap, length, name, task] = await of("core.gap", "core.length", "core.name", "core.task");
    run.cores = readSlices(meta.cores, gap, length, name, task, meta.zero_ns);
    const [agentGap, agentLength, agentName, agentTask] = await of("agent.gap", "agent.length", "agent.name", "agent.task");
    run.agents = readSlices(meta.agents, agentGap, agentLength, agentName, agentTask, meta.zero_ns);
    const [local, path, why, named] = await of("task.local", "path.task", "path.why", "task.name");
    run.readTasks(local);
    if (named) run.taskName = Uint32Array.from({ length: run.local.length }, () => named.next());
    run.readPath(path, why);
    const [curveGap, curveValue, waitGap, waitLength] = await of("curve.gap", "curve.value", "gap.gap", "gap.length");
    run.readCurves(curveGap, curveValue);
    run.readGaps(waitGap, waitLength);
    return run;
  }

  /** Reads what is told of single tasks. It may take as long as the rest, and nobody asks for it before the picture is there. @param {Source} column */
  async loadDetails(column) {
    const of = (/** @type {string[]} */ ...names) => Promise.all(names.map(column));
    const [dispatch, finish] = await of("core.dispatch", "core.finish");
    this.dispatch = indexed(dispatch, "signed");
    this.finish = indexed(finish, "signed");
    const [pred, ...waits] = await of("wait.pred", ...this.meta.waits.map((cause) => `wait.${cause.split(" ")[0]}`));
    this.follows = indexed(pred, "signed");
    waits.forEach((wait, at) => wait && this.waits.push({ cause: this.meta.waits[at], ns: new Indexed(wait, "plain") }));
    this.graph = await Graph.load(this, column);
    this.arguments = await Arguments.load(this, column);
    this.captured = await Captured.load(this, column);
    this.counters = await Counters.load(this, column);
    this.scopes = await Scopes.load(this, column);
    this.hasDetails = true;
  }

  /** @param {Meta} meta */
  constructor(meta) {
    this.meta = meta;
    this.open = new Set(meta.open);
    this.openAgents = new Set(meta.open_agents);
    const none = readSlices([], null, null, null, null, 0);
    this.cores = none;
    this.agents = none;
    this.local = new Uint32Array(0);
    /** Of each task's slices the one that starts first: most tasks have one slice. -1 if it has none. */
    this.firstSlice = new Int32Array(0);
    /** The one that ends last. */
    this.lastSlice = new Int32Array(0);
    /** The one on the lowest core: a task is called after what that ran, as the commands call it. */
    this.nameSlice = new Int32Array(0);
    /** The submit of each task, among the agents' slices; -1 if it was not recorded. */
    this.submit = new Int32Array(0);
    /** What rings held. @type {Curve[]} */
    this.curves = [];
    /** What hardware counted, as far as the reader chose it. @type {Curve[]} */
    this.counted = [];
    /** What each task would have run, where no slice tells it; empty if slices tell it of all. */
    this.taskName = new Uint32Array(0);
    /** When producers of records waited for the recorder, by lane. */
    this.gapStart = new Float64Array(0);
    this.gapEnd = new Float64Array(0);
    this.gapLengths = new MaxTree(this.gapEnd, this.gapStart);
    /** The tasks of the critical path, first to last. */
    this.path = new Int32Array(0);
    /** Why each of them waited for the one before, plus 1; 0 if it did not. */
    this.pathWhy = new Uint8Array(0);
    /** Their slices. @type {Slices | null} */
    this.pathSlices = null;
    this.hasDetails = false;
    /** From dispatch to start, by slice. @type {Indexed | null} */
    this.dispatch = null;
    /** From end to finish, by slice. @type {Indexed | null} */
    this.finish = null;
    /** How far back the task lies that each task followed; 0 if it followed nobody. @type {Indexed | null} */
    this.follows = null;
    /** What each task waited for, by cause, in order of time. @type {{ cause: string, ns: Indexed }[]} */
    this.waits = [];
    this.graph = new Graph(this);
    /** @type {Arguments | null} */
    this.arguments = null;
    /** @type {Captured | null} */
    this.captured = null;
    this.counters = null;
    /** @type {Scopes | null} */
    this.scopes = null;
  }

  /** @param {Reader | null} column @param {Reader | null} why */
  readPath(column, why) {
    if (!column) return;
    this.path = Int32Array.from({ length: this.meta.path }, () => column.delta() - 1);
    if (why) this.pathWhy = Uint8Array.from({ length: this.meta.path }, () => why.next());
    const lit = new Uint8Array(this.local.length);
    for (const task of this.path) lit[task] = 1;
    this.pathSlices = this.cores.only((at) => lit[this.cores.task[at]] === 1);
  }

  /** @param {Reader | null} local */
  readTasks(local) {
    let total = 0;
    for (const group of this.meta.groups) total += group.count;
    this.local = new Uint32Array(total);
    if (local) for (let at = 0; at < total; at++) this.local[at] = local.delta();
    this.joinSlices(total);
    this.submit = new Int32Array(total).fill(-1);
    for (const lane of this.agents.lanes) {
      if (lane.kind !== "orchestrator") continue;
      for (let at = lane.from; at < lane.to; at++) if (this.agents.task[at] >= 0) this.submit[this.agents.task[at]] = at;
    }
  }

  /** Finds the slices of every task. @param {number} tasks how many there are */
  joinSlices(tasks) {
    const { task, start, end } = this.cores;
    const none = () => new Int32Array(tasks).fill(-1);
    const first = (this.firstSlice = this.lastSlice = this.nameSlice = none());
    // Where every task has one slice that is the first, the last and the only one.
    const several = task.length > tasks;
    if (several) [this.lastSlice, this.nameSlice] = [none(), none()];
    for (let at = 0; at < task.length; at++) {
      const of = task[at];
      if (of < 0) continue;
      if (first[of] < 0 || start[at] < start[first[of]]) first[of] = at;
      if (!several) continue;
      if (this.lastSlice[of] < 0 || end[at] > end[this.lastSlice[of]]) this.lastSlice[of] = at;
      if (this.nameSlice[of] < 0) this.nameSlice[of] = at;
    }
  }

  /** @param {Reader | null} gap @param {Reader | null} value */
  readCurves(gap, value) {
    if (!gap || !value) return;
    let total = 0;
    for (const curve of this.meta.curves) {
      curve.from = total;
      curve.to = total += curve.count;
    }
    const [times, values] = [new Float64Array(total), new Float64Array(total)];
    for (const curve of this.meta.curves) {
      let time = -this.meta.zero_ns;
      // The run's own peak may lie between two samples.
      curve.peak ??= 0;
      for (let at = curve.from; at < curve.to; at++) {
        times[at] = time += gap.next();
        values[at] = value.delta() - 1;
        curve.peak = Math.max(curve.peak, values[at]);
      }
    }
    const points = { time: times, value: values, tree: new MaxTree(values, null) };
    for (const curve of this.meta.curves) curve.points = points;
    this.curves = this.meta.curves;
  }

  /** @param {Reader | null} gap @param {Reader | null} length */
  readGaps(gap, length) {
    let total = 0;
    const lanes = [...this.meta.cores, ...this.meta.agents];
    for (const lane of lanes) {
      lane.gapFrom = total;
      lane.gapTo = total += gap && length ? (lane.gaps ?? 0) : 0;
    }
    this.gapStart = new Float64Array(total);
    this.gapEnd = new Float64Array(total);
    if (!gap || !length) return;
    for (const lane of lanes) {
      let last = -this.meta.zero_ns;
      for (let at = lane.gapFrom; at < lane.gapTo; at++) {
        this.gapStart[at] = last + gap.signed();
        this.gapEnd[at] = last = this.gapStart[at] + length.next();
      }
    }
    this.gapLengths = new MaxTree(this.gapEnd, this.gapStart);
  }

  /** Says that a lane waited for the recorder at a time; empty if it did not. @param {Lane} lane @param {number} time */
  gapAt(lane, time) {
    const at = lowerBound(this.gapEnd, lane.gapFrom, lane.gapTo, time);
    if (!(at < lane.gapTo) || this.gapStart[at] > time) return "";
    return `waited ${duration(this.gapEnd[at] - this.gapStart[at])} for the recorder`;
  }

  /** Whether a slice is one of those that recovered records tell of. Those are the last of a lane; on a core what had not ended is
   * among them, which no record tells of. @param {Slices} slices @param {Lane} lane @param {number} at */
  isRecovered(slices, lane, at) {
    return at >= lane.to - lane.recovered && at < lane.to && !(slices === this.cores && this.open.has(at));
  }

  /** What a curve stood at; null where nothing is known, as after its last point. @param {Curve} curve @param {number} time */
  curveAt(curve, time) {
    const at = lowerBound(curve.points.time, curve.from, curve.to, time + 1e-6);
    if (at === curve.to && !(time <= curve.points.time[curve.to - 1])) return null;
    const value = at > curve.from ? curve.points.value[at - 1] : 0;
    return value < 0 ? null : value;
  }

  /** Where the run begins and ends on the axis. @returns {[number, number]} */
  extent() {
    return [-this.meta.zero_ns, Math.max(this.meta.end_ns - this.meta.zero_ns, 1)];
  }

  /** The group of a task, and where that begins. @param {number} task @returns {{ group: Group, from: number }} */
  groupOf(task) {
    let from = 0;
    for (const group of this.meta.groups) {
      if (task < from + group.count) return { group, from };
      from += group.count;
    }
    return { group: { prefix: "?", suffix: "", round: 0, ring: null, count: 0 }, from };
  }

  /** A task as people write it. @param {number} task */
  label(task) {
    const { group } = this.groupOf(task);
    return `${group.prefix}${this.local[task]}${group.suffix}`;
  }

  /** Where the first task of a group lies that is not numbered below. @param {number} from @param {number} to @param {number} local */
  firstOf(from, to, local) {
    while (from < to) {
      const middle = (from + to) >> 1;
      if (this.local[middle] < local) from = middle + 1;
      else to = middle;
    }
    return from;
  }

  /** The task of this name; -1 if nothing tells of it, undefined if it is no name of a task. @param {string} text @returns {number | undefined} */
  find(text) {
    const match = /^([^@]*[^@\d])(\d+)(@\d+)?$/.exec(text.trim().toLowerCase());
    if (!match || !this.meta.groups.some((group) => group.prefix === match[1])) return /^r\d+t\d+(@\d+)?$/i.test(text.trim()) ? -1 : undefined;
    return this.taskAt(match[1], match[3] ?? "", Number(match[2]));
  }

  /** @param {string} prefix @param {string} suffix @param {number} local */
  taskAt(prefix, suffix, local) {
    let from = 0;
    for (const group of this.meta.groups) {
      if (group.prefix === prefix && group.suffix === suffix) {
        const at = this.firstOf(from, from + group.count, local);
        return at < from + group.count && this.local[at] === local ? at : -1;
      }
      from += group.count;
    }
    return -1;
  }

  /** Every slice of a task on cores. @param {number} task @returns {number[]} */
  slicesOf(task) {
    const first = this.nameSlice[task];
    if (first < 0) return [];
    const found = [];
    for (let at = first; at < this.cores.task.length; at++) if (this.cores.task[at] === task) found.push(at);
    return found;
  }

  /** The lane of a slice on a core. @param {number} slice @returns {Lane} */
  laneOf(slice) {
    const lanes = this.cores.lanes;
    let low = 0;
    let high = lanes.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (lanes[middle].to <= slice) low = middle + 1;
      else high = middle;
    }
    return lanes[low];
  }

  /** The tasks with one of these names among those that no slice tells of. @param {Set<number> | null} names @returns {number[]} */
  named(names) {
    const found = [];
    if (names) for (let task = 0; task < this.taskName.length; task++) if (this.nameSlice[task] < 0 && names.has(this.taskName[task])) found.push(task);
    return found;
  }

  /** The number of the name of what a task ran, or would have. @param {number} task */
  nameNumber(task) {
    const slice = this.nameSlice[task];
    return slice >= 0 ? this.cores.name[slice] : (this.taskName[task] ?? 0);
  }

  /** What a task ran, or would have. @param {number} task */
  nameOf(task) {
    return this.meta.names[this.nameNumber(task)];
  }
}
