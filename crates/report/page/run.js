// The run, unpacked into typed arrays. Times are nanoseconds since the first kernel's start.

/**
 * @typedef {{ name: string, kind: string, class: string, core: number | null, count: number, recovered: number, from: number, to: number }} Lane
 * @typedef {{ name: string, unit: string, capacity: number, count: number, from: number, to: number, peak: number }} Curve
 * @typedef {{ title: string, zero_ns: number, end_ns: number, makespan_ns: number, workers: boolean, names: string[], kernels: number,
 *   groups: [number, number, number][], cores: Lane[], agents: Lane[], open: number[], open_agents: number[], lifecycle: boolean,
 *   nodes: number, edges: number, curves: Curve[], path: number, waits: string[] }} Meta
 * @typedef {(name: string) => Promise<Reader | null>} Source
 */

/** Slices of many lanes as columns, by lane and by start within a lane. */
class Slices {
  /** @param {Float64Array} start @param {Float64Array} end @param {Uint32Array} name @param {Int32Array} task @param {Lane[]} lanes */
  constructor(start, end, name, task, lanes) {
    this.start = start;
    this.end = end;
    this.name = name;
    this.task = task;
    this.lanes = lanes;
    this.lengths = new MaxTree(end, start);
    this.ends = new MaxTree(end, null);
    /** Where each slice lies among all; null if these are all. @type {Uint32Array | null} */
    this.origin = null;
  }

  /** The slices for which `keep` holds, with trees of their own. @param {(at: number) => boolean} keep @returns {Slices} */
  only(keep) {
    /** @type {number[]} */
    const kept = [];
    const lanes = this.lanes.map((lane) => {
      const from = kept.length;
      for (let at = lane.from; at < lane.to; at++) if (keep(at)) kept.push(at);
      return { ...lane, from, to: kept.length };
    });
    const origin = Uint32Array.from(kept);
    const part = new Slices(
      Float64Array.from(origin, (at) => this.start[at]),
      Float64Array.from(origin, (at) => this.end[at]),
      Uint32Array.from(origin, (at) => this.name[at]),
      Int32Array.from(origin, (at) => this.task[at]),
      lanes,
    );
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
  const start = new Float64Array(total);
  const end = new Float64Array(total);
  const names = new Uint32Array(total);
  const tasks = new Int32Array(total);
  if (gap && length && name && task) {
    for (const lane of lanes) {
      let last = -zero;
      for (let at = lane.from; at < lane.to; at++) {
        start[at] = last + gap.signed();
        end[at] = last = start[at] + length.next();
        names[at] = name.next();
        tasks[at] = task.delta() - 1;
      }
    }
  }
  return new Slices(start, end, names, tasks, lanes);
}

/** Everything about a run. */
class Run {
  /** @param {Meta} meta @param {Source} column @returns {Promise<Run>} */
  static async load(meta, column) {
    const run = new Run(meta);
    const of = (/** @type {string[]} */ ...names) => Promise.all(names.map(column));
    const [gap, length, name, task] = await of("core.gap", "core.length", "core.name", "core.task");
    run.cores = readSlices(meta.cores, gap, length, name, task, meta.zero_ns);
    const [agentGap, agentLength, agentName, agentTask] = await of("agent.gap", "agent.length", "agent.name", "agent.task");
    run.agents = readSlices(meta.agents, agentGap, agentLength, agentName, agentTask, meta.zero_ns);
    const [local, dispatch, finish] = await of("task.local", "core.dispatch", "core.finish");
    run.readTasks(local);
    run.dispatch = run.readOffsets(dispatch, run.cores.start, -1);
    run.finish = run.readOffsets(finish, run.cores.end, 1);
    const [place, edges, back, why] = await of("node.task", "edge.count", "edge.back", "edge.why");
    run.readEdges(place, edges, back, why);
    const [curveGap, curveValue] = await of("curve.gap", "curve.value");
    run.readCurves(curveGap, curveValue);
    const [path, pred] = await of("path.task", "wait.pred");
    run.readPath(path);
    const waits = await of(...meta.waits.map((cause) => `wait.${cause.split(" ")[0]}`));
    run.readWaits(pred, waits);
    return run;
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
    /** The first and the last slice of each task's: most tasks have one. */
    this.firstSlice = new Int32Array(0);
    /** @type {Float64Array | null} */
    this.dispatch = null;
    /** @type {Float64Array | null} */
    this.finish = null;
    /** The submit of each task, among the agents' slices; -1 if it was not recorded. */
    this.submit = new Int32Array(0);
    this.nodeTask = new Int32Array(0);
    this.nodeOf = new Int32Array(0);
    this.predFrom = new Uint32Array(1);
    this.preds = new Uint32Array(0);
    this.predWhy = new Uint8Array(0);
    this.succFrom = new Uint32Array(1);
    this.succs = new Uint32Array(0);
    this.curveTime = new Float64Array(0);
    this.curveValue = new Float64Array(0);
    this.curveTree = new MaxTree(this.curveValue, null);
    /** @type {Curve[]} */
    this.curves = [];
    /** The tasks of the critical path, first to last. */
    this.path = new Int32Array(0);
    /** Their slices. @type {Slices | null} */
    this.pathSlices = null;
    /** Whom each task followed; -1 if nobody. */
    this.follows = new Int32Array(0);
    /** What each task waited for, by cause, in order of time. @type {{ cause: string, ns: Float64Array }[]} */
    this.waits = [];
  }

