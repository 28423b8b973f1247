// Mouse, touchpad and keyboard.

/** Every key and what it does; the same table is shown by `?`. @type {[string[], string, (app: App) => void][]} */
const KEYS = [
  [["w", "+", "="], "zoom in", (app) => app.zoom(0.7)],
  [["s", "-"], "zoom out", (app) => app.zoom(1 / 0.7)],
  [["a", "ArrowLeft"], "earlier", (app) => app.pan(-0.2)],
  [["d", "ArrowRight"], "later", (app) => app.pan(0.2)],
  [["ArrowUp"], "rows up", (app) => app.scrollBy(-60)],
  [["ArrowDown"], "rows down", (app) => app.scrollBy(60)],
  [["f"], "fit everything, or the selected task", (app) => app.fit()],
  [["m"], "put a marker under the pointer, or at the ends of the selected slice; two measure", (app) => app.mark()],
  [["[", "Backspace"], "back to the window before", (app) => app.travel(false)],
  [["]"], "forward again", (app) => app.travel(true)],
  [["p"], "critical path on or off", (app) => app.togglePath()],
  [["c"], "fold or unfold cores", (app) => app.toggleFold()],
  [["n"], "next match of the search", (app) => app.nextMatch()],
  [["t"], "light or dark", (app) => app.toggleTheme()],
  [["/"], "search", (app) => app.findBox.focus()],
  [["Escape"], "clear selection, markers and filter", (app) => app.clear()],
  [["?"], "show the keys", (app) => app.showKeys()],
];

/** @param {App} app */
function listen(app) {
  const stage = app.stage;
  stage.addEventListener("wheel", (event) => onWheel(app, event), { passive: false });
  stage.addEventListener("pointerdown", (event) => onDown(app, event));
  stage.addEventListener("pointermove", (event) => onMove(app, event));
  stage.addEventListener("pointerleave", () => app.leave());
  stage.addEventListener("dblclick", (event) => {
    app.view.remember();
    app.view.zoom(0.3, app.timeAt(event.offsetX));
    app.changed();
  });
  document.addEventListener("keydown", (event) => onKey(app, event));
}

/** Turns of the wheel that follow each other faster are one step of the history. In ms. */
const WHEEL_PAUSE = 400;

/** @param {App} app @param {WheelEvent} event */
function onWheel(app, event) {
  const { view } = app;
  if (event.timeStamp - app.lastWheel > WHEEL_PAUSE) view.remember();
  app.lastWheel = event.timeStamp;
  // A mouse that counts lines, and a touchpad that counts pixels, move alike.
  const unit = event.deltaMode === 1 ? 16 : 1;
  const [across, down] = [event.deltaX * unit, event.deltaY * unit];
  if (event.shiftKey || Math.abs(across) > Math.abs(down)) {
    event.preventDefault();
    view.pan(((event.shiftKey && across === 0 ? down : across) / app.overlay.width) * 1.2);
    return app.changed();
  }
  if (event.offsetX < gutter && app.canScroll()) {
    event.preventDefault();
    return app.scrollBy(down);
  }
  // Zooming out of the whole run scrolls the page instead, so that the swimlane is no trap.
  if (down > 0 && view.isWhole() && !event.ctrlKey) return;
  event.preventDefault();
  const fast = event.ctrlKey ? 0.01 : 0.0016;
  view.zoom(Math.exp(Math.max(-200, Math.min(200, down)) * fast), app.timeAt(event.offsetX));
  app.changed();
}

/** @param {App} app @param {PointerEvent} event */
function onDown(app, event) {
  if (event.button !== 0) return;
  const { view, overlay, stage } = app;
  stage.focus({ preventScroll: true });
  stage.setPointerCapture(event.pointerId);
  const from = { x: event.offsetX, y: event.offsetY, left: view.from, right: view.to, scroll: app.scroll };
  const onMinimap = from.y < MINIMAP.y + MINIMAP.height + 4 && from.x >= gutter;
  const onAxis = !onMinimap && from.y < TOP && from.x >= gutter;
  const isBox = event.shiftKey || onAxis;
  let moved = false;
  view.remember();
  const place = (/** @type {PointerEvent} */ at) => {
    if (onMinimap) {
      const share = (at.offsetX - gutter) / (overlay.right() - gutter);
      const middle = view.least + share * (view.most - view.least);
      view.set(middle - (view.to - view.from) / 2, middle + (view.to - view.from) / 2);
      return app.changed();
    }
    if (!moved && Math.hypot(at.offsetX - from.x, at.offsetY - from.y) < 4) return;
    moved = true;
    if (isBox) {
      app.box = { x0: from.x, y0: onAxis ? TOP : from.y, x1: at.offsetX, y1: onAxis ? overlay.height : at.offsetY };
      app.showBox();
      return app.redraw();
    }
    stage.classList.add("drag");
    const by = ((from.x - at.offsetX) / (overlay.right() - gutter)) * (from.right - from.left);
    view.set(from.left + by, from.right + by);
    app.scrollTo(from.scroll + from.y - at.offsetY);
    app.changed();
  };
  if (onMinimap) place(event);
  const done = (/** @type {PointerEvent} */ at) => {
    stage.removeEventListener("pointermove", place);
    stage.removeEventListener("pointerup", done);
    stage.removeEventListener("pointercancel", done);
    stage.classList.remove("drag");
    if (onAxis && moved && app.box) app.zoomToBox();
    else if (!moved && !onMinimap) app.click(at.offsetX, at.offsetY);
  };
  stage.addEventListener("pointermove", place);
  stage.addEventListener("pointerup", done);
  stage.addEventListener("pointercancel", done);
}

/** @param {App} app @param {PointerEvent} event */
function onMove(app, event) {
  app.pointer = event.offsetX;
  if (event.buttons === 0) app.point(event.offsetX, event.offsetY);
}

/** Whether letters that are typed there are its own. @param {EventTarget | null} target */
function isField(target) {
  return target instanceof HTMLInputElement || target instanceof HTMLSelectElement;
}

/** @param {App} app @param {KeyboardEvent} event */
function onKey(app, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const dialog = document.querySelector("dialog");
  if (dialog) {
    // Escape closes a dialog by itself; the other keys do nothing while it is open.
    if (event.key === "?") dialog.close();
    return;
  }
  if (isField(event.target)) {
    if (event.key === "Escape") app.stage.focus();
    if (event.key === "Enter") {
      event.preventDefault();
      app.nextMatch();
    }
    return;
  }
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  // Arrows scroll the page unless the swimlane has the focus.
  if (key.startsWith("Arrow") && document.activeElement !== app.stage) return;
  const entry = KEYS.find(([keys]) => keys.includes(key));
  if (!entry) return;
  event.preventDefault();
  entry[2](app);
}
