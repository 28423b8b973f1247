// What hardware counters said of each execution of a task, and what that comes to over time.

class Counters {
  /** @param {Run} run @param {Reader} task @param {Indexed} core @param {Indexed} value */
  constructor(run, task, core, value) {
    this.names = run.meta.counted;
    /** The task of each reading, in order. */
    this.task = Float64Array.from({ length: run.meta.readings }, () => task.delta() - 1);
    this.core = core;
    this.value = value;
  }

  /** @param {Run} run @param {Source} column @returns {Promise<Counters | null>} */
  static async load(run, column) {
    const [task, core, value] = await Promise.all(["count.task", "count.core", "count.value"].map(column));
    return task && core && value ? new Counters(run, task, new Indexed(core, "plain"), new Indexed(value, "plain")) : null;
  }

  /** The readings of a task: the core, and every count. @param {number} task @returns {{ core: number, counts: { name: string, value: number }[] }[]} */
  of(task) {
    const found = [];
    for (let at = lowerBound(this.task, 0, this.task.length, task); this.task[at] === task; at++) {
      const counts = this.names.map((name, place) => ({ name, value: this.value.at(at * this.names.length + place) }));
      found.push({ core: this.core.at(at), counts });
    }
    return found;
  }
}

/** What hardware counted, as curves under the time axis: at each time the sum over the executions that ran. What an
 * execution counted is spread evenly over the time in which it was counted, because only its whole is known. That time is longer than the
 * execution: reading the counters takes its own. */
class CounterCurves {
  /** @param {Run} run @param {Counters} counters */
  constructor(run, counters) {
    this.run = run;
    this.counters = counters;
    /** The reading of each slice; -1 if it has none. */
    this.reading = new Int32Array(run.cores.start.length).fill(-1);
    this.join();
    const { start, end } = (this.spans = countedSpans(run));
    const counted = [...this.reading.keys()].filter((slice) => this.reading[slice] >= 0 && end[slice] > start[slice]);
    /** Where slices with readings begin and end, in order of time: a slice, or ~slice for its end. */
    this.turns = Int32Array.from([...counted, ...counted.map((slice) => ~slice)]);
    const time = (/** @type {number} */ turn) => (turn < 0 ? end[~turn] : start[turn]);
    this.turns.sort((a, b) => time(a) - time(b));
    this.times = Float64Array.from(this.turns, time);
  }

  /** Finds the reading of each slice: of a task's readings on a core, the first is that of its first execution there. */
  join() {
    const { counters, reading, run } = this;
    const taken = new Uint8Array(counters.task.length);
    for (const lane of run.cores.lanes) {
      for (let slice = lane.from; slice < lane.to; slice++) {
        const task = run.cores.task[slice];
        for (let at = lowerBound(counters.task, 0, counters.task.length, task); counters.task[at] === task; at++) {
          if (taken[at] || counters.core.at(at) !== lane.core) continue;
          taken[at] = 1;
          reading[slice] = at;
          break;
        }
      }
    }
  }

  /** The sum of a counter per ns after each turn. @param {number} place of the counter among the names */
  sums(place) {
    const { counters, reading, turns } = this;
    const { start, end } = this.spans;
    const sums = new Float64Array(turns.length);
    let [sum, running] = [0, 0];
    turns.forEach((turn, at) => {
      const slice = turn < 0 ? ~turn : turn;
      const rate = counters.value.at(reading[slice] * counters.names.length + place) / (end[slice] - start[slice]);
      running += turn < 0 ? -1 : 1;
      // Where nothing runs nothing is counted: what rounding has left ends there.
      sum = running === 0 ? 0 : Math.max(0, sum + (turn < 0 ? -rate : rate));
      sums[at] = sum;
    });
    return sums;
  }

  /** @param {string} name @param {string} unit @param {Float64Array} value @returns {Curve} */
  curve(name, unit, value) {
    // Of turns at one time only the last says what holds after it.
    for (let at = value.length - 2; at >= 0; at--) if (this.times[at] === this.times[at + 1]) value[at] = value[at + 1];
    const peak = value.reduce((most, one) => Math.max(most, one), 0);
    return { name, unit, capacity: 0, count: value.length, from: 0, to: value.length, peak, points: { time: this.times, value, tree: new MaxTree(value, null) } };
  }

  /** A counter per µs. @param {number} place @returns {Curve} */
  counter(place) {
    return this.curve(words(this.counters.names[place]), "/ µs", this.sums(place).map((rate) => rate * 1000));
  }

  /** One counter over another, wherever the other counts. @param {number} at the ratio's place @returns {Curve} */
  ratio(at) {
    const [name, above, below] = this.run.meta.ratios[at];
    const under = this.sums(below);
    return this.curve(words(name), "ratio", this.sums(above).map((value, at) => (under[at] > 1e-12 ? value / under[at] : 0)));
  }

  /** The curves of a choice: `r0` is the first ratio, `c0` the first counter. @param {string} choice @returns {Curve[]} */
  chosen(choice) {
    if (choice === "all") return [...this.run.meta.ratios.map((_, at) => this.ratio(at)), ...this.counters.names.map((_, at) => this.counter(at))];
    const at = Number(choice.slice(1));
    return choice === "" ? [] : [choice.startsWith("r") ? this.ratio(at) : this.counter(at)];
  }
}

/** The time in which each execution was counted: from its dispatch until it was seen finished, as far as those are known, and no more than
 * halfway to its neighbours on the core. @param {Run} run @returns {{ start: Float64Array, end: Float64Array }} */
function countedSpans(run) {
  const { start, end, lanes } = run.cores;
  const { dispatch, finish } = run;
  if (!dispatch || !finish) return { start, end };
  const spans = { start: start.slice(), end: end.slice() };
  for (const lane of lanes) {
    for (let at = lane.from; at < lane.to; at++) {
      const least = at > lane.from ? Math.min(start[at], (end[at - 1] + start[at]) / 2) : -Infinity;
      const most = at + 1 < lane.to ? Math.max(end[at], (end[at] + start[at + 1]) / 2) : Infinity;
      spans.start[at] = Math.max(least, start[at] - Math.max(0, dispatch.at(at)));
      spans.end[at] = Math.min(most, end[at] + Math.max(0, finish.at(at)));
    }
  }
  return spans;
}

/** A name of the files as people read it. @param {string} name */
function words(name) {
  return name.replaceAll("_", " ");
}
