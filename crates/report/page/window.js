// The stretch of time that is in sight, and the way back to those before it.

const LEAST_SPAN = 4;
const MOST_BACK = 200;

class TimeWindow {
  /** @param {number} least @param {number} most */
  constructor(least, most) {
    // A little air at both ends, so that the first and the last slice are seen whole.
    const air = (most - least) * 0.01;
    this.least = least - air;
    this.most = most + air;
    this.from = this.least;
    this.to = this.most;
    /** @type {[number, number][]} */
    this.back = [];
    /** @type {[number, number][]} */
    this.forward = [];
    /** What was in sight before something that may change it. @type {[number, number] | null} */
    this.left = null;
  }

  /** Shows a stretch of time; one that has no end, as an address may name it, is not shown. @param {number} from @param {number} to */
  set(from, to) {
    if (!Number.isFinite(from + to)) return;
    const span = Math.min(Math.max(to - from, LEAST_SPAN), this.most - this.least);
    const middle = (from + to) / 2;
    this.from = Math.min(Math.max(middle - span / 2, this.least), this.most - span);
    this.to = this.from + span;
    this.keep();
  }

  /** Puts what was in sight before into the history, if that is not in sight any more. */
  keep() {
    const { left } = this;
    if (!left || (left[0] === this.from && left[1] === this.to)) return;
    this.left = null;
    this.back.push(left);
    if (this.back.length > MOST_BACK) this.back.shift();
    this.forward.length = 0;
  }

  /** @param {number} factor @param {number} at the time that stays where it is */
  zoom(factor, at) {
    const span = Math.min(Math.max((this.to - this.from) * factor, LEAST_SPAN), this.most - this.least);
    const share = (at - this.from) / (this.to - this.from);
    this.set(at - span * share, at + span * (1 - share));
  }

  /** @param {number} share of what is in sight */
  pan(share) {
    const by = (this.to - this.from) * share;
    this.set(this.from + by, this.to + by);
  }

  /** Whether everything is in sight. */
  isWhole() {
    return this.to - this.from >= (this.most - this.least) * 0.999;
  }

  /** Remembers what is in sight, before it may change: a click that moves nothing leaves nothing to go back to. */
  remember() {
    this.left = [this.from, this.to];
  }

  /** @param {boolean} forward */
  travel(forward) {
    const [source, target] = forward ? [this.forward, this.back] : [this.back, this.forward];
    const there = source.pop();
    if (!there) return;
    this.left = null;
    target.push([this.from, this.to]);
    this.set(there[0], there[1]);
  }
}
