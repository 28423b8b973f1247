// What hardware counters said of each execution of a task.

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
