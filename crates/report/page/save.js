// Saves what is in sight: as Chrome JSON, and as a picture.

/** The slices in sight as Chrome's trace events. @param {Run} run @param {number} from @param {number} to @returns {string} */
function chromeJson(run, from, to) {
  /** @type {object[]} */
  const events = [];
  for (const [process, slices] of /** @type {[number, Slices][]} */ ([[1, run.agents], [2, run.cores]])) {
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
  return JSON.stringify({ displayTimeUnit: "ns", traceEvents: events });
}

/** @param {string} name @param {Blob} blob */
function download(name, blob) {
  const address = URL.createObjectURL(blob);
  const link = element("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** @param {App} app */
function savePicture(app) {
  const { canvas } = app.painter;
  const both = /** @type {HTMLCanvasElement} */ (element("canvas", {}));
  both.width = canvas.width;
  both.height = canvas.height;
  const context = /** @type {CanvasRenderingContext2D} */ (both.getContext("2d"));
  context.drawImage(canvas, 0, 0);
  context.drawImage(app.overlay.canvas, 0, 0);
  both.toBlob((blob) => blob && download(`${app.fileName()}.png`, blob));
}
