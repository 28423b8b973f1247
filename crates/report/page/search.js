// Finds tasks, functions and scopes by what people type.

/** A task as people write it: `r2t17`, or `r2t17@3` in round 3. @param {string} text */
function parseTask(text) {
  const match = /^r(\d+)t(\d+)(?:@(\d+))?$/i.exec(text.trim());
  return match ? { ring: Number(match[1]), local: Number(match[2]), round: Number(match[3] ?? 0) } : null;
}

/** What a text names. @param {Run} run @param {string} text
 * @returns {{ task: number, names: Set<number> }} the task or -1, and the numbers of all names that hold the text */
function lookUp(run, text) {
  const wanted = parseTask(text);
  const task = wanted ? run.find(wanted.round, wanted.ring, wanted.local) : -1;
  const names = new Set();
  const needle = text.trim().toLowerCase();
  if (!wanted && needle) {
    run.meta.names.forEach((name, at) => {
      if (name.toLowerCase().includes(needle)) names.add(at);
    });
  }
  return { task, names };
}

/** The next slice, by start, whose name is among these; it starts over at the end. @param {Slices} slices @param {number} after @returns {number} */
function nextSlice(slices, after) {
  let best = -1;
  let first = -1;
  for (let at = 0; at < slices.start.length; at++) {
    if (first < 0 || slices.start[at] < slices.start[first]) first = at;
    if (slices.start[at] > after && (best < 0 || slices.start[at] < slices.start[best])) best = at;
  }
  return best >= 0 ? best : first;
}
