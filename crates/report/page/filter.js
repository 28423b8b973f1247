// What is lit while all else is faded: by a searched text, a function, a scope, a ring.

/** @typedef {{ names: Set<number> | null, tasks: Uint8Array | null }} Searched the names that a searched text is in, null if there is no text;
 * and the tasks, as 1 for each, that it finds besides */

class Filter {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    const select = (/** @type {string} */ id) => /** @type {HTMLSelectElement} */ (document.getElementById(id));
    this.byFunction = select("by-function");
    this.byScope = select("by-scope");
    this.byRing = select("by-ring");
    this.found = /** @type {HTMLElement} */ (document.getElementById("found"));
    this.fill();
    for (const choice of [this.byFunction, this.byScope, this.byRing]) {
      choice.addEventListener("change", () => {
        this.apply();
        if (choice === this.byScope) this.goToScope();
      });
    }
    document.getElementById("show-all")?.addEventListener("click", () => app.clear());
  }

  /** Fills the lists with what there is to choose. */
  fill() {
    const { meta } = this.app.run;
    const add = (/** @type {HTMLSelectElement} */ list, /** @type {string} */ value, /** @type {string} */ words) => list.append(element("option", { value }, words));
    meta.names.slice(0, meta.kernels).forEach((name, at) => at > 0 && add(this.byFunction, String(at), name));
    const sites = new Map();
    for (const { site } of meta.scopes) sites.set(site, (sites.get(site) ?? 0) + 1);
    for (const [site, many] of sites) if (many > 1) add(this.byScope, `site ${site}`, `${lastOf(site)}, wherever it is`);
    meta.scopes.slice(0, 2000).forEach(({ site, depth }, at) => add(this.byScope, String(at), `${"\u00a0\u00a0".repeat(Math.min(depth, 12))}${lastOf(site)}`));
    const rings = new Set(meta.groups.map((group) => group.ring).filter((ring) => ring !== null));
    for (const ring of [...rings].sort()) add(this.byRing, String(ring), `ring ${ring}`);
    for (const list of [this.byFunction, this.byScope, this.byRing]) list.disabled = list.options.length < 2;
    // Which tasks a scope has is told by its samples, which are among what was left out.
    if (!this.byScope.disabled && meta.left_out.includes("scheduler records")) {
      this.byScope.disabled = true;
      this.byScope.title = "Which tasks a scope has was left out to keep the page small; plimsoll scopes has it.";
    }
    this.fillCounters();
  }

  /** Of a run without readings the page has no list of them. */
  fillCounters() {
    const { app } = this;
    const { meta } = app.run;
    const list = /** @type {HTMLSelectElement | null} */ (document.getElementById("by-counter"));
    if (!list) return;
    meta.ratios.forEach(([name], at) => list.append(element("option", { value: `r${at}` }, words(name))));
    meta.counted.forEach((name, at) => list.append(element("option", { value: `c${at}` }, words(name))));
    if (list.options.length > 2) list.append(element("option", { value: "all" }, "all counters"));
    list.value = meta.ratios.length ? "r0" : "c0";
    list.addEventListener("change", () => app.chooseCounters(list.value));
  }

  /** The nodes of the scopes that were chosen; null if all. A scope of the run before is one of the same site. @param {Run} run @returns {Set<number> | null} */
  nodes(run) {
    const { scopes } = run;
    const chosen = this.byScope.value;
    if (!chosen || !this.app.run.scopes) return null;
    if (!scopes) return new Set();
    const isNode = !chosen.startsWith("site ");
    if (isNode && run === this.app.run) return scopes.within(Number(chosen));
    const wanted = isNode ? this.app.run.meta.scopes[Number(chosen)].site : chosen.slice(5);
    return scopes.ofSites(new Set([wanted]));
  }

  /** Which tasks pass by ring and scope; null if all do. @param {Run} run @param {Set<number> | null} nodes @returns {Uint8Array | null} */
  tasks(run, nodes) {
    if (!this.byRing.value && !nodes) return null;
    const pass = new Uint8Array(run.local.length).fill(1);
    if (this.byRing.value) {
      let from = 0;
      for (const group of run.meta.groups) {
        if (String(group.ring) !== this.byRing.value) pass.fill(0, from, from + group.count);
        from += group.count;
      }
    }
    if (nodes && run.scopes) run.scopes.tasksIn(nodes).forEach((isIn, task) => isIn || (pass[task] = 0));
    else if (nodes) pass.fill(0);
    return pass;
  }

  /** The number that the chosen function has in a run; null if none was chosen, -1 if the run does not have it. @param {Run} run @returns {number | null} */
  kernel(run) {
    const chosen = this.byFunction.value;
    if (!chosen || run === this.app.run) return chosen ? Number(chosen) : null;
    const at = run.meta.names.indexOf(this.app.run.meta.names[Number(chosen)]);
    return at < run.meta.kernels ? at : -1;
  }

  /** What of a run passes, on cores and on the other lanes; null where all does. @param {Run} run @param {Set<number> | null} names @returns {[Slices | null, Slices | null]} */
  litIn(run, names) {
    const nodes = this.nodes(run);
    const tasks = this.tasks(run, nodes);
    const kernel = this.kernel(run);
    if (names === null && kernel === null && tasks === null) return [null, null];
    const searched = { names, tasks: searchedTasks(run, names) };
    return [run.cores.only((at) => this.passes(run.cores, at, searched, kernel, tasks)), this.agents(run, searched, kernel, tasks, nodes)];
  }

  /** Lights what passes all that was chosen and searched for. */
  apply() {
    const { app } = this;
    const { run, before } = app;
    const { task, names } = lookUp(run, app.findBox.value);
    [app.lit, app.litAgents] = this.litIn(run, names);
    [app.litBefore, app.litAgentsBefore] = before && app.lit ? this.litIn(before, names && lookUp(before, app.findBox.value).names) : [null, null];
    this.say(task, names);
    app.redraw();
    return task;
  }

  /** @param {Slices} slices @param {number} at @param {Searched} searched @param {number | null} kernel @param {Uint8Array | null} tasks */
  passes(slices, at, searched, kernel, tasks) {
    const name = slices.name[at];
    return isFound(searched, name, slices.task[at]) && (kernel === null || name === kernel) && (tasks === null || tasks[slices.task[at]] === 1);
  }

  /** Submits pass with their tasks, scopes by their node, all else by its name alone.
   * @param {Run} run @param {Searched} searched @param {number | null} kernel @param {Uint8Array | null} tasks @param {Set<number> | null} nodes @returns {Slices} */
  agents(run, searched, kernel, tasks, nodes) {
    const { agents } = run;
    const inScope = new Set();
    if (nodes && run.scopes) run.scopes.node.forEach((node, span) => nodes.has(node) && inScope.add(run.scopes?.slice[span]));
    return agents.only((at) => {
      const task = agents.task[at];
      const found = isFound(searched, agents.name[at], task);
      if (inScope.has(at)) return found;
      if (task < 0) return searched.names !== null && found && kernel === null && tasks === null;
      const name = run.nameNumber(task);
      return (found || isFound(searched, name, task)) && (kernel === null || name === kernel) && (tasks === null || tasks[task] === 1);
    });
  }

  /** @param {number | undefined} task @param {Set<number> | null} names */
  say(task, names) {
    const { app } = this;
    // What was said of the last search holds for that one only.
    app.say("");
    if (task !== undefined) this.found.textContent = task >= 0 ? "1 task" : this.app.run.cores.start.length === 0 ? "is not among these tasks" : "did not run";
    else if (app.lit === null) this.found.textContent = "";
    else {
      const { lit, litAgents } = app;
      let busy = 0;
      if (lit) for (let at = 0; at < lit.start.length; at++) busy += lit.end[at] - lit.start[at];
      const named = names && litAgents ? litAgents.name.filter((name) => names.has(name)).length : 0;
      const many = lit?.start.length ?? 0;
      const untimed = app.run.named(names).length;
      const others = many && named ? `, ${count(named)} others` : "";
      const idle = untimed && (many || named) ? `, ${count(untimed)} did not run` : "";
      const all = many || named || untimed;
      this.found.textContent = all ? `${count(all)} found${others}${idle}` : "nothing found";
      if (many) app.say(`${count(many)} executions pass, ${duration(busy)} in kernels. ${this.keyOfNext()} goes to the next one.`);
    }
    this.found.title = this.found.textContent;
  }

  /** The key that goes to the next one from where the focus is: in a field letters are its own. */
  keyOfNext() {
    return isField(document.activeElement) ? "Enter" : "N";
  }

  /** Shows one function, as a click into its row does. @param {string} name */
  chooseFunction(name) {
    this.byFunction.value = String(this.app.run.meta.names.indexOf(name));
    this.apply();
  }

  /** Shows a scope: a node by its number, or all of one site. @param {string} chosen */
  chooseScope(chosen) {
    if (this.byScope.disabled) return this.app.say(this.byScope.title);
    const same = this.app.run.meta.scopes.flatMap(({ site }, at) => (`site ${site}` === chosen ? [String(at)] : []));
    this.byScope.value = same.length === 1 ? same[0] : chosen;
    this.apply();
    this.goToScope();
  }

  /** Goes to the next scope of those that were chosen: its time, and that of its tasks. */
  goToScope() {
    const { app } = this;
    const { run } = app;
    const nodes = this.byScope.value.startsWith("site ") ? this.nodes(run) : new Set([Number(this.byScope.value || -1)]);
    if (!run.scopes || !nodes) return;
    const middle = (app.view.from + app.view.to) / 2;
    let best = null;
    for (let span = 0; span < run.scopes.node.length; span++) {
      if (!nodes.has(run.scopes.node[span])) continue;
      const slice = run.scopes.slice[span];
      if (slice < 0) return this.goToLit();
      const [from, to] = [run.agents.start[slice], run.agents.end[slice]];
      best ??= { from, to };
      if (from > middle) {
        best = { from, to };
        break;
      }
    }
    if (best) app.showTime(best.from, best.to);
  }

  /** Goes to where something is lit. */
  goToLit() {
    const { lit } = this.app;
    if (!lit?.start.length) return;
    let [from, to] = [Infinity, -Infinity];
    for (let at = 0; at < lit.start.length; at++) {
      from = Math.min(from, lit.start[at]);
      to = Math.max(to, lit.end[at]);
    }
    this.app.showTime(from, to);
  }

  clear() {
    for (const list of [this.byFunction, this.byScope, this.byRing]) list.value = "";
    this.app.findBox.value = "";
    this.found.textContent = this.found.title = "";
  }
}

/** The last part of a path: lists are narrow. @param {string} site */
function lastOf(site) {
  return site.slice(site.lastIndexOf("/") + 1);
}
