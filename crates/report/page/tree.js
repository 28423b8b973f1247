// An implicit tree of maxima: finds the longest slice of a pixel among a million, and the first that has not ended yet.

const BRANCH = 16;

/** Maxima over blocks of 16, blocks of 16 of those, and so on. Its leaves are the columns themselves. */
class MaxTree {
  /** The values are `upper[i]`, or `upper[i] - lower[i]`. @param {Float64Array} upper @param {Float64Array | null} lower */
  constructor(upper, lower) {
    this.upper = upper;
    this.lower = lower;
    /** @type {Float64Array[]} */
    this.levels = [];
    let below = upper.length;
    while (below > BRANCH) {
      const level = new Float64Array(Math.ceil(below / BRANCH));
      const depth = this.levels.length;
      for (let block = 0; block < level.length; block++) {
        let most = -Infinity;
        const end = Math.min(below, (block + 1) * BRANCH);
        for (let at = block * BRANCH; at < end; at++) {
          const value = this.value(depth, at);
          if (value > most) most = value;
        }
        level[block] = most;
      }
      this.levels.push(level);
      below = level.length;
    }
  }

  /** @param {number} depth @param {number} at */
  value(depth, at) {
    if (depth > 0) return this.levels[depth - 1][at];
    return this.lower ? this.upper[at] - this.lower[at] : this.upper[at];
  }

  /** Where the largest value of `from..to` lies; the first of equals. @param {number} from @param {number} to */
  longest(from, to) {
    let best = from;
    let most = -Infinity;
    let depth = 0;
    let bestDepth = 0;
    /** @type {(at: number) => void} */
    const see = (at) => {
      const value = this.value(depth, at);
      if (value > most || (value === most && at * BRANCH ** depth < best * BRANCH ** bestDepth)) {
        most = value;
        best = at;
        bestDepth = depth;
      }
    };
    while (from < to) {
      if (depth >= this.levels.length || to - from <= BRANCH) {
        for (let at = from; at < to; at++) see(at);
        break;
      }
      while (from % BRANCH !== 0 && from < to) see(from++);
      while (to % BRANCH !== 0 && from < to) see(--to);
      from /= BRANCH;
      to /= BRANCH;
      depth++;
    }
    while (bestDepth > 0) {
      bestDepth--;
      let at = best * BRANCH;
      while (this.value(bestDepth, at) !== most) at++;
      best = at;
    }
    return best;
  }

  /** The first of `from..to` whose value is above `limit`; `to` if none is. @param {number} from @param {number} to @param {number} limit */
  firstAbove(from, to, limit) {
    let at = from;
    let depth = 0;
    while (at * BRANCH ** depth < to) {
      if (this.value(depth, at) > limit) {
        if (depth === 0) return at;
        depth--;
        at *= BRANCH;
        continue;
      }
      at++;
      while (depth < this.levels.length && at % BRANCH === 0) {
        at /= BRANCH;
        depth++;
      }
      // A block may reach past what there is: the top level has no parent, and its end is the end.
      if (at >= (depth > 0 ? this.levels[depth - 1].length : this.upper.length)) return to;
    }
    return to;
  }
}

/** The first of `from..to` that is not below `limit`, in a column that grows. @param {Float64Array} column @param {number} from @param {number} to @param {number} limit */
function lowerBound(column, from, to, limit) {
  // Doubling steps first: what is looked for is mostly near.
  let reach = 1;
  while (from + reach < to && column[from + reach] < limit) {
    from += reach;
    reach *= 2;
  }
  to = Math.min(to, from + reach + 1);
  while (from < to) {
    const middle = (from + to) >> 1;
    if (column[middle] < limit) from = middle + 1;
    else to = middle;
  }
  return from;
}

/** The first of `0..many` that `is` holds for, where it holds for all after it too; `many` if for none. @param {number} many @param {(at: number) => boolean} is */
function firstThat(many, is) {
  let from = 0;
  while (from < many) {
    const middle = (from + many) >> 1;
    if (is(middle)) many = middle;
    else from = middle + 1;
  }
  return from;
}
