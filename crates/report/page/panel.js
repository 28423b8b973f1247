// The panel of the selected task. Names are set as text, never as markup.

/** @param {string} tag @param {Record<string, string>} attributes @param {(Node | string)[]} children @returns {HTMLElement} */
function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** Which colour a cause has: the same as in the bar of the makespan. @type {Record<string, number>} */
const CAUSES = { "front gap": 8, submit: 4, "ring wait": 5, "recorder wait": 6, "data wait": 1, "core wait": 2, scheduling: 3 };

/** What a task waited for before it started, cause after cause, as `plimsoll critical-path --task` divides it.
 * @param {Run} run @param {number} task @returns {{ cause: string, ns: number, part: number }[]} */
function waitsOf(run, task) {
  return run.waits.map(({ cause, ns }) => ({ cause, ns: ns.at(task), part: CAUSES[cause] ?? 8 })).filter((wait) => wait.ns > 0);
}

/** The facts behind a task's start, in words. @param {Run} run @param {number} task */
function startWords(run, task) {
  const submit = run.submit[task];
  const slice = run.firstSlice[task];
  if (slice < 0) return "";
  const words = [];
  // How long an open slice is says nothing about how close together these times are.
  const mark = run.open.has(slice) ? 100 : fineness(run.cores.start[slice], run.cores.end[slice]);
  // A number and its unit stay on one line.
  const at = (/** @type {number} */ time, fine = mark) => axisTime(time, fine).replace(" ", "\u00a0");
  if (submit >= 0) {
    const [from, to] = [run.agents.start[submit], run.agents.end[submit]];
    words.push(`Its submit took from ${at(from, fineness(from, to))} to ${at(to, fineness(from, to))}.`);
  }
  if (run.dispatch) words.push(`Dispatched at ${at(run.cores.start[slice] - run.dispatch.at(slice))}.`);
  const last = run.lastSlice[task];
  if (run.finish && !run.open.has(last)) words.push(`Seen finished at ${at(run.cores.end[last] + run.finish.at(last))}.`);
  words.push("Times count from the first kernel's start.");
  if (run.meta.nodes === 0) words.push(run.meta.no_dependencies);
  return words.join(" ");
}

/** Where and when a task ran: from the start of its first execution to the end of its last. @param {Run} run @param {number} task */
function spanWords(run, task) {
  const slices = run.slicesOf(task);
  const first = run.firstSlice[task];
  const [start, end] = [run.cores.start[first], run.cores.end[run.lastSlice[task]]];
  const lane = run.laneOf(first);
  const where = slices.length > 1 ? `${slices.length} executions, first on ${lane.name}` : lane.name;
  const mark = fineness(start, run.cores.end[first]);
  const length = duration(end - start);
  const isOpen = slices.some((at) => run.open.has(at));
  const until = isOpen ? `still running ${length} later, when the recording ended` : `${axisTime(end, mark)} · ${length}`;
  const recovered = slices.some((at) => run.isRecovered(run.cores, run.laneOf(at), at)) ? ` · ${RECOVERED}` : "";
  return `${where} · ${axisTime(start, mark)} → ${until}${recovered}`;
}

/** Why a task has no slice. @param {Run} run */
function withoutTimes(run) {
  if (run.cores.start.length === 0) return "No time of it was recorded, so nothing tells when it ran and what it waited for.";
  return run.meta.incomplete ? "No execution of it is among the records, and records are missing: it may have run." : "It did not run.";
}

/** @param {App} app */
function showTask(app) {
  const { run, selectedTask: task } = app;
  const panel = /** @type {HTMLElement} */ (document.getElementById("task"));
  if (run.firstSlice[task] < 0) {
    const untimed = element("p", { class: "soft" }, withoutTimes(run));
    panel.replaceChildren(element("h4", {}, `${run.nameOf(task)} · ${run.label(task)}`), untimed, ...argumentParts(run, task), ...capturedParts(run, task), ...counterParts(run, task));
    return showNeighbours(app);
  }
  const title = element("h4", {}, `${run.nameOf(task)} · ${run.label(task)}`);
  const onPath = run.path.includes(task) ? " · on the critical path" : "";
  const times = `${spanWords(run, task)}${onPath}`;
  const parts = [title, element("p", { class: "soft" }, times), element("h3", {}, "Why it started only then"), ...whyParts(app, task)];
  parts.push(...argumentParts(run, task), ...capturedParts(run, task), ...counterParts(run, task));
  panel.replaceChildren(...parts);
  showNeighbours(app);
}

