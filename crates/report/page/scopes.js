// Scopes as they nest, and which tasks were submitted in each.

/** @typedef {{ site: string, parent: number | null, depth: number, ring: number }} ScopeNode */

class Scopes {
  /** @param {Run} run */
  constructor(run) {
    this.run = run;
    const { spans } = run.meta;
    /** The node of each scope, in order of opening. */
    this.node = new Uint32Array(spans);
    /** The first task of each, as its ring numbers it. */
    this.first = new Float64Array(spans);
    /** How many tasks its ring was given; Infinity if it never ended. */
    this.count = new Float64Array(spans);
    /** The slice of each among the agents'; -1 where scopes have no times. */
    this.slice = new Int32Array(spans).fill(-1);
    /** The node that each task was submitted in; -1 if none is known. @type {Int32Array | null} */
    this.tasks = null;
  }

  /** @param {Run} run @param {Source} column @returns {Promise<Scopes | null>} */
  static async load(run, column) {
    const [node, first, count] = await Promise.all(["span.node", "span.first", "span.count"].map(column));
    if (!node || !first || !count) return null;
    const scopes = new Scopes(run);
    for (let span = 0; span < run.meta.spans; span++) {
      scopes.node[span] = node.delta();
      scopes.first[span] = first.delta();
      const many = count.next();
      scopes.count[span] = many > 0 ? many - 1 : Infinity;
    }
    scopes.joinLanes();
    return scopes;
  }

  /** Lanes hold the scopes of one depth in the order of opening. */
  joinLanes() {
    const lanes = this.run.agents.lanes.filter((lane) => lane.kind === "scope");
    const depths = [...new Set(this.run.meta.scopes.map((node) => node.depth))].sort((a, b) => a - b);
    const next = new Map(depths.map((depth, at) => [depth, lanes[at]?.from ?? -1]));
    for (let span = 0; span < this.node.length; span++) {
      const { depth } = this.run.meta.scopes[this.node[span]];
      const at = next.get(depth) ?? -1;
      if (at < 0) continue;
      this.slice[span] = at;
      next.set(depth, at + 1);
    }
  }

  /** The node of every task. Scopes come in order of opening, so what lies deeper comes later and stands. @returns {Int32Array} */
  ofTasks() {
    if (this.tasks) return this.tasks;
    const { run } = this;
    const tasks = (this.tasks = new Int32Array(run.local.length).fill(-1));
    /** @type {Map<string, { from: number, to: number }>} */
    const groups = new Map();
    let from = 0;
    for (const group of run.meta.groups) {
      groups.set(`${group.round},${group.ring}`, { from, to: from + group.count });
      from += group.count;
    }
    let round = -1;
    for (let span = 0; span < this.node.length; span++) {
      const { parent, ring } = run.meta.scopes[this.node[span]];
      // Every outermost scope begins a round, and with it the numbers of its rings.
      if (parent === null) round++;
      const group = groups.get(`${round},${ring}`);
      if (!group || this.count[span] === 0) continue;
      const begin = run.firstOf(group.from, group.to, this.first[span]);
      const end = run.firstOf(begin, group.to, this.first[span] + this.count[span]);
      tasks.fill(this.node[span], begin, end);
    }
    return tasks;
  }

  /** A node and all that lie in it. @param {number} node @returns {Set<number>} */
  within(node) {
    return this.inside((at) => at === node);
  }

  /** The nodes of these sites, and all that lie in them. @param {Set<string>} sites @returns {Set<number>} */
  ofSites(sites) {
    return this.inside((at) => sites.has(this.run.meta.scopes[at].site));
  }

  /** The nodes for which `is` holds, and all that lie in them. @param {(node: number) => boolean} is @returns {Set<number>} */
  inside(is) {
    /** @type {Set<number>} */
    const inside = new Set();
    // A node stands behind the one that it lies in.
    this.run.meta.scopes.forEach(({ parent }, at) => {
      if (is(at) || (parent !== null && inside.has(parent))) inside.add(at);
    });
    return inside;
  }

  /** Which tasks were submitted in some nodes, as 1 for each. @param {Set<number>} nodes @returns {Uint8Array} */
  tasksIn(nodes) {
    return Uint8Array.from(this.ofTasks(), (node) => (nodes.has(node) ? 1 : 0));
  }

  /** The sites from the outermost scope to the one that a task was submitted in. @param {number} task @returns {string[]} */
  around(task) {
    /** @type {string[]} */
    const sites = [];
    for (let at = this.ofTasks()[task] ?? -1; at >= 0; at = this.run.meta.scopes[at].parent ?? -1) sites.unshift(this.run.meta.scopes[at].site);
    return sites;
  }
}
