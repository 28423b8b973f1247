// The neighbourhood of the selected task: whom it waited for and who waited for it, drawn and listed.

/** Why one task waits for another, by number, as crates/trace/src/deps.rs numbers it. */
const WHY = ["was told to wait", "uses the buffer it made", "uses what it wrote", "overwrites what it reads", "listed in a file"];
/** What is false about a dependency, as crates/report/src/page/edges.rs numbers it. */
const FALSE = ["", "false: the parts share no byte", "false: another buffer would remove it (write after read)", "false: another buffer would remove it (write after write)"];

/** @param {number} why @returns {{ words: string, isFalse: boolean, falseWords: string }} */
function whyWords(why) {
  const words = WHY[why & 7] ?? "waits for it";
  const kind = (why >> 4) & 3;
  return { words: why & 8 ? `${words}, in part` : words, isFalse: kind > 0, falseWords: FALSE[kind] };
}

/** @param {App} app @param {number} task @returns {HTMLElement} */
function taskLink(app, task) {
  const link = element("button", { type: "button", class: "link" }, `${app.run.nameOf(task)} ${app.run.label(task)}`);
  link.addEventListener("click", () => app.goTo(task));
  return link;
}

/** @param {string} tag @param {Record<string, string | number>} attributes @param {(Node | string)[]} children @returns {SVGElement} */
function drawn(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.append(...children);
  return made;
}

/** @param {App} app */
function showNeighbours(app) {
  // Where no dependencies are known the page says so already.
  if (app.run.meta.nodes === 0) return;
  const target = /** @type {HTMLElement} */ (document.getElementById("neighbours"));
  const side = (/** @type {string} */ heading, /** @type {Edge[]} */ edges) => {
    const list = element("ul", {});
    const known = edges.filter((edge) => edge.task >= 0);
    for (const edge of known.slice(0, 200)) {
      const { words, isFalse, falseWords } = whyWords(edge.why);
      const item = element("li", {}, taskLink(app, edge.task), element("span", { class: "soft" }, ` · ${words}`));
      if (isFalse) item.append(element("span", { class: "bad" }, ` · ${falseWords}`));
      list.append(item);
    }
    if (known.length > 200) list.append(element("li", { class: "soft" }, `and ${count(known.length - 200)} more`));
    const absent = edges.length - known.length;
    if (absent > 0) list.append(element("li", { class: "soft" }, `${count(absent)} that did not run in this round`));
    return element("div", {}, element("h4", {}, `${heading} (${count(edges.length)})`), list);
  };
  const words = element("p", { class: "soft" }, `Of ${app.run.nameOf(app.selectedTask)} ${app.run.label(app.selectedTask)}. ${known(app.run)}`);
  target.replaceChildren(words, neighbourhood(app), element("div", { class: "near" }, side("Waited for", app.producers), side("Waited for by", app.consumers)));
}

/** What the page knows of dependencies. @param {Run} run */
function known(run) {
  if (run.hasDetails && run.graph.nodes === 0) return "To keep the page small, only dependencies along the critical path are on it.";
  return "";
}

/** Most boxes of one side; where there are more tasks, the last box counts those that are only listed. */
const MOST_DRAWN = 8;

/** The tasks of one side that are drawn, the one that the task followed first, and how many are not.
 * @param {Edge[]} edges @param {number} followed -1 if there is none @returns {{ shown: Edge[], more: number }} */
function drawnEdges(edges, followed) {
  edges = edges.filter((edge) => edge.task >= 0);
  const first = edges.filter((edge) => edge.task === followed);
  const ordered = [...first, ...edges.filter((edge) => edge.task !== followed)];
  const shown = ordered.length > MOST_DRAWN ? ordered.slice(0, MOST_DRAWN - 1) : ordered;
  return { shown, more: ordered.length - shown.length };
}

/** The task between its producers and its consumers. What data does not need is dashed. @param {App} app @returns {SVGElement} */
function neighbourhood(app) {
  const [width, row, box] = [900, 30, 230];
  const back = app.run.follows?.at(app.selectedTask) ?? 0;
  const sides = [drawnEdges(app.producers, back !== 0 ? app.selectedTask - back : -1), drawnEdges(app.consumers, -1)];
  const height = Math.max(2, ...sides.map(({ shown, more }) => shown.length + Math.min(1, more))) * row + 8;
  const svg = drawn("svg", { class: "neighbourhood", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "The selected task between those it waited for and those that waited for it; the lists below name them all" });
  const middle = height / 2;
  const centre = (width - box) / 2;
  const place = (/** @type {number} */ at, /** @type {number} */ many) => middle + (at - (many - 1) / 2) * row;
  sides.forEach(({ shown, more }, after) => {
    const boxes = shown.length + Math.min(1, more);
    if (more > 0) svg.append(moreBox(more, after ? width - box : 0, place(boxes - 1, boxes), box));
    shown.forEach((edge, at) => {
      const y = place(at, boxes);
      const [from, to] = after ? [centre + box, width - box] : [box, centre];
      const [fromY, toY] = after ? [middle, y] : [y, middle];
      const bend = (to - from) / 2;
      const { words, isFalse, falseWords } = whyWords(edge.why);
      const line = drawn("path", { class: isFalse ? "edge false" : "edge", d: `M${from} ${fromY}C${from + bend} ${fromY} ${to - bend} ${toY} ${to} ${toY}` });
      line.append(drawn("title", {}, isFalse ? falseWords : words));
      svg.append(line, taskBox(app, edge.task, after ? width - box : 0, y, box, false));
    });
  });
  svg.append(taskBox(app, app.selectedTask, centre, middle, box, true));
  return svg;
}

/** Says how many tasks are not drawn. @param {number} many @param {number} x @param {number} y @param {number} width */
function moreBox(many, x, y, width) {
  return drawn("g", { class: "more" }, drawn("rect", { x: x + 1, y: y - 12, width: width - 2, height: 24, rx: 5 }), drawn("text", { x: x + 10, y: y + 4.5 }, `+${count(many)} more, listed below`));
}

/** @param {App} app @param {number} task @param {number} x @param {number} y @param {number} width @param {boolean} isOwn */
function taskBox(app, task, x, y, width, isOwn) {
  const { run } = app;
  const name = run.nameOf(task);
  const label = run.label(task);
  const most = 28 - label.length;
  const words = `${name.length > most ? `${name.slice(0, most - 1)}…` : name} ${label}`;
  const group = drawn("g", { class: isOwn ? "task own" : "task" });
  group.append(drawn("rect", { x: x + 1, y: y - 12, width: width - 2, height: 24, rx: 5 }), drawn("text", { x: x + 10, y: y + 4.5 }, words));
  if (!isOwn) group.addEventListener("click", () => app.goTo(task));
  return group;
}
