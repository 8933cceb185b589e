// Lines of figures over time, as drawings without a library.

import { h, s, setText } from "./dom.js";
import * as format from "./format.js";
import { FIGURES, store } from "./store.js";

/** Highest values that a line shows at least, so that noise does not look like a mountain. */
const LEAST = [1, 0.2, 0.1, 0.1, 1 << 20];

/** Titles and formats of the figures. */
export const TITLES = ["Requests", "Errors", "Time", "Processors", "Memory"];
export const FORMATS = [
  (value) => (value === null ? "–" : `${format.rate(value)}/s`),
  (value) => (value === null ? "–" : `${format.rate(value)}/s`),
  format.seconds,
  format.processors,
  format.bytes,
];

/** Points of a small line: several points of the history are one. */
const SMALL = 75;

const SPANS = { "5m": "5 minutes", "1h": "hour", "1d": "day" };

/** Returns the time of histories in words. */
export function span() {
  return SPANS[store.range];
}

// Several values become one, the highest. Groups begin at multiples of their size, so that the line does
// not flicker as it moves.
function grouped(values, points, second, most) {
  const size = Math.ceil(points / most);
  if (size <= 1) return values;
  const groups = [];
  const first = second - values.length;
  let group = null;
  for (const [at, value] of values.entries()) {
    const number = Math.floor((first + at) / size);
    if (group?.number !== number) {
      group = { number, value: null };
      groups.push(group);
    }
    if (value !== null) group.value = group.value === null ? value : Math.max(group.value, value);
  }
  return groups.map((each) => each.value);
}

// Returns the paths of a line and of the area below, in a box of 100 by 100.
function paths(values, length, highest) {
  let line = "";
  let area = "";
  let begin = null;
  const step = 100 / Math.max(length - 1, 1);
  const offset = length - values.length;
  const close = (x) => {
    if (begin !== null) area += `L${x} 100L${begin} 100Z`;
    begin = null;
  };
  let last = 0;
  for (const [at, value] of values.entries()) {
    const x = ((offset + at) * step).toFixed(1);
    if (value === null || value === undefined) {
      close(last);
      continue;
    }
    const y = (98 - (96 * value) / highest).toFixed(1);
    const word = begin === null ? "M" : "L";
    // A point alone is a dot.
    line += begin === null ? `M${x} ${y}h0` : `L${x} ${y}`;
    area += `${word}${x} ${y}`;
    if (begin === null) begin = x;
    last = x;
  }
  close(last);
  return { line, area };
}

function draw(chart, values, points, second, most) {
  const shown = grouped(values, points, second, most);
  const length = Math.ceil(points / Math.max(Math.ceil(points / most), 1));
  let highest = LEAST[chart.figure];
  for (const value of shown) if (value > highest) highest = value;
  const { line, area } = paths(shown.slice(-length), length, highest);
  if (chart.drawn !== line) {
    chart.line.setAttribute("d", line);
    chart.area.setAttribute("d", area);
    chart.drawn = line;
  }
  return highest;
}

function drawing(figure, name) {
  const area = s("path", { class: "area" });
  const line = s("path", { class: "line", "vector-effect": "non-scaling-stroke" });
  const element = s("svg", {
    class: `${name} of-${FIGURES[figure]}`, viewBox: "0 0 100 100", preserveAspectRatio: "none", "aria-hidden": "true",
  }, area, line);
  return { element, line, area, figure, drawn: null };
}

/** Returns a small line of a figure; `update(id)` draws it. The number beside it says the same. */
export function spark(figure) {
  const chart = drawing(figure, "spark");
  const update = (id) => {
    const history = store.history(id);
    if (history) draw(chart, history.values[figure], history.points, history.second, SMALL);
  };
  return { element: chart.element, update };
}

/** Returns a chart of a figure with its title, its last and its highest value. */
export function chart(figure, title = TITLES[figure]) {
  const drawn = drawing(figure, "chart");
  const now = h("strong");
  const most = h("span", { class: "most" });
  const from = h("span");
  const element = h("figure", { class: `card of-${FIGURES[figure]}` },
    h("figcaption", null, h("span", { text: title }), now),
    h("div", { class: "plot" }, most, drawn.element),
    h("div", { class: "axis", "aria-hidden": "true" }, from, h("span", { text: "now" })));
  const update = (id, value) => {
    setText(now, FORMATS[figure](value ?? null));
    setText(from, `${span()} ago`.replace(/^(hour|day)/, "1 $1"));
    const history = store.history(id);
    if (!history) return;
    const highest = draw(drawn, history.values[figure], history.points, history.second, 300);
    const known = history.values[figure].filter((each) => each !== null);
    setText(most, FORMATS[figure](highest));
    const top = known.length ? FORMATS[figure](Math.max(...known)) : "unknown";
    element.setAttribute("aria-label", `${title}: highest in the last ${span()} ${top}`);
  };
  return { element, update };
}

/** Returns the choice of the time of all charts. */
export function rangeChoice(onChange) {
  const button = ([range, text]) => h("button", {
    type: "button", "aria-pressed": String(store.range === range), text,
    onclick: (event) => {
      store.setRange(range);
      for (const other of event.currentTarget.parentNode.children) {
        other.setAttribute("aria-pressed", String(other === event.currentTarget));
      }
      onChange();
    },
  });
  const ranges = [["5m", "5 min"], ["1h", "1 h"], ["1d", "1 day"]];
  return h("div", { class: "choice", role: "group", "aria-label": "Time of the charts" }, ranges.map(button));
}
