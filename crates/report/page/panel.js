// The panels beside and below the swimlane: the selected task, and its neighbours. Names are set as text, never as markup.

/** @param {string} tag @param {Record<string, string>} attributes @param {(Node | string)[]} children @returns {HTMLElement} */
function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** Why one task waits for another, by number, as crates/trace/src/deps.rs numbers it. */
const WHY = ["said so", "uses the buffer it made", "uses what it wrote", "overwrites what it reads", "listed in a file"];

/** @param {number} why */
function whyWords(why) {
  const words = WHY[why & 7] ?? "waits for it";
  const isFalse = (why & 7) === 3;
  return { words: why & 8 ? `${words}, in part` : words, isFalse };
}

/** @param {App} app @param {number} task @returns {HTMLElement} */
function taskLink(app, task) {
  const slice = app.run.firstSlice[task];
  const name = slice >= 0 ? app.run.meta.names[app.run.cores.name[slice]] : "";
  const link = element("button", { type: "button", class: "link" }, `${name} ${app.run.label(task)}`);
  link.addEventListener("click", () => app.goTo(task));
  return link;
}

/** Which colour a cause has: the same as in the bar of the makespan. @type {Record<string, number>} */
const CAUSES = { submit: 4, "ring wait": 5, "recorder wait": 6, "data wait": 1, "core wait": 2, scheduling: 3 };

/** What a task waited for before it started, cause after cause, as `plimsoll critical-path --task` divides it.
 * @param {Run} run @param {number} task @returns {{ cause: string, ns: number, part: number }[]} */
function waitsOf(run, task) {
  return run.waits.map(({ cause, ns }) => ({ cause, ns: ns[task], part: CAUSES[cause] ?? 7 })).filter((wait) => wait.ns > 0);
}

/** The facts behind a task's start, in words. @param {Run} run @param {number} task */
function startWords(run, task) {
  const submit = run.submit[task];
  const words = [];
  if (submit >= 0) words.push(`Submitted at ${duration(run.agents.end[submit])}.`);
  if (run.dispatch) words.push(`Dispatched at ${duration(run.dispatch[run.firstSlice[task]])}.`);
  if (run.meta.nodes === 0) words.push("Dependencies were not recorded (--dep-gen).");
  return words.join(" ");
}

/** @param {App} app */
function showTask(app) {
  const { run, selectedTask: task } = app;
  const panel = /** @type {HTMLElement} */ (document.getElementById("task"));
  const slices = run.slicesOf(task);
  const slice = slices[0];
  const { start, end, name } = run.cores;
  const title = element("h4", {}, `${run.meta.names[name[slice]]} · ${run.label(task)}`);
  const isOpen = run.open.has(slice);
  const lane = run.laneOf(slice);
  const recovered = lane.recovered > 0 && slice >= lane.to - lane.recovered ? " · recovered after the run had died" : "";
  const where = slices.length > 1 ? `${slices.length} executions, first on ${lane.name}` : lane.name;
  const times = `${where} · ${duration(start[slice])} → ${isOpen ? "still running" : duration(end[slice])} · ${duration(end[slice] - start[slice])}${recovered}`;
  const waits = waitsOf(run, task);
  const why = element("div", { class: "why", id: "why" });
  const whole = Math.max(1, waits.reduce((sum, wait) => sum + wait.ns, 0));
  let from = 0;
  for (const wait of waits) {
    why.append(wait.cause, bar(from / whole, wait.ns / whole, wait.part), element("span", { class: "num", "data-v": String(wait.ns) }, duration(wait.ns)));
    from += wait.ns;
  }
  const words = element("p", { class: "soft" }, waits.length ? "" : "It waited for nothing that the capture can tell. ");
  if (run.follows[task] >= 0) words.append("It followed ", taskLink(app, run.follows[task]), ". ");
  words.append(startWords(run, task));
  panel.replaceChildren(title, element("p", { class: "soft" }, times), element("h3", {}, "Why it started only then"), why, words);
  showNeighbours(app);
}

/** @param {number} from @param {number} length @param {number} part @returns {SVGElement} */
function bar(from, length, part) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 100 10");
  svg.setAttribute("preserveAspectRatio", "none");
  const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  for (const [key, value] of Object.entries({ x: from * 100, y: 0, width: Math.max(1.5, length * 100), height: 10 })) rect.setAttribute(key, String(value));
  rect.setAttribute("class", `p${part}`);
  svg.append(rect);
  return svg;
}

/** @param {App} app */
function showNeighbours(app) {
  const target = /** @type {HTMLElement} */ (document.getElementById("neighbours"));
  const side = (/** @type {string} */ heading, /** @type {{ task: number, why: number }[]} */ edges) => {
    const list = element("ul", {});
    for (const edge of edges.slice(0, 200)) {
      const { words, isFalse } = whyWords(edge.why);
      const item = element("li", {}, taskLink(app, edge.task), element("span", { class: "soft" }, ` · ${words}`));
      if (isFalse) item.append(element("span", { class: "bad" }, " · another buffer would remove it"));
      list.append(item);
    }
    if (edges.length > 200) list.append(element("li", { class: "soft" }, `and ${count(edges.length - 200)} more`));
    return element("div", {}, element("h4", {}, `${heading} (${count(edges.length)})`), list);
  };
  const known = app.run.meta.nodes > 0 ? "" : "Dependencies were not recorded. Run it with --dep-gen or --profile.";
  const task = element("p", { class: "soft" }, `Of ${app.run.label(app.selectedTask)}. ${known}`);
  target.replaceChildren(task, element("div", { class: "near" }, side("Waited for", app.producers), side("Waited for by", app.consumers)));
}
