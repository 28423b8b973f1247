// What lies over the slices: axis, names, minimap, arrows of the selected task, markers, boxes.

class Overlay {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
    this.context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    this.width = 1;
    this.height = 1;
    this.scale = 1;
    this.minimap = new Float32Array(0);
  }

  /** @param {number} width @param {number} height @param {number} scale */
  resize(width, height, scale) {
    this.width = width;
    this.height = height;
    this.scale = scale;
    this.canvas.width = Math.max(1, Math.round(width * scale));
    this.canvas.height = Math.max(1, Math.round(height * scale));
  }

  /** How busy cores were along the whole run, at most 1. @param {Run} run @param {TimeWindow} view */
  survey(run, view) {
    const bins = new Float32Array(600);
    const per = bins.length / (view.most - view.least);
    const { start, end } = run.cores;
    for (let at = 0; at < start.length; at++) {
      const from = (start[at] - view.least) * per;
      const to = (end[at] - view.least) * per;
      let bin = Math.floor(from);
      if (Math.floor(to) === bin) {
        bins[bin] += to - from;
        continue;
      }
      bins[bin] += bin + 1 - from;
      for (bin++; bin < Math.floor(to) && bin < bins.length; bin++) bins[bin] += 1;
      if (bin < bins.length) bins[bin] += to - bin;
    }
    let most = 0;
    for (const value of bins) most = Math.max(most, value);
    this.minimap = bins.map((value) => (most > 0 ? value / most : 0));
  }

  left() {
    return gutter;
  }

  right() {
    return this.width - 10;
  }

  /** @param {TimeWindow} view @param {number} time */
  x(view, time) {
    return gutter + ((time - view.from) / (view.to - view.from)) * (this.right() - gutter);
  }

  /** @param {TimeWindow} view @param {number} x */
  time(view, x) {
    return view.from + ((x - gutter) / (this.right() - gutter)) * (view.to - view.from);
  }

  /** @param {App} app */
  draw(app) {
    const context = this.context;
    context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    if (app.isEmpty) return this.drawNothing(app);
    this.drawMinimap(app);
    this.drawAxis(app);
    context.save();
    context.beginPath();
    context.rect(0, TOP, this.width, this.height - TOP);
    context.clip();
    this.drawNames(app);
    this.drawLabels(app);
    this.drawPath(app);
    this.drawSelection(app);
    context.restore();
    this.drawMarkers(app);
    this.drawBox(app);
  }

  /** Of a run without times: an axis would be one of nothing. @param {App} app */
  drawNothing(app) {
    this.context.fillStyle = app.palette.css.soft;
    this.context.textAlign = "center";
    this.context.fillText("Nothing on this page has a time: no slice and no curve to draw.", this.width / 2, this.height / 2);
    this.context.textAlign = "start";
  }

  /** @param {App} app */
  drawMinimap(app) {
    const { css } = app.palette;
    const context = this.context;
    const width = this.right() - gutter;
    context.fillStyle = css.bg;
    context.fillRect(gutter, MINIMAP.y, width, MINIMAP.height);
    context.fillStyle = css.accent;
    context.globalAlpha = 0.6;
    // One shape: bars side by side would show seams where they share a pixel.
    const bin = width / this.minimap.length;
    const bottom = MINIMAP.y + MINIMAP.height;
    context.beginPath();
    context.moveTo(gutter, bottom);
    for (let at = 0; at < this.minimap.length; at++) {
      const share = this.minimap[at];
      const y = bottom - (share > 0 ? Math.max(1, share * (MINIMAP.height - 2)) : 0);
      context.lineTo(gutter + at * bin, y);
      context.lineTo(gutter + (at + 1) * bin, y);
    }
    context.lineTo(gutter + width, bottom);
    context.fill();
    context.globalAlpha = 1;
    const { view } = app;
    const per = width / (view.most - view.least);
    context.strokeStyle = css.accent;
    context.lineWidth = 1.5;
    context.strokeRect(gutter + (view.from - view.least) * per, MINIMAP.y - 0.5, Math.max(3, (view.to - view.from) * per), MINIMAP.height + 1);
    context.fillStyle = css.soft;
    context.fillText("cores busy", 14, MINIMAP.y + MINIMAP.height / 2);
  }

  /** @param {App} app */
  drawAxis(app) {
    const { view, palette } = app;
    const context = this.context;
    const mark = axisStep(view, this.right() - gutter);
    context.strokeStyle = palette.css.line;
    context.fillStyle = palette.css.soft;
    context.lineWidth = 1;
    for (let at = Math.ceil(view.from / mark); at * mark <= view.to; at++) {
      const x = Math.round(this.x(view, at * mark)) + 0.5;
      context.globalAlpha = 0.7;
      context.beginPath();
      context.moveTo(x, TOP - 20);
      context.lineTo(x, TOP);
      context.stroke();
      context.globalAlpha = 1;
      const words = axisTime(at * mark, mark);
      // A name that would be cut is left out.
      if (x + 4 + context.measureText(words).width <= this.width - 2) context.fillText(words, x + 4, TOP - 14);
    }
    context.fillText(app.run.cores.start.length > 0 ? "0 = first kernel start" : "0 = first record", 14, TOP - 14);
  }

  /** @param {App} app */
  drawNames(app) {
    const { css } = app.palette;
    for (const row of app.rows) {
      const own = TOP + row.y - app.scroll;
      // A label of many rows stays in sight as long as its rows have room for it.
      const y = Math.max(own, Math.min(TOP, TOP + row.until - app.scroll - 26));
      if (row.note && own < this.height && own + 20 > TOP) {
        this.context.fillStyle = css.soft;
        this.context.fillText(row.note, 14, own + row.height / 2);
      }
      if (row.curve && own < this.height && own + row.height > TOP) this.drawScale(app, row.curve, own);
      if (!row.label || y > this.height || y + 40 < TOP) continue;
      const middle = row.sub ? y + 8 : y + row.height / 2;
      this.context.fillStyle = css.ink;
      this.context.fillText(fitted(this.context, row.label, gutter - 20), 14, middle);
      if (row.sub) {
        this.context.fillStyle = css.soft;
        this.context.fillText(fitted(this.context, row.sub, gutter - 20), 14, middle + 14);
      }
    }
  }

  /** The top of a curve's row, and what it stands for. @param {App} app @param {Curve} curve @param {number} y */
  drawScale(app, curve, y) {
    const { context } = this;
    context.strokeStyle = app.palette.css.line;
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(gutter, y + 0.5);
    context.lineTo(this.right(), y + 0.5);
    context.stroke();
    // With an edge of the ground's colour it can be read over the curve, too.
    context.strokeStyle = app.palette.css.bg;
    context.lineWidth = 3;
    context.lineJoin = "round";
    context.fillStyle = app.palette.css.ink;
    context.textAlign = "right";
    context.strokeText(amount(curve.peak, curve.unit), this.right() - 4, y + 9);
    context.fillText(amount(curve.peak, curve.unit), this.right() - 4, y + 9);
    context.textAlign = "start";
  }

  /** @param {App} app */
  drawLabels(app) {
    const { labels, labelled, scale } = app.painter;
    const context = this.context;
    for (let at = 0; at < labelled; at++) {
      const [x, y, width, height, name, isStriped] = labels.subarray(LABEL * at, LABEL * at + LABEL);
      const text = fitted(context, app.run.meta.names[name], width / scale - 10);
      context.fillStyle = (isStriped ? app.palette.stripedInks : app.palette.inks)[name];
      context.fillText(text, x / scale + 5, y / scale + height / 2 + 0.5);
    }
  }

  /** @param {App} app */
  drawSelection(app) {
    const { run, view, palette } = app;
    const context = this.context;
    for (const [slices, at, colour] of [[app.hoverSlices, app.hover, palette.css.soft], [app.selectedSlices, app.selectedSlice, palette.css.lit]]) {
      if (typeof at !== "number" || at < 0 || !(slices instanceof Slices)) continue;
      const row = app.rowOf(slices, at);
      if (!row || slices.end[at] < view.from || slices.start[at] > view.to) continue;
      const x = this.x(view, slices.start[at]);
      context.strokeStyle = /** @type {string} */ (colour);
      context.lineWidth = 2;
      context.strokeRect(x - 1, TOP + row.y - app.scroll - 1, Math.max(3, this.x(view, slices.end[at]) - x + 1), row.height + 2);
    }
    if (app.selectedTask < 0) return;
    context.beginPath();
    context.rect(gutter, TOP, this.right() - gutter, this.height - TOP);
    context.clip();
    const task = app.selectedTask;
    context.lineWidth = 1.2;
    context.globalAlpha = 0.85;
    for (const edge of app.producers.slice(0, 60)) this.arrow(app, run.lastSlice[edge.task], run.firstSlice[task], palette.css.accent);
    for (const edge of app.consumers.slice(0, 60)) this.arrow(app, run.lastSlice[task], run.firstSlice[edge.task], palette.css.warn);
    context.globalAlpha = 1;
  }

  /** Joins the slices of the critical path, as far as they are in sight and few enough to be told apart. @param {App} app */
  drawPath(app) {
    const { run, view } = app;
    // Of two runs the lanes alternate: lines from one to the next lane of a run would cross those of the other.
    if (!app.pathOn || run.path.length === 0 || app.before) return;
    const { start, end } = run.cores;
    const context = this.context;
    // The path goes forward in time, so what is in sight lies together. It may have as many tasks as the run.
    const first = firstThat(run.path.length, (at) => end[run.lastSlice[run.path[at]]] >= view.from);
    const last = firstThat(run.path.length, (at) => start[run.firstSlice[run.path[at]]] > view.to);
    if (last - first > 400) return;
    context.save();
    context.beginPath();
    context.rect(gutter, TOP, this.right() - gutter, this.height - TOP);
    context.clip();
    context.strokeStyle = app.palette.css.lit;
    context.globalAlpha = 0.55;
    context.lineWidth = 1;
    context.beginPath();
    for (let at = Math.max(1, first); at < Math.min(run.path.length, last + 1); at++) {
      const [from, to] = [run.lastSlice[run.path[at - 1]], run.firstSlice[run.path[at]]];
      const [source, target] = [app.rowOf(run.cores, from), app.rowOf(run.cores, to)];
      if (!source || !target) continue;
      context.moveTo(this.x(view, end[from]), TOP + source.y + source.height - 1 - app.scroll);
      context.lineTo(this.x(view, start[to]), TOP + target.y + target.height - 1 - app.scroll);
    }
    context.stroke();
    context.restore();
  }

  /** From the end of one slice to the start of another. @param {App} app @param {number} from @param {number} to @param {string} colour */
  arrow(app, from, to, colour) {
    const source = from >= 0 && app.rowOf(app.run.cores, from);
    const target = to >= 0 && app.rowOf(app.run.cores, to);
    if (!source || !target) return;
    const context = this.context;
    const [ended, starts] = [this.x(app.view, app.run.cores.end[from]), this.x(app.view, app.run.cores.start[to])];
    if (Math.max(ended, starts) < gutter || Math.min(ended, starts) > this.right()) return;
    // What lies far outside would make the part in sight a flat line.
    const x0 = Math.max(ended, gutter - 60);
    const x1 = Math.min(starts, this.right() + 60);
    const y0 = TOP + source.y + source.height / 2 - app.scroll;
    const y1 = TOP + target.y + target.height / 2 - app.scroll;
    const bend = Math.max(12, Math.min(80, Math.abs(x1 - x0) / 2));
    context.strokeStyle = context.fillStyle = colour;
    context.beginPath();
    context.moveTo(x0, y0);
    // Within one row an arrow arches over the names of the slices between.
    const lift = source === target ? source.height * 0.9 : 0;
    context.bezierCurveTo(x0 + bend, y0 - lift, x1 - bend, y1 - lift, x1, y1);
    context.stroke();
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x1 - 6, y1 - 3.5);
    context.lineTo(x1 - 6, y1 + 3.5);
    context.fill();
  }

  /** @param {App} app */
  drawMarkers(app) {
    const context = this.context;
    context.strokeStyle = context.fillStyle = app.palette.css.bad;
    context.lineWidth = 1.5;
    app.markers.forEach((time, at) => {
      const x = this.x(app.view, time);
      if (x < gutter || x > this.right()) return;
      context.beginPath();
      context.moveTo(x, TOP - 24);
      context.lineTo(x, this.height);
      context.stroke();
      context.fillText(at === 0 ? "1" : "2", x + 4, TOP - 4);
    });
    if (app.markers.length === 2) this.drawMeasure(app, app.markers[0], app.markers[1]);
  }

  /** The time between the markers, beside them: what is said below the picture may be out of sight.
   * @param {App} app @param {number} first @param {number} second */
  drawMeasure(app, first, second) {
    const { context } = this;
    const [from, to] = [this.x(app.view, Math.min(first, second)), this.x(app.view, Math.max(first, second))];
    if (to < gutter || from > this.right()) return;
    const words = duration(Math.abs(second - first));
    const half = context.measureText(words).width / 2 + 6;
    const [left, right] = [Math.max(from, gutter), Math.min(to, this.right())];
    const middle = Math.min(Math.max((left + right) / 2, gutter + half), this.right() - half);
    const y = TOP + 12;
    context.beginPath();
    context.moveTo(left, y);
    context.lineTo(right, y);
    context.stroke();
    context.fillStyle = app.palette.css.panel;
    context.fillRect(middle - half, y - 9, 2 * half, 18);
    context.strokeRect(middle - half, y - 9, 2 * half, 18);
    context.fillStyle = app.palette.css.bad;
    context.textAlign = "center";
    context.fillText(words, middle, y + 0.5);
    context.textAlign = "start";
  }

  /** @param {App} app */
  drawBox(app) {
    if (!app.box) return;
    const { x0, y0, x1, y1 } = app.box;
    const context = this.context;
    context.strokeStyle = context.fillStyle = app.palette.css.accent;
    context.globalAlpha = 0.15;
    context.fillRect(Math.min(x0, x1), Math.min(y0, y1), Math.abs(x1 - x0), Math.abs(y1 - y0));
    context.globalAlpha = 1;
    context.strokeRect(Math.min(x0, x1), Math.min(y0, y1), Math.abs(x1 - x0), Math.abs(y1 - y0));
  }
}

/** As much of a text as a width holds. @param {CanvasRenderingContext2D} context @param {string} text @param {number} width */
function fitted(context, text, width) {
  if (text.length * 3 < width && context.measureText(text).width <= width) return text;
  if (context.measureText(text).width <= width) return text;
  let most = Math.max(1, Math.floor((text.length * width) / Math.max(1, context.measureText(text).width)) - 1);
  while (most > 1 && context.measureText(`${text.slice(0, most)}…`).width > width) most--;
  return `${text.slice(0, most)}…`;
}
