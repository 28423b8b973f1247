// Who waits for whom. Where dependencies were left out of the page, those along the critical path are still known.

/** @typedef {{ task: number, why: number }} Edge a task at the other end, -1 if it did not run in that round of a prebuilt graph, and why there is an edge, as crates/report/src/page/edges.rs numbers it */

class Graph {
  /** @param {Run} run */
  constructor(run) {
    this.run = run;
    this.nodes = 0;
    /** The task of each node. */
    this.nodeTask = new Int32Array(0);
    this.nodeOf = new Int32Array(0);
    this.predFrom = new Uint32Array(1);
    this.preds = new Uint32Array(0);
    this.predWhy = new Uint8Array(0);
    this.succFrom = new Uint32Array(1);
    this.succs = new Uint32Array(0);
  }

  /** @param {Run} run @param {Source} column @returns {Promise<Graph>} */
  static async load(run, column) {
    const graph = new Graph(run);
    const [place, edges, back, why] = await Promise.all(["node.task", "edge.count", "edge.back", "edge.why"].map(column));
    if (place && edges && back && why) graph.read(place, edges, back, why);
    return graph;
  }

  /** @param {Reader} place @param {Reader} edges @param {Reader} back @param {Reader} why */
  read(place, edges, back, why) {
    const nodes = (this.nodes = this.run.meta.nodes);
    this.nodeOf = new Int32Array(this.run.local.length).fill(-1);
    this.nodeTask = new Int32Array(nodes);
    for (let node = 0; node < nodes; node++) {
      const task = (this.nodeTask[node] = place.delta() - 1);
      if (task >= 0) this.nodeOf[task] = node;
    }
    this.predFrom = new Uint32Array(nodes + 1);
    this.succFrom = new Uint32Array(nodes + 1);
    this.preds = new Uint32Array(this.run.meta.edges);
    this.predWhy = new Uint8Array(this.run.meta.edges);
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

  /** A task's node: a prebuilt graph is recorded in the first round and holds for all. @param {number} task */
  node(task) {
    const own = this.nodeOf[task];
    if (own === undefined || own >= 0) return own ?? -1;
    const { group } = this.run.groupOf(task);
    const first = this.run.taskAt(group.prefix, "", this.run.local[task]);
    return first < 0 ? -1 : this.nodeOf[first];
  }

  /** A node's task in the round of another task; -1 if nothing tells of it in that round. @param {number} node @param {string} suffix of the round */
  taskOf(node, suffix) {
    const own = this.nodeTask[node];
    if (own < 0) return -1;
    const { group } = this.run.groupOf(own);
    return group.suffix === suffix ? own : this.run.taskAt(group.prefix, suffix, this.run.local[own]);
  }

  /** Whom a task waited for. @param {number} task @returns {Edge[]} */
  producers(task) {
    if (this.nodes === 0) return this.alongPath(task, -1);
    const node = this.node(task);
    if (node < 0) return [];
    const { suffix } = this.run.groupOf(task).group;
    const found = [];
    for (let at = this.predFrom[node]; at < this.predFrom[node + 1]; at++) {
      found.push({ task: this.taskOf(this.preds[at], suffix), why: this.predWhy[at] });
    }
    return found;
  }

  /** Who waited for a task. @param {number} task @returns {Edge[]} */
  consumers(task) {
    if (this.nodes === 0) return this.alongPath(task, 1);
    const node = this.node(task);
    if (node < 0) return [];
    const { suffix } = this.run.groupOf(task).group;
    const found = [];
    for (let at = this.succFrom[node]; at < this.succFrom[node + 1]; at++) {
      const succ = this.succs[at];
      let why = 0;
      for (let edge = this.predFrom[succ]; edge < this.predFrom[succ + 1]; edge++) {
        if (this.preds[edge] === node) why = this.predWhy[edge];
      }
      found.push({ task: this.taskOf(succ, suffix), why });
    }
    return found;
  }

  /** The neighbour on the critical path, if one waits for the other. @param {number} task @param {-1 | 1} step @returns {Edge[]} */
  alongPath(task, step) {
    const { path, pathWhy } = this.run;
    const at = path.indexOf(task);
    const why = at < 0 ? 0 : (pathWhy[step < 0 ? at : at + 1] ?? 0);
    return why > 0 ? [{ task: path[at + step], why: why - 1 }] : [];
  }
}
