// Finds tasks, functions and scopes by what people type.

/** What a text names. @param {Run} run @param {string} text
 * @returns {{ task: number | undefined, names: Set<number> | null }} the task (-1 if it did not run, undefined if the text is no task's name), and
 * the numbers of all names that hold the text; null if the text is empty or a task's */
function lookUp(run, text) {
  const needle = text.trim().toLowerCase();
  const task = needle ? run.find(needle) : undefined;
  if (!needle || task !== undefined) return { task, names: null };
  /** @type {Set<number>} */
  const names = new Set();
  run.meta.names.forEach((name, at) => {
    if (name.toLowerCase().includes(needle)) names.add(at);
  });
  return { task, names };
}

/** The tasks of the scopes that a text names, as 1 for each. Scopes with times are lit on lanes of their own; for those without, their tasks are.
 * @param {Run} run @param {Set<number> | null} names @returns {Uint8Array | null} */
function searchedTasks(run, names) {
  const { scopes, meta } = run;
  if (!names || !scopes || scopes.slice.some((slice) => slice >= 0)) return null;
  return scopes.tasksIn(scopes.ofSites(new Set([...names].map((name) => meta.names[name]))));
}

/** Whether a searched text finds a slice, by its name or its task. @param {Searched} searched @param {number} name @param {number} task */
function isFound({ names, tasks }, name, task) {
  return names === null || names.has(name) || tasks?.[task] === 1;
}

/** The next slice, by start; it starts over at the end. @param {Slices} slices @param {number} after @returns {number} */
function nextSlice(slices, after) {
  let best = -1;
  let first = -1;
  for (let at = 0; at < slices.start.length; at++) {
    if (first < 0 || slices.start[at] < slices.start[first]) first = at;
    if (slices.start[at] > after && (best < 0 || slices.start[at] < slices.start[best])) best = at;
  }
  return best >= 0 ? best : first;
}
