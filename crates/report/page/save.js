// Saves what is in sight: as Chrome JSON, and as a picture.

/** What kind of time a run's is, for what leaves the page. @param {Run} run */
function timeWords(run) {
  const { virtual_time, emulated, arch } = run.meta;
  return virtual_time ? `virtual time: ${arch} is a model, nothing was measured` : emulated ? `emulated: ${arch} on this machine's threads` : "";
}

/** The slices in sight as Chrome's trace events; those of the run before are processes of their own.
 * @param {Run} run @param {Run | null} before @param {number} from @param {number} to @returns {string} */
function chromeJson(run, before, from, to) {
  const time = timeWords(run);
  const otherData = { program: run.meta.title, zero: "first kernel start", ...(time && { time }) };
  const traceEvents = [...chromeEvents(run, "", 1, from, to), ...(before ? chromeEvents(before, "before: ", 3, from, to) : [])];
  return JSON.stringify({ displayTimeUnit: "ns", otherData, traceEvents });
}

/** @param {Run} run @param {string} prefix of its processes @param {number} first the number of its first process @param {number} from @param {number} to @returns {object[]} */
function chromeEvents(run, prefix, first, from, to) {
  /** @type {object[]} */
  const events = [];
  const time = timeWords(run);
  for (const [process, slices, kind] of /** @type {[number, Slices, string][]} */ ([[first, run.agents, "runtime"], [first + 1, run.cores, "cores"]])) {
    const name = prefix + kind;
    events.push({ ph: "M", name: "process_name", pid: process, args: { name: time ? `${name} (${time})` : name } });
    slices.lanes.forEach((lane, thread) => {
      events.push({ ph: "M", name: "thread_name", pid: process, tid: thread, args: { name: lane.name } });
      for (let at = slices.ends.firstAbove(lane.from, lane.to, from); at < lane.to && slices.start[at] < to; at++) {
        if (slices.end[at] <= from) continue;
        const task = slices.task[at] >= 0 ? { task: run.label(slices.task[at]) } : {};
        const event = { ph: "X", name: run.meta.names[slices.name[at]], pid: process, tid: thread };
        events.push({ ...event, ts: slices.start[at] / 1000, dur: (slices.end[at] - slices.start[at]) / 1000, args: task });
      }
    });
  }
  return events;
}

/** @param {string} name @param {Blob} blob */
function download(name, blob) {
  const address = URL.createObjectURL(blob);
  const link = element("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** The height of the line below a saved picture, in CSS pixels. */
const CAPTION = 24;

/** Saves the swimlane as it is in sight, with a line below it that says what it shows. @param {App} app */
function savePicture(app) {
  const { canvas, scale } = app.painter;
  const { view, run } = app;
  const both = /** @type {HTMLCanvasElement} */ (element("canvas", {}));
  both.width = canvas.width;
  both.height = canvas.height + Math.round(CAPTION * scale);
  const context = /** @type {CanvasRenderingContext2D} */ (both.getContext("2d"));
  context.fillStyle = app.palette.css.panel;
  context.fillRect(0, 0, both.width, both.height);
  context.drawImage(canvas, 0, 0);
  context.drawImage(app.overlay.canvas, 0, 0);
  const mark = fineness(view.from, view.to);
  const words = [run.meta.title, `${axisTime(view.from, mark)} to ${axisTime(view.to, mark)} from the first kernel's start`, timeWords(run)];
  context.scale(scale, scale);
  context.font = "11px system-ui, sans-serif";
  context.fillStyle = app.palette.css.soft;
  context.fillText(words.filter(Boolean).join(" · "), 14, canvas.height / scale + 15);
  both.toBlob((blob) => blob && download(`${app.fileName()}.png`, blob));
}
