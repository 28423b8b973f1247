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

/** The times that decided when a task started: facts of the records, in order.
 * @param {Run} run @param {number} task
 * @returns {{ stages: { name: string, from: number, to: number, part: number }[], words: string, last: number }} */
function startStory(run, task) {
  const slice = run.firstSlice[task];
  const start = run.cores.start[slice];
  const submit = run.submit[task];
  let last = -1;
  let ended = -Infinity;
  for (const { task: producer } of run.producers(task)) {
    for (const at of run.slicesOf(producer)) {
      const time = run.finish ? run.finish[at] : run.cores.end[at];
      if (time > ended) [ended, last] = [time, producer];
    }
  }
  const lane = run.laneOf(slice);
  const before = slice > lane.from ? run.cores.end[slice - 1] : -Infinity;
  const submitted = submit >= 0 ? run.agents.end[submit] : -Infinity;
  const ready = Math.max(submitted, ended);
  const dispatched = run.dispatch ? run.dispatch[slice] : -Infinity;
  /** @type {{ name: string, from: number, to: number, part: number }[]} */
  const stages = [];
  const add = (/** @type {string} */ name, /** @type {number} */ from, /** @type {number} */ to, /** @type {number} */ part) => {
    if (Number.isFinite(from) && to > from) stages.push({ name, from, to, part });
  };
  if (submit >= 0) add("submit", run.agents.start[submit], Math.min(submitted, start), 4);
  if (ended > submitted) add("data wait", submitted, Math.min(ended, start), 1);
  // Waiting for a core that was busy and waiting for the scheduler are told apart by when the core's task before ended.
  const busy = Math.min(Math.max(before, ready), run.dispatch ? Math.max(dispatched, ready) : start);
  add("core wait", ready, Math.min(busy, start), 2);
  if (run.dispatch) {
    add("scheduling", Math.max(busy, ready), Math.min(dispatched, start), 3);
    add("hand-over", Math.max(dispatched, ready), start, 7);
  } else {
    add("until start", Math.max(busy, ready), start, 3);
  }
  const words = [];
  if (submit >= 0) words.push(`Submitted at ${duration(submitted)}.`);
  if (last >= 0) words.push(`Its last producer was finished at ${duration(ended)}.`);
  else if (run.meta.nodes > 0) words.push("It waited for no other task.");
  else words.push("Dependencies were not recorded (--dep-gen).");
  return { stages, words: words.join(" "), last };
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
  const story = startStory(run, task);
  const why = element("div", { class: "why" });
  const first = story.stages.length ? story.stages[0].from : 0;
  const span = Math.max(1, start[slice] - first);
  for (const stage of story.stages) {
    why.append(stage.name, bar((stage.from - first) / span, (stage.to - stage.from) / span, stage.part), element("span", { class: "num" }, duration(stage.to - stage.from)));
  }
  const words = element("p", { class: "soft" }, `${story.words} `);
  if (story.last >= 0) words.append("Last producer: ", taskLink(app, story.last));
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
