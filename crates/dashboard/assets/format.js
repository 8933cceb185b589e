// Numbers in a few characters. Null is a number that is not known.

const UNKNOWN = "–";

function digits(value) {
  if (value === 0) return "0";
  if (value < 0.095) return value.toFixed(2);
  if (value < 9.95) return value.toFixed(1);
  return value.toFixed(0);
}

/** Formats a number per second. */
export function rate(value) {
  if (value === null || value === undefined) return UNKNOWN;
  if (value >= 99_950) return `${digits(value / 1000)}k`;
  return digits(value);
}

/** Formats a number of processors. */
export function processors(value) {
  return value === null || value === undefined ? UNKNOWN : value === 0 ? "0" : value.toFixed(value < 0.095 ? 2 : 1);
}

/** Formats seconds. */
export function seconds(value) {
  if (value === null || value === undefined) return UNKNOWN;
  if (value < 0.001) return `${(value * 1e6).toFixed(0)} µs`;
  if (value < 0.01) return `${(value * 1000).toFixed(1)} ms`;
  if (value < 0.9995) return `${(value * 1000).toFixed(0)} ms`;
  if (value < 9.95) return `${value.toFixed(1)} s`;
  if (value < 120) return `${value.toFixed(0)} s`;
  if (value < 7200) return `${Math.floor(value / 60)} min`;
  if (value < 172800) return `${Math.floor(value / 3600)} h`;
  return `${Math.floor(value / 86400)} d`;
}

/** Formats bytes. */
export function bytes(value) {
  if (value === null || value === undefined) return UNKNOWN;
  const units = [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]];
  const [unit, name] = units.find(([size]) => value >= size * 0.9995) || [1, "B"];
  const number = value / unit;
  return `${unit > 1 && number < 9.95 ? number.toFixed(1) : number.toFixed(0)} ${name}`;
}

/** Formats a count with separators. */
export function count(value) {
  return value === null || value === undefined ? UNKNOWN : Math.round(value).toLocaleString("en").replaceAll(",", "\u202f");
}

/** Formats a share of a whole. */
export function percent(part, whole) {
  return whole > 0 ? `${((100 * part) / whole).toFixed(part / whole < 0.0995 ? 1 : 0)} %` : UNKNOWN;
}

/** Formats the time from now to a date, such as `in 12 d` or `3 min ago`. */
export function away(date) {
  const time = Date.parse(date);
  if (Number.isNaN(time)) return date || UNKNOWN;
  const left = (time - Date.now()) / 1000;
  return left >= 0 ? `in ${seconds(Math.max(left, 1))}` : `${seconds(Math.max(-left, 1))} ago`;
}

/** Formats the time of day of a date. */
export function clock(date) {
  const time = new Date(date);
  return Number.isNaN(time.getTime()) ? "" : time.toLocaleTimeString("en-GB");
}