  /** @param {Reader | null} column */
  readPath(column) {
    if (!column) return;
    this.path = Int32Array.from({ length: this.meta.path }, () => column.delta() - 1);
    const lit = new Uint8Array(this.local.length);
    for (const task of this.path) lit[task] = 1;
    this.pathSlices = this.cores.only((at) => lit[this.cores.task[at]] === 1);
  }

  /** @param {Reader | null} pred @param {(Reader | null)[]} waits */
  readWaits(pred, waits) {
    if (!pred) return;
    const tasks = this.local.length;
    this.follows = new Int32Array(tasks);
    for (let task = 0; task < tasks; task++) {
      const back = pred.signed();
      this.follows[task] = back === 0 ? -1 : task - back;
    }
    waits.forEach((column, at) => {
      if (!column) return;
      const ns = new Float64Array(tasks);
      for (let task = 0; task < tasks; task++) ns[task] = column.next();
      this.waits.push({ cause: this.meta.waits[at], ns });
    });
  }

  /** @param {Reader | null} local */
  readTasks(local) {
    let total = 0;
    for (const group of this.meta.groups) total += group[2];
    this.local = new Uint32Array(total);
    if (local) for (let at = 0; at < total; at++) this.local[at] = local.delta();
    this.firstSlice = new Int32Array(total).fill(-1);
    const task = this.cores.task;
    for (let at = task.length - 1; at >= 0; at--) if (task[at] >= 0) this.firstSlice[task[at]] = at;
    this.submit = new Int32Array(total).fill(-1);
    for (const lane of this.agents.lanes) {
      if (lane.kind !== "orchestrator") continue;
      for (let at = lane.from; at < lane.to; at++) if (this.agents.task[at] >= 0) this.submit[this.agents.task[at]] = at;
    }
  }

  /** @param {Reader | null} column @param {Float64Array} base @param {number} sign @returns {Float64Array | null} */
  readOffsets(column, base, sign) {
    if (!column) return null;
    const times = new Float64Array(base.length);
    for (let at = 0; at < times.length; at++) times[at] = base[at] + sign * column.signed();
    return times;
  }

