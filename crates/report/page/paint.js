// Draws slices and curves into one picture of pixels. Per row and pixel the longest slice that starts there is drawn, so
// nothing long is ever hidden and the cost follows the pixels, not the slices. Nothing is allocated per frame.

const MOST_LABELS = 1500;
/** A slice has its name if it is wider, in CSS pixels. */
const LEAST_LABEL = 46;
/** Numbers that a name on a slice takes: x, y, width, height, name, and 1 if the slice is striped. */
const LABEL = 6;
const MOST_MARKS = 256;
/** Most slices that lie in each other at one time. */
const MOST_HELD = 64;
/** No slice is open. @type {Set<number>} */
const NONE = new Set();

/** Colours as one number per pixel, as ImageData stores them. @param {string} css @returns {number} */
function pixelOf(css) {
  const [red, green, blue] = (css.match(/[\d.]+/g) ?? ["0", "0", "0"]).map(Number);
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/** A mix of two pixels. @param {number} over @param {number} under @param {number} share of the first */
function mix(over, under, share) {
  const part = (/** @type {number} */ shift) => Math.round(((over >>> shift) & 255) * share + ((under >>> shift) & 255) * (1 - share)) << shift;
  return ((255 << 24) | part(16) | part(8) | part(0)) >>> 0;
}

/** How light a pixel is, as WCAG has it: from 0 for black to 1 for white. @param {number} pixel */
function luminance(pixel) {
  const part = (/** @type {number} */ shift) => {
    const share = ((pixel >>> shift) & 255) / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * part(0) + 0.7152 * part(8) + 0.0722 * part(16);
}

/** The contrast of two pixels, from 1 to 21. @param {number} one @param {number} other */
function contrast(one, other) {
  const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
}

/** Whichever of white and near black is read better on all of these pixels. @param {number[]} grounds */
function inkOn(...grounds) {
  const worst = (/** @type {number} */ ink) => Math.min(...grounds.map((ground) => contrast(ink, ground)));
  return worst(0xff111111) > worst(0xffffffff) ? "#111" : "#fff";
}

/** What a striped slice has beside its colour. @param {number} pixel */
function stripeOf(pixel) {
  return mix(pixel, 0xff000000, 0.55);
}

/** The page's colours, as its style has them now. */
class Palette {
  /** @param {HTMLElement} probe @param {Run} run @param {Run} like the run whose names have the same colours */
  constructor(probe, run, like) {
    const css = (/** @type {string} */ name) => {
      probe.style.color = `var(${name})`;
      const colour = getComputedStyle(probe).color;
      probe.style.color = "";
      return colour;
    };
    this.css = { ink: css("--ink"), soft: css("--soft"), line: css("--line"), accent: css("--accent"), panel: css("--panel"), bg: css("--bg"), bad: css("--bad"), warn: css("--warn"), lit: css("--lit") };
    this.panel = pixelOf(this.css.panel);
    this.bg = pixelOf(this.css.bg);
    this.warn = pixelOf(this.css.warn);
    this.bad = pixelOf(this.css.bad);
    this.accent = pixelOf(this.css.accent);
    this.litNames = new Uint32Array(run.meta.names.length).fill(pixelOf(this.css.lit));
    this.ramp = Array.from({ length: 9 }, (_, at) => pixelOf(css(`--k${at}`)));
    const line = pixelOf(this.css.line);
    this.grid = mix(line, this.panel, 0.7);
    // A scheduler that sleeps does nothing: it is drawn as faint as the lines.
    this.names = Uint32Array.from(run.meta.names, (name, at) => {
      if (at >= run.meta.kernels && name === "park") return line;
      const same = run === like ? at : like.meta.names.indexOf(name);
      return this.ramp[same >= 0 ? colourOf(like, name, same) : colourOf(run, name, at)];
    });
    /** The colour of a name on each, and where the slice is striped. */
    this.inks = Array.from(this.names, (pixel) => inkOn(pixel));
    this.stripedInks = Array.from(this.names, (pixel) => inkOn(pixel, stripeOf(pixel)));
    this.faded = this.names.map((pixel) => mix(pixel, this.bg, 0.22));
  }
}

/** Which colour a name has, everywhere on the page. @param {Run} run @param {string} name @param {number} at */
function colourOf(run, name, at) {
  if (at < run.meta.kernels) return (at + 8) % 9;
  /** @type {Record<string, number>} */
  const phases = { submit: 4, orch_submit: 4, dispatch: 1, complete: 2, resolve: 3, release: 8, steal: 5, park: 8, async_poll: 5, ring_wait: 7 };
  return phases[name] ?? at % 9;
}

class Painter {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
    this.context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d", { alpha: false }));
    this.image = new ImageData(1, 1);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.width = 1;
    this.height = 1;
    this.scale = 1;
    /** Slices wide enough for their names. */
    this.labels = new Float64Array(MOST_LABELS * LABEL);
    this.labelled = 0;
    /** Where the marks of the axis are, in device pixels. */
    this.marks = new Int32Array(MOST_MARKS);
    this.marked = 0;
    /** The slices of a lane that hold the start of the window, from the outermost to the innermost. */
    this.held = new Int32Array(MOST_HELD);
    /** How long the slice is that each pixel of a row with gaps shows, in ns; -1 where a gap is hatched. */
    this.shown = new Float64Array(1);
  }

  /** @param {number} width @param {number} height @param {number} scale device pixels per CSS pixel */
  resize(width, height, scale) {
    this.scale = scale;
    this.width = Math.max(1, Math.round(width * scale));
    this.height = Math.max(1, Math.round(height * scale));
    this.canvas.width = this.width;
    this.canvas.height = this.height;
    this.image = new ImageData(this.width, this.height);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.shown = new Float64Array(this.width);
  }

  /** @param {{ run: Run, view: TimeWindow, rows: Row[], scroll: number, palette: Palette, paletteBefore: Palette, litOf: (slices: Slices) => Slices | null, isFiltered: boolean, pathOn: boolean, isEmpty: boolean }} app */
  paint(app) {
    const { run, view, palette } = app;
    this.pixels.fill(palette.panel);
    this.labelled = 0;
    const left = Math.round(gutter * this.scale);
    const right = this.width - Math.round(10 * this.scale);
    const faded = app.isFiltered;
    this.findMarks(view, left, right);
    if (!app.isEmpty) for (let y = Math.round(TOP * this.scale); y < this.height; y++) this.gridLines(y, palette.grid);
    for (const row of app.rows) {
      const y = Math.round((TOP + row.y - app.scroll) * this.scale);
      const top = Math.max(y, Math.round(TOP * this.scale));
      const bottom = Math.min(this.height, y + Math.max(1, Math.round(row.height * this.scale)));
      if (bottom <= top || row.note) continue;
      this.fill(left, right, top, palette.bg);
      this.gridLines(top, palette.grid);
      if (row.curve) {
        this.repeat(top, bottom);
        this.curve(row.curve, view, left, right, top, bottom, palette);
        continue;
      }
      if (!row.slices || !row.lane) continue;
      const colours = row.run === run ? palette : app.paletteBefore;
      const open = row.slices === row.run.cores ? row.run.open : row.run.openAgents;
      const [labels, hasGaps] = [this.labelled, row.lane.gapTo > row.lane.gapFrom];
      if (hasGaps) this.shown.fill(0);
      this.slices(row.slices, row.lane, view, left, right, top, faded ? colours.faded : colours.names, open, faded || row.run !== run ? 0 : row.height);
      const lit = app.litOf(row.slices);
      if (lit) {
        const lane = lit.lanes[row.slices.lanes.indexOf(row.lane)];
        if (lane) this.slices(lit, lane, view, left, right, top, colours.names, open, row.run === run ? row.height : 0);
      }
      this.repeat(top, bottom);
      if (app.pathOn && run.pathSlices && row.slices === run.cores) {
        const lane = run.pathSlices.lanes[run.cores.lanes.indexOf(row.lane)];
        // A low row keeps a line of each slice's own colour.
        const lines = Math.min(Math.round(2 * this.scale), Math.ceil((bottom - top) / 2));
        for (let y = bottom - Math.max(1, lines); y < bottom; y++) {
          this.slices(run.pathSlices, lane, view, left, right, y, palette.litNames, NONE, 0);
        }
      }
      if (hasGaps) {
        this.gaps(row.run, row.lane, view, left, right, top, bottom, palette);
        this.cutLabels(labels);
      }
      if (row.lane.recovered > 0) this.recovered(row.run, row.slices, row.lane, view, left, right, bottom, palette);
    }
    this.context.putImageData(this.image, 0, 0);
  }

  /** Finds where the marks of the axis are: the lines below them lie under the slices. @param {TimeWindow} view @param {number} left @param {number} right */
  findMarks(view, left, right) {
    const perNs = (right - left) / (view.to - view.from);
    const mark = axisStep(view, (right - left) / this.scale);
    this.marked = 0;
    for (let at = Math.ceil(view.from / mark); at * mark <= view.to && this.marked < MOST_MARKS; at++) {
      this.marks[this.marked++] = Math.min(right - 1, left + Math.round((at * mark - view.from) * perNs));
    }
  }

  /** @param {number} y @param {number} pixel */
  gridLines(y, pixel) {
    for (let at = 0; at < this.marked; at++) this.pixels[y * this.width + this.marks[at]] = pixel;
  }

  /** @param {number} left @param {number} right @param {number} y @param {number} pixel */
  fill(left, right, y, pixel) {
    this.pixels.fill(pixel, y * this.width + left, y * this.width + right);
  }

  /** Repeats a row's first line down to its last. @param {number} top @param {number} bottom */
  repeat(top, bottom) {
    const from = top * this.width;
    for (let y = top + 1; y < bottom; y++) this.pixels.copyWithin(y * this.width, from, from + this.width);
  }

  /**
   * Draws a lane's slices into one line.
   * @param {Slices} slices @param {Lane} lane @param {TimeWindow} view @param {number} left @param {number} right @param {number} y
   * @param {Uint32Array} colours @param {Set<number>} open @param {number} labelHeight
   */
  slices(slices, lane, view, left, right, y, colours, open, labelHeight) {
    const { start, end, name } = slices;
    const perNs = (right - left) / (view.to - view.from);
    const line = y * this.width;
    const gap = 3 * this.scale;
    const hasGaps = lane.gapTo > lane.gapFrom;
    const begun = lowerBound(start, lane.from, lane.to, view.from);
    let held = this.findHeld(slices, lane.from, begun, view.from);
    let at = slices.ends.firstAbove(begun, lane.to, view.from);
    let to = left;
    while (held > 0 || (at < lane.to && start[at] < view.to)) {
      // Of slices that hold the window's start, each goes on where the one inside it ends.
      let x = to;
      let best = held > 0 ? this.held[--held] : -1;
      if (best < 0) {
        x = Math.max(left, left + Math.floor((start[at] - view.from) * perNs));
        const next = lowerBound(start, at + 1, lane.to, view.from + (x + 1 - left) / perNs);
        best = next - at === 1 ? at : slices.lengths.longest(at, next);
        at = next;
      }
      to = Math.min(right, left + Math.round((end[best] - view.from) * perNs));
      // A hair of background tells neighbours apart where there is room for it.
      if (to - x > gap) to -= 1;
      if (to <= x) to = Math.min(right, x + 1);
      this.pixels.fill(colours[name[best]], line + x, line + to);
      if (hasGaps) this.shown.fill(end[best] - start[best], x, to);
      const isOpen = open.size > 0 && open.has(slices.origin ? slices.origin[best] : best);
      if (isOpen) this.stripes(line, x, to);
      if (labelHeight >= 12 && to - x > LEAST_LABEL * this.scale && this.labelled < MOST_LABELS) {
        this.labels.set([x, y, to - x, labelHeight, name[best], isOpen ? 1 : 0], LABEL * this.labelled++);
      }
    }
  }

  /** Finds the slices of `from..to` that hold a time at which all of them have begun, and says how many they are.
   * @param {Slices} slices @param {number} from @param {number} to @param {number} time */
  findHeld(slices, from, to, time) {
    let held = 0;
    let at = slices.ends.firstAbove(from, to, time);
    while (at < to && held < MOST_HELD) {
      this.held[held++] = at;
      at = slices.ends.firstAbove(at + 1, to, time);
    }
    return held;
  }

  /** Marks what had not ended. @param {number} line @param {number} from @param {number} to */
  stripes(line, from, to) {
    const wide = Math.max(2, Math.round(3 * this.scale));
    for (let x = from; x < to; x++) if (Math.floor(x / wide) % 2 === 1) this.pixels[line + x] = stripeOf(this.pixels[line + x]);
  }

  /** Underlines what was recovered. @param {Run} run @param {Slices} slices @param {Lane} lane @param {TimeWindow} view @param {number} left @param {number} right @param {number} bottom @param {Palette} palette */
  recovered(run, slices, lane, view, left, right, bottom, palette) {
    const from = Math.max(lane.from, lane.to - lane.recovered);
    let last = lane.to - 1;
    while (last > from && !run.isRecovered(slices, lane, last)) last--;
    const perNs = (right - left) / (view.to - view.from);
    const begin = Math.max(left, left + Math.floor((slices.start[from] - view.from) * perNs));
    const finish = Math.min(right, left + Math.ceil((slices.end[last] - view.from) * perNs));
    if (finish > begin) this.fill(begin, finish, bottom - 1, palette.warn);
  }

  /** Hatches the times in which a producer of records waited for the recorder. As of slices, the longest of each pixel is shown: a slice
   * that is longer than the wait beside it keeps its pixels, and a wait inside a slice is hatched where it fills pixels.
   * @param {Run} run @param {Lane} lane @param {TimeWindow} view @param {number} left @param {number} right @param {number} top @param {number} bottom @param {Palette} palette */
  gaps(run, lane, view, left, right, top, bottom, palette) {
    const { gapStart: start, gapEnd: end } = run;
    const perNs = (right - left) / (view.to - view.from);
    let at = lowerBound(end, lane.gapFrom, lane.gapTo, view.from);
    while (at < lane.gapTo && start[at] < view.to) {
      const first = Math.max(left, left + Math.floor((start[at] - view.from) * perNs));
      const next = lowerBound(start, at + 1, lane.gapTo, view.from + (first + 1 - left) / perNs);
      const best = run.gapLengths.longest(at, next);
      const [from, to] = [left + (start[best] - view.from) * perNs, left + (end[best] - view.from) * perNs];
      for (let x = first; x < right && (x < to || x === first); x++) {
        const isFilled = from <= x && x + 1 <= to;
        if (isFilled || end[best] - start[best] >= this.shown[x]) this.hatch(x, top, bottom, palette);
      }
      at = next;
    }
  }

  /** Hatches a pixel of a row, from its top to its bottom. @param {number} x @param {number} top @param {number} bottom @param {Palette} palette */
  hatch(x, top, bottom, palette) {
    const step = Math.max(4, Math.round(6 * this.scale));
    const wide = Math.max(1, Math.round(2 * this.scale));
    for (let y = top; y < bottom; y++) this.pixels[y * this.width + x] = (x + y) % step < wide ? palette.bad : palette.bg;
    this.shown[x] = -1;
  }

  /** Ends the names of a row where their slices are hatched, and drops those that have no room left. @param {number} first of the row's names */
  cutLabels(first) {
    let kept = first;
    for (let at = first; at < this.labelled; at++) {
      const x = this.labels[LABEL * at];
      const end = x + this.labels[LABEL * at + 2];
      let to = x;
      while (to < end && this.shown[to] >= 0) to++;
      if (to - x <= LEAST_LABEL * this.scale) continue;
      this.labels.copyWithin(LABEL * kept, LABEL * at, LABEL * at + LABEL);
      this.labels[LABEL * kept++ + 2] = to - x;
    }
    this.labelled = kept;
  }

  /** Draws a curve that holds its value from point to point, each pixel as high as its highest point.
   * @param {Curve} curve @param {TimeWindow} view @param {number} left @param {number} right @param {number} top @param {number} bottom @param {Palette} palette */
  curve(curve, view, left, right, top, bottom, palette) {
    const nsPer = (view.to - view.from) / (right - left);
    const water = mix(palette.accent, palette.bg, 0.35);
    const { time, value: values, tree } = curve.points;
    // What was in use after the last sample is not known.
    right = Math.min(right, Math.ceil(left + (time[curve.to - 1] - view.from) / nsPer) + 1);
    let at = lowerBound(time, curve.from, curve.to, view.from);
    for (let x = left; x < right; x++) {
      const until = view.from + (x + 1 - left) * nsPer;
      const next = lowerBound(time, at, curve.to, until);
      let value = at > curve.from ? values[at - 1] : 0;
      if (next > at) value = Math.max(value, values[tree.longest(at, next)]);
      at = next;
      if (value <= 0) continue;
      const height = Math.max(1, Math.round((value / curve.peak) * (bottom - top - 2)));
      for (let y = bottom - height; y < bottom; y++) this.pixels[y * this.width + x] = water;
      this.pixels[(bottom - height) * this.width + x] = palette.accent;
    }
  }
}
