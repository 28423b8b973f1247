// The page as a whole: what is in sight, what is selected, and when to draw.

class App {
  /** @param {Run} run @param {Run | null} before the run that it is compared with */
  constructor(run, before) {
    const get = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));
    this.run = run;
    this.before = before;
    gutter = before ? WIDE_GUTTER : GUTTER;
    this.stage = get("stage");
    this.findBox = /** @type {HTMLInputElement} */ (get("find"));
    this.status = get("status");
    /** What the line says while there is nothing else to say. */
    this.hints = [...this.status.childNodes];
    this.tip = get("tip");
    const [extent, other] = [run.extent(), (before ?? run).extent()];
    this.view = new TimeWindow(Math.min(extent[0], other[0]), Math.max(extent[1], other[1]));
    this.painter = new Painter(/** @type {HTMLCanvasElement} */ (get("lanes")));
    this.overlay = new Overlay(/** @type {HTMLCanvasElement} */ (get("over")));
    this.palette = new Palette(this.stage, run, run);
    this.paletteBefore = before ? new Palette(this.stage, before, run) : this.palette;
    this.folded = true;
    this.scroll = 0;
    /** @type {Row[]} */
    this.rows = [];
    this.rowsHeight = 0;
    /** What is lit while all else is faded. @type {Slices | null} */
    this.lit = null;
    /** @type {Slices | null} */
    this.litAgents = null;
    /** The same of the run before. @type {Slices | null} */
    this.litBefore = null;
    /** @type {Slices | null} */
    this.litAgentsBefore = null;
    /** Where the pointer is, or was last; left of all times while there was none. */
    this.pointer = 0;
    /** When the wheel was turned last, in ms. */
    this.lastWheel = -Infinity;
    /** @type {Slices | null} */
    this.hoverSlices = null;
    this.hover = -1;
    /** @type {Slices | null} */
    this.selectedSlices = null;
    this.selectedSlice = -1;
    this.selectedTask = -1;
    /** @type {Edge[]} */
    this.producers = [];
    /** @type {Edge[]} */
    this.consumers = [];
    /** @type {number[]} */
    this.markers = [];
    /** @type {{ x0: number, y0: number, x1: number, y1: number } | null} */
    this.box = null;
    this.pathOn = run.path.length > 0;
    /** Whether nothing has a time: there is no axis then. */
    this.isEmpty = [run, before ?? run].every((of) => of.cores.start.length + of.agents.start.length + of.curves.length === 0);
    this.filter = new Filter(this);
    /** What the panel and the neighbourhood say while no task is selected. @type {[HTMLElement, Node[]][]} */
    this.unselected = ["task", "neighbours"].map((id) => {
      const place = /** @type {HTMLElement} */ (document.getElementById(id));
      return [place, [...place.childNodes]];
    });
    /** @type {CounterCurves | null} */
    this.counterCurves = null;
    this.asked = false;
    this.linkTimer = 0;
  }

  start() {
    this.overlay.survey(this.run, this.view);
    this.relayout();
    new ResizeObserver(() => this.resize()).observe(this.stage);
    this.resize();
    listen(this);
    this.wire();
    this.readLink();
    addEventListener("hashchange", () => this.readLink());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.recolour());
  }

  /** The page's own buttons and tables. */
  wire() {
    const on = (/** @type {string} */ id, /** @type {() => void} */ act) => document.getElementById(id)?.addEventListener("click", act);
    on("theme", () => this.toggleTheme());
    on("keys", () => this.showKeys());
    on("fold", () => this.toggleFold());
    const path = /** @type {HTMLButtonElement | null} */ (document.getElementById("path"));
    if (path) path.disabled = this.run.path.length === 0;
    path?.setAttribute("aria-pressed", String(this.pathOn));
    on("path", () => this.togglePath());
    on("png", () => savePicture(this));
    on("chrome", () => {
      const text = chromeJson(this.run, this.before, this.view.from, this.view.to);
      download(`${this.fileName()}.json`, new Blob([text], { type: "application/json" }));
    });
    this.findBox.addEventListener("input", () => this.search());
    const toTimeline = () => document.getElementById("timeline")?.scrollIntoView({ block: "start" });
    for (const row of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("tr[data-name], tr[data-node]"))) {
      const { name = "", node } = row.dataset;
      row.querySelector("button.name")?.addEventListener("click", () => {
        if (row.closest("#function-table")) this.filter.chooseFunction(name);
        else this.filter.chooseScope(node ?? `site ${name}`);
        toTimeline();
      });
    }
    for (const button of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("button[data-task]"))) {
      button.addEventListener("click", () => {
        const task = this.run.find(button.dataset.task ?? "") ?? -1;
        if (task < 0) return this.say(`${button.dataset.task} did not run.`);
        this.goTo(task);
        toTimeline();
      });
    }
    for (const link of /** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll("nav a"))) {
      link.addEventListener("click", (event) => {
        // The address keeps the window and the task.
        event.preventDefault();
        document.querySelector(link.hash)?.scrollIntoView();
      });
    }
    const header = document.querySelector("header");
    // What is gone to is not hidden by it, on however many lines it is.
    if (header) new ResizeObserver(() => document.documentElement.style.setProperty("scroll-padding-top", `${header.offsetHeight + 10}px`)).observe(header);
    this.colourTable();
  }

  /** Gives each function of the table the colour that it has in the swimlane. */
  colourTable() {
    for (const row of document.querySelectorAll("#function-table tr[data-name]")) {
      const at = this.run.meta.names.indexOf(/** @type {HTMLElement} */ (row).dataset.name ?? "");
      const swatch = /** @type {HTMLElement | null} */ (row.querySelector("s"));
      if (swatch && at >= 0) swatch.style.background = `var(--k${colourOf(this.run, "", at)})`;
    }
  }

  relayout() {
    const { rows, height } = layOut(this.run, this.before, this.folded, this.stage.clientHeight - TOP);
    this.rows = rows;
    this.rowsHeight = height;
    this.scrollTo(this.scroll);
  }

  resize() {
    const { clientWidth, clientHeight } = this.stage;
    const scale = devicePixelRatio || 1;
    this.painter.resize(clientWidth, clientHeight, scale);
    this.overlay.resize(clientWidth, clientHeight, scale);
    this.relayout();
    // At once: a resized canvas is blank until it is drawn.
    this.drawNow();
  }

  recolour() {
    this.palette = new Palette(this.stage, this.run, this.run);
    this.paletteBefore = this.before ? new Palette(this.stage, this.before, this.run) : this.palette;
    this.redraw();
  }

  redraw() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => this.drawNow());
  }

  drawNow() {
    this.asked = false;
    this.painter.paint(this);
    this.overlay.draw(this);
  }

  get isFiltered() {
    return this.lit !== null;
  }

  /** What of a run's slices is lit; null if nothing is filtered. @param {Slices} slices */
  litOf(slices) {
    const { run, before } = this;
    if (slices === run.cores) return this.lit;
    if (slices === run.agents) return this.litAgents;
    return slices === before?.cores ? this.litBefore : this.litAgentsBefore;
  }

  /** After every change of what is in sight. */
  changed() {
    this.box = null;
    this.tip.hidden = true;
    this.redraw();
    clearTimeout(this.linkTimer);
    this.linkTimer = setTimeout(() => this.writeLink(), 250);
  }

  /** @param {number} x */
  timeAt(x) {
    return this.overlay.time(this.view, Math.max(gutter, Math.min(this.overlay.right(), x)));
  }

  canScroll() {
    return this.rowsHeight + TOP > this.overlay.height;
  }

  /** @param {number} to */
  scrollTo(to) {
    this.scroll = Math.max(0, Math.min(to, this.rowsHeight + TOP - this.overlay.height));
  }

  /** @param {number} by */
  scrollBy(by) {
    this.scrollTo(this.scroll + by);
    this.redraw();
  }

  /** @param {number} factor */
  zoom(factor) {
    this.view.remember();
    this.view.zoom(factor, this.timeAt(this.pointer > gutter ? this.pointer : this.overlay.width / 2));
    this.changed();
  }

  /** @param {number} share */
  pan(share) {
    this.view.remember();
    this.view.pan(share);
    this.changed();
  }

  fit() {
    this.view.remember();
    if (this.selectedTask >= 0 && this.view.isWhole()) return this.goTo(this.selectedTask);
    this.view.set(this.view.least, this.view.most);
    this.changed();
  }

  /** @param {boolean} forward */
  travel(forward) {
    this.view.travel(forward);
    this.changed();
  }

  /** @param {number} y @returns {Row | undefined} */
  rowAt(y) {
    const inside = y - TOP + this.scroll;
    return y < TOP ? undefined : this.rows.find((row) => inside >= row.y - 1 && inside <= row.y + row.height + 1);
  }

  /** @param {Slices} slices @param {number} at @returns {Row | undefined} */
  rowOf(slices, at) {
    return this.rows.find((row) => row.slices === slices && row.lane && at >= row.lane.from && at < row.lane.to);
  }

  /** The slice under a point: the innermost there, or the longest within two pixels. @param {number} x @param {Row | undefined} row */
  sliceAt(x, row) {
    if (!row?.slices || !row.lane || x < gutter) return -1;
    const time = this.timeAt(x);
    const exact = row.slices.at(row.lane, time);
    if (exact >= 0) return exact;
    const reach = ((this.view.to - this.view.from) / this.overlay.width) * 2;
    const from = lowerBound(row.slices.start, row.lane.from, row.lane.to, time - reach);
    const to = lowerBound(row.slices.start, from, row.lane.to, time + reach);
    return to > from ? row.slices.lengths.longest(from, to) : -1;
  }

  /** @param {number} x @param {number} y */
  point(x, y) {
    const row = this.rowAt(y);
    const at = this.sliceAt(x, row);
    if (at !== this.hover || row?.slices !== this.hoverSlices) {
      this.hover = at;
      this.hoverSlices = row?.slices ?? null;
      this.redraw();
    }
    const words = this.wordsAt(row, at, x);
    this.tip.hidden = !words;
    if (!words) return;
    this.tip.textContent = words;
    this.tip.style.left = `${Math.min(x + 14, this.overlay.width - 350)}px`;
    this.tip.style.top = `${Math.min(y + 14, this.overlay.height - 76)}px`;
  }

  /** What the tip says. @param {Row | undefined} row @param {number} at the slice there; -1 if there is none @param {number} x */
  wordsAt(row, at, x) {
    if (!row || x <= gutter) return "";
    if (row.curve) return this.describeCurve(row, row.curve, x);
    const wait = row.lane ? row.run.gapAt(row.lane, this.timeAt(x)) : "";
    const words = at >= 0 ? this.describe(row, at) : wait && this.laneName(row);
    return wait ? `${words}\n${wait}` : words;
  }

  /** @param {Row} row @param {number} at */
  describe(row, at) {
    const slices = /** @type {Slices} */ (row.slices);
    const { run } = row;
    const task = slices.task[at] >= 0 ? ` · ${run.label(slices.task[at])}` : "";
    const open = (slices === run.cores ? run.open : run.openAgents).has(at) ? "\nhad not ended" : "";
    const recovered = row.lane && run.isRecovered(slices, row.lane, at) ? `\n${RECOVERED}` : "";
    const length = duration(slices.end[at] - slices.start[at]);
    const from = axisTime(slices.start[at], fineness(slices.start[at], slices.end[at]));
    return `${run.meta.names[slices.name[at]]}${task}\n${length} from ${from}\n${this.laneName(row)}${open}${recovered}`;
  }

  /** A lane as the tip calls it: of two runs it says which. @param {Row} row */
  laneName(row) {
    const prefix = !this.before ? "" : row.run === this.run ? "now: " : "before: ";
    return `${prefix}${row.lane?.name}`;
  }

  /** @param {Row} row @param {Curve} curve @param {number} x */
  describeCurve(row, curve, x) {
    const value = row.run.curveAt(curve, this.timeAt(x));
    const scale = `The row is as high as the peak, ${amount(curve.peak, curve.unit)}.`;
    if (value === null) return `${row.label}: not known after the last sample of its round\n${scale}`;
    const now = amount(value, curve.unit);
    const unit = curve.unit === "bytes" ? "" : ` ${curve.unit}`;
    const of = curve.capacity > 0 ? ` of ${amount(curve.capacity, curve.unit)}${unit}` : "";
    return `${row.label}: ${now}${of}\n${scale}`;
  }

  leave() {
    this.tip.hidden = true;
    this.hover = -1;
    this.redraw();
  }

  /** @param {number} x @param {number} y */
  click(x, y) {
    this.box = null;
    const row = this.rowAt(y);
    const at = this.sliceAt(x, row);
    if (at < 0 || !row?.slices) return this.redraw();
    const task = row.slices.task[at];
    if (task >= 0 && row.run === this.run) this.select(task, row.slices, at);
    else this.say(this.describe(row, at).replaceAll("\n", " · "));
    this.changed();
  }

  /** @param {number} task @param {Slices} [slices] @param {number} [at] */
  select(task, slices, at) {
    this.selectedTask = task;
    this.selectedSlices = slices ?? this.run.cores;
    this.selectedSlice = at ?? this.run.firstSlice[task];
    this.producers = this.run.graph.producers(task);
    this.consumers = this.run.graph.consumers(task);
    showTask(this);
    this.redraw();
  }

  /** Selects a task and brings it into sight. @param {number} task */
  goTo(task) {
    this.select(task);
    if (this.run.firstSlice[task] >= 0) this.show(this.run.cores, this.run.firstSlice[task]);
  }

  /** Brings a slice into sight, with its surroundings. @param {Slices} slices @param {number} at */
  show(slices, at) {
    const [start, end] = [slices.start[at], slices.end[at]];
    const span = Math.max((end - start) * 12, LEAST_SPAN * 10);
    this.view.remember();
    const now = this.view.to - this.view.from;
    // A window that is closer already is only moved.
    const wide = now < span * 8 && now > (end - start) * 1.5 ? now : span;
    this.view.set((start + end) / 2 - wide / 2, (start + end) / 2 + wide / 2);
    this.reveal(slices, at);
    this.changed();
  }

  /** Scrolls the row of a slice into sight. @param {Slices} slices @param {number} at */
  reveal(slices, at) {
    const row = this.rowOf(slices, at);
    if (row && (row.y < this.scroll || row.y + row.height > this.scroll + this.overlay.height - TOP)) this.scrollTo(row.y - 80);
  }

  /** Brings a stretch of time into sight, with a little air. @param {number} from @param {number} to */
  showTime(from, to) {
    const air = Math.max((to - from) * 0.05, LEAST_SPAN);
    this.view.remember();
    this.view.set(from - air, to + air);
    this.changed();
  }

  search() {
    const task = this.filter.apply();
    if (task !== undefined && task >= 0) this.goTo(task);
  }

  nextMatch() {
    const middle = (this.view.from + this.view.to) / 2;
    for (const [part, all] of /** @type {[Slices | null, Slices][]} */ ([[this.lit, this.run.cores], [this.litAgents, this.run.agents]])) {
      if (!part || part.start.length === 0 || !part.origin) continue;
      const next = nextSlice(part, middle + 1e-6);
      const at = part.origin[next];
      if (all === this.run.cores && all.task[at] >= 0) this.select(all.task[at], all, at);
      return this.show(all, at);
    }
    const untimed = this.run.named(lookUp(this.run, this.findBox.value).names);
    if (untimed.length > 0) this.select(untimed.find((task) => task > this.selectedTask) ?? untimed[0]);
  }

  /** What is told of single tasks has been read. */
  detailed() {
    if (this.selectedTask >= 0) this.select(this.selectedTask, this.selectedSlices ?? undefined, this.selectedSlice);
    // Which tasks a scope has is among it.
    if (this.lit || this.filter.byScope.value) this.filter.apply();
    const list = /** @type {HTMLSelectElement | null} */ (document.getElementById("by-counter"));
    if (!this.run.counters || !list) return;
    this.counterCurves = new CounterCurves(this.run, this.run.counters);
    this.chooseCounters(list.value);
    // A simulator counts nothing: a row of zeros would only take room.
    if (this.run.counted.every((curve) => curve.peak === 0)) this.chooseCounters((list.value = ""));
  }

  /** Shows counters under the axis. @param {string} choice */
  chooseCounters(choice) {
    this.run.counted = this.counterCurves?.chosen(choice) ?? [];
    this.relayout();
    this.redraw();
  }

  showBox() {
    if (!this.box) return;
    const { x0, y0, x1, y1 } = this.box;
    const [from, to] = [this.timeAt(Math.min(x0, x1)), this.timeAt(Math.max(x0, x1))];
    const top = Math.min(y0, y1) - TOP + this.scroll;
    const totals = boxTotals(this.rows, this.run, top, top + Math.abs(y1 - y0), from, to);
    this.say(boxWords(totals, to - from));
  }

  zoomToBox() {
    if (!this.box) return;
    const [from, to] = [this.timeAt(Math.min(this.box.x0, this.box.x1)), this.timeAt(Math.max(this.box.x0, this.box.x1))];
    this.view.set(from, to);
    this.changed();
  }

  /** Where the next marker goes: under the pointer. Where there was none yet, to the ends of the selected slice, or to the middle. */
  markTime() {
    if (this.pointer > gutter) return this.timeAt(this.pointer);
    const { selectedSlices: slices, selectedSlice: at } = this;
    if (slices && at >= 0) return this.markers.length === 1 ? slices.end[at] : slices.start[at];
    return (this.view.from + this.view.to) / 2;
  }

  mark() {
    if (this.markers.length >= 2) this.markers = [];
    this.markers.push(this.markTime());
    const [first, second] = this.markers;
    this.say(second === undefined ? `Marker 1 at ${duration(first)}. M again puts the second.` : `${duration(Math.abs(second - first))} between the markers`);
    this.redraw();
  }

  /** @param {string} words */
  say(words) {
    if (words) this.status.textContent = words;
    else this.status.replaceChildren(...this.hints);
    // Totals of many kinds are longer than the line.
    this.status.title = words;
  }

  clear() {
    this.markers = [];
    this.box = null;
    this.lit = this.litAgents = this.litBefore = this.litAgentsBefore = null;
    this.selectedTask = this.selectedSlice = -1;
    this.producers = [];
    this.consumers = [];
    for (const [place, nodes] of this.unselected) place.replaceChildren(...nodes);
    this.filter.clear();
    this.say("");
    this.changed();
  }

  togglePath() {
    this.pathOn = !this.pathOn && this.run.path.length > 0;
    document.getElementById("path")?.setAttribute("aria-pressed", String(this.pathOn));
    this.redraw();
  }

  toggleFold() {
    this.folded = !this.folded;
    document.getElementById("fold")?.setAttribute("aria-pressed", String(this.folded));
    this.relayout();
    this.redraw();
  }

  toggleTheme() {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    this.recolour();
  }

  showKeys() {
    const rows = KEYS.map(([keys, words]) => element("tr", {}, element("td", {}, ...keys.flatMap((key) => [element("kbd", {}, key), " "])), element("td", {}, words)));
    const mouse = element("p", { class: "soft" }, "Wheel zooms, drag pans, Shift and drag selects a box, dragging on the axis zooms to it, the minimap moves the window.");
    const marks = element("p", { class: "soft" }, "Hatched: waited for the recorder. Dark stripes: had not ended. Underlined in amber: recovered after the run had ended.");
    const dialog = /** @type {HTMLDialogElement} */ (element("dialog", {}, element("h3", {}, "Keys"), element("table", {}, ...rows), mouse, marks));
    dialog.addEventListener("close", () => dialog.remove());
    dialog.addEventListener("click", () => dialog.close());
    document.body.append(dialog);
    dialog.showModal();
  }

  fileName() {
    return `${this.run.meta.title || "run"}-window`.replace(/[^\w.-]+/g, "_");
  }

  /** The window and the task as the address has them. */
  writeLink() {
    const task = this.selectedTask >= 0 ? `&task=${this.run.label(this.selectedTask)}` : "";
    const link = `#t=${this.view.from.toFixed(1)},${this.view.to.toFixed(1)}${task}`;
    history.replaceState(null, "", link);
  }

  readLink() {
    const link = new URLSearchParams(location.hash.slice(1));
    const name = link.get("task") ?? "";
    const task = this.run.find(name) ?? -1;
    const [from, to] = (link.get("t") ?? "").split(",").map(Number);
    const isWindow = to > from && Number.isFinite(to - from);
    if (name && task < 0) this.say(`${name} did not run.`);
    if (task >= 0) {
      if (isWindow) this.select(task);
      else this.goTo(task);
      this.reveal(this.run.cores, this.run.firstSlice[task]);
    }
    if (isWindow) {
      this.view.remember();
      this.view.set(from, to);
      this.redraw();
    }
  }
}

/** Unpacks the page's columns and starts. The blocks are taken out as they are read: they are large. */
async function main() {
  const [meta, metaBefore] = JSON.parse(document.getElementById("meta")?.textContent ?? "[]");
  const column = async (/** @type {string} */ name) => {
    const block = document.getElementById(name);
    if (!block) return null;
    const bytes = await inflate(fromBase64(block.textContent ?? ""));
    block.remove();
    return new Reader(bytes);
  };
  const run = await Run.load(meta, column);
  const before = metaBefore ? await Run.load(metaBefore, (name) => column(`before.${name}`)) : null;
  const app = new App(run, before);
  app.start();
  document.documentElement.dataset.ready = "true";
  // The picture first: a frame is drawn before the rest is read.
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
  await run.loadDetails(column);
  // Of the run before only scopes are asked about, by the filter.
  if (before) before.scopes = await Scopes.load(before, (name) => column(`before.${name}`));
  app.detailed();
  document.documentElement.dataset.whole = "true";
}

main();
