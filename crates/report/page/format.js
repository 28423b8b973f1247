// Numbers as people read them; durations as crates/report/src/text.rs prints them.

/** @param {number} ns @returns {string} */
function duration(ns) {
  const size = Math.abs(ns);
  const [value, unit] = size < 1e3 ? [ns, "ns"] : size < 1e6 ? [ns / 1e3, "µs"] : size < 1e9 ? [ns / 1e6, "ms"] : [ns / 1e9, "s"];
  const whole = (unit === "ns" && Number.isInteger(value)) || Math.abs(value) >= 100;
  return `${value.toFixed(whole ? 0 : Math.abs(value) >= 10 ? 1 : 2)} ${unit}`;
}

/** @param {number} share @returns {string} */
function percent(share) {
  return `${(share * 100).toFixed(1)} %`;
}

/** @param {number} number @returns {string} */
function count(number) {
  return Math.round(number).toLocaleString("en-US");
}

/** Bytes as people read them, a ratio, a rate, or a plain count. @param {number} value @param {string} unit @returns {string} */
function amount(value, unit) {
  if (unit === "ratio") return value.toFixed(value >= 10 ? 1 : 3);
  if (unit === "/ µs") return `${value >= 100 ? count(value) : Number(value.toPrecision(3))} ${unit}`;
  if (unit !== "bytes") return count(value);
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  for (; value >= 1024 && at + 1 < units.length; at++) value /= 1024;
  return `${Number.isInteger(value) ? value : value.toFixed(1)} ${units[at]}`;
}

/** A distance between marks of an axis: 1, 2 or 5 times a power of ten. @param {number} least @returns {number} */
function step(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  for (const times of [1, 2, 5]) if (power * times >= least) return power * times;
  return power * 10;
}

/** The distance between marks of the axis over a window: names have room between them. @param {{ from: number, to: number }} view @param {number} width in CSS pixels */
function axisStep(view, width) {
  return step(((view.to - view.from) / width) * 96);
}

/** How finely two times are told so that they differ: a tenth of what lies between them, down to a nanosecond. @param {number} from @param {number} to */
function fineness(from, to) {
  return Math.max(1, Math.abs(to - from) / 10);
}

/** A time on the axis: enough digits to tell neighbouring marks apart. @param {number} ns @param {number} mark */
function axisTime(ns, mark) {
  if (ns === 0) return "0";
  const size = Math.abs(ns);
  const [unit, name] = size < 1e3 ? [1, "ns"] : size < 1e6 ? [1e3, "µs"] : size < 1e9 ? [1e6, "ms"] : [1e9, "s"];
  const places = Math.max(0, Math.min(9, Math.ceil(-Math.log10(mark / unit) - 1e-9)));
  return `${(ns / unit).toFixed(places)} ${name}`;
}