  /** @param {Reader | null} place @param {Reader | null} edges @param {Reader | null} back @param {Reader | null} why */
  readEdges(place, edges, back, why) {
    this.nodeOf = new Int32Array(this.local.length).fill(-1);
    if (!place || !edges || !back || !why) return;
    const nodes = this.meta.nodes;
    this.nodeTask = new Int32Array(nodes);
    for (let node = 0; node < nodes; node++) {
      const task = (this.nodeTask[node] = place.delta() - 1);
      if (task >= 0) this.nodeOf[task] = node;
    }
    this.predFrom = new Uint32Array(nodes + 1);
    this.succFrom = new Uint32Array(nodes + 1);
    this.preds = new Uint32Array(this.meta.edges);
    this.predWhy = new Uint8Array(this.meta.edges);
    let next = 0;
    for (let node = 0; node < nodes; node++) {
      for (let left = edges.next(); left > 0; left--) {
        const pred = node - back.signed();
        this.preds[next] = pred;
        this.predWhy[next++] = why.next();
        this.succFrom[pred + 1]++;
      }
      this.predFrom[node + 1] = next;
    }
    for (let node = 0; node < nodes; node++) this.succFrom[node + 1] += this.succFrom[node];
    this.succs = new Uint32Array(next);
    const fill = this.succFrom.slice();
    for (let node = 0; node < nodes; node++) {
      for (let at = this.predFrom[node]; at < this.predFrom[node + 1]; at++) this.succs[fill[this.preds[at]]++] = node;
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
    this.curveTime = new Float64Array(total);
    this.curveValue = new Float64Array(total);
    for (const curve of this.meta.curves) {
      let time = -this.meta.zero_ns;
      curve.peak = 0;
      for (let at = curve.from; at < curve.to; at++) {
        this.curveTime[at] = time += gap.next();
        this.curveValue[at] = value.delta();
        curve.peak = Math.max(curve.peak, this.curveValue[at]);
      }
    }
    this.curveTree = new MaxTree(this.curveValue, null);
    this.curves = this.meta.curves;
  }

  /** Where the run begins and ends on the axis. @returns {[number, number]} */
  extent() {
    return [-this.meta.zero_ns, Math.max(this.meta.end_ns - this.meta.zero_ns, 1)];
  }

  /** Round, ring and number of a task. @param {number} task */
  identity(task) {
    let from = 0;
    for (const [round, ring, many] of this.meta.groups) {
      if (task < from + many) return { round, ring, local: this.local[task] };
      from += many;
    }
    return { round: 0, ring: 0, local: 0 };
  }

  /** A task as people write it. @param {number} task */
  label(task) {
    const { round, ring, local } = this.identity(task);
    return `r${ring}t${local}${round > 0 ? `@${round}` : ""}`;
  }

  /** The task with this round, ring and number; -1 if it did not run. @param {number} round @param {number} ring @param {number} local */
  find(round, ring, local) {
    let from = 0;
    for (const [ofRound, ofRing, many] of this.meta.groups) {
      if (ofRound === round && ofRing === ring) {
        let low = from;
        let high = from + many;
        while (low < high) {
          const middle = (low + high) >> 1;
          if (this.local[middle] < local) low = middle + 1;
          else high = middle;
        }
        return low < from + many && this.local[low] === local ? low : -1;
      }
      from += many;
    }
    return -1;
  }

  /** Every slice of a task on cores. @param {number} task @returns {number[]} */
  slicesOf(task) {
    const first = this.firstSlice[task];
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

  /** Its place in the graph: a prebuilt graph is recorded in the first round and holds for all. @param {number} task */
  node(task) {
    const own = this.nodeOf[task];
    if (own === undefined || own >= 0) return own ?? -1;
    const { ring, local } = this.identity(task);
    const first = this.find(0, ring, local);
    return first < 0 ? -1 : this.nodeOf[first];
  }

  /** A node's task in a round. @param {number} node @param {number} round */
  taskOf(node, round) {
    const own = this.nodeTask[node];
    if (own < 0) return -1;
    const { round: ownRound, ring, local } = this.identity(own);
    return ownRound === round ? own : this.find(round, ring, local);
  }

  /** Whom a task waited for. @param {number} task @returns {{ task: number, why: number }[]} */
  producers(task) {
    const node = this.node(task);
    if (node < 0) return [];
    const { round } = this.identity(task);
    const found = [];
    for (let at = this.predFrom[node]; at < this.predFrom[node + 1]; at++) {
      found.push({ task: this.taskOf(this.preds[at], round), why: this.predWhy[at] });
    }
    return found.filter((edge) => edge.task >= 0);
  }

  /** Who waited for a task. @param {number} task @returns {{ task: number, why: number }[]} */
  consumers(task) {
    const node = this.node(task);
    if (node < 0) return [];
    const { round } = this.identity(task);
    const found = [];
    for (let at = this.succFrom[node]; at < this.succFrom[node + 1]; at++) {
      const succ = this.succs[at];
      let why = 0;
      for (let edge = this.predFrom[succ]; edge < this.predFrom[succ + 1]; edge++) {
        if (this.preds[edge] === node) why = this.predWhy[edge];
      }
      found.push({ task: this.taskOf(succ, round), why });
    }
    return found.filter((edge) => edge.task >= 0);
  }
}