/** A small waterfall of its waits, and what they follow from. @param {App} app @param {number} task @returns {HTMLElement[]} */
function whyParts(app, task) {
  const { run } = app;
  const waits = waitsOf(run, task);
  const why = element("div", { class: "why", id: "why" });
  const whole = Math.max(1, waits.reduce((sum, wait) => sum + wait.ns, 0));
  let from = 0;
  for (const wait of waits) {
    why.append(wait.cause, bar(from / whole, wait.ns / whole, wait.part), element("span", { class: "num", "data-v": String(wait.ns) }, duration(wait.ns)));
    from += wait.ns;
  }
  const nothing = run.waits.length ? "It waited for nothing that the capture can tell. " : "What tasks waited for is not on the page. ";
  const words = element("p", { class: "soft" }, waits.length || !run.hasDetails ? "" : nothing);
  const back = run.follows?.at(task) ?? 0;
  if (back !== 0) words.append("It followed ", taskLink(app, task - back), ". ");
  words.append(startWords(run, task));
  const sites = run.scopes?.around(task) ?? [];
  if (sites.length) words.append(" Submitted in the scope at ", element("code", {}, sites[sites.length - 1]), sites.length > 1 ? `, ${sites.length} deep.` : ".");
  return [why, words];
}

/** What it was given. @param {Run} run @param {number} task @returns {HTMLElement[]} */
function argumentParts(run, task) {
  const heading = element("h3", {}, "Arguments");
  if (!run.arguments) {
    const gone = run.meta.left_out.includes("arguments") ? "Left out to keep the page small; plimsoll deps has them." : run.meta.no_dependencies.replace(/^Dependencies were/, "They were") || "Not recorded.";
    return run.hasDetails ? [heading, element("p", { class: "soft" }, gone)] : [];
  }
  const rows = run.arguments.of(task).map(({ mode, type, where }) => element("tr", {}, element("td", {}, mode), element("td", {}, element("code", {}, type), " ", element("span", { class: "soft" }, where))));
  if (rows.length === 0) return [heading, element("p", { class: "soft" }, "None that dependencies are inferred from.")];
  return [heading, element("table", { class: "arguments", id: "arguments" }, ...rows)];
}

/** What it saw and made, if that was captured. @param {Run} run @param {number} task @returns {HTMLElement[]} */
function capturedParts(run, task) {
  if (run.meta.captured_in_all === 0) return [];
  const heading = element("h3", {}, "Captured values");
  const rows = (run.captured?.of(task) ?? []).map((row) => {
    const stage = row.stage === "after_completion" ? "after" : "before";
    const values = (row.values ?? []).map(figure).join("  ");
    const more = row.stats && row.values && row.stats.count > row.values.length ? " …" : "";
    const held = element("td", {}, capturedWords(row));
    if (values) held.append(element("code", { class: "values" }, values + more));
    return element("tr", {}, element("td", {}, `${row.index} ${stage}`), held);
  });
  if (rows.length) return [heading, element("table", { class: "arguments", id: "captured" }, ...rows)];
  const whole = run.meta.captured === run.meta.captured_in_all && run.captured;
  return [heading, element("p", { class: "soft" }, whole ? "Nothing of this task was captured." : "Not on the page; plimsoll args has them.")];
}

/** What hardware counted of it, and what rings held when it started. @param {Run} run @param {number} task @returns {HTMLElement[]} */
function counterParts(run, task) {
  const parts = [];
  for (const { core, counts } of run.counters?.of(task) ?? []) {
    const rows = counts.map(({ name, value }) => element("tr", {}, element("td", {}, name), element("td", { class: "n", "data-v": String(value) }, count(value))));
    parts.push(element("h3", {}, `Counters on core ${core}`), element("table", { class: "arguments counters" }, ...rows));
  }
  if (run.meta.left_out.includes("counters")) parts.push(element("p", { class: "soft" }, "Counters were left out to keep the page small."));
  const slice = run.firstSlice[task];
  if (slice < 0) return parts;
  return [...parts, ...inUse(run, run.cores.start[slice])];
}

/** What rings held when a task started. @param {Run} run @param {number} start @returns {HTMLElement[]} */
function inUse(run, start) {
  if (run.curves.length === 0) return [];
  const heading = element("h3", {}, "In use when it started");
  const rows = run.curves.flatMap((curve) => {
    const value = run.curveAt(curve, start);
    if (value === null) return [];
    return [element("tr", {}, element("td", {}, curve.name), element("td", { class: "n", "data-v": String(value) }, `${amount(value, curve.unit)} of ${amount(curve.capacity, curve.unit)}`))];
  });
  if (rows.length) return [heading, element("table", { class: "arguments", id: "in-use" }, ...rows)];
  return [heading, element("p", { class: "soft" }, "Not known: the last sample of what is in use was taken before it started.")];
}

/** @param {number} from @param {number} length @param {number} part @returns {SVGElement} */
function bar(from, length, part) {
  const rect = drawn("rect", { x: from * 100, y: 0, width: Math.max(1.5, length * 100), height: 10, class: `p${part}` });
  return drawn("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none" }, rect);
}
