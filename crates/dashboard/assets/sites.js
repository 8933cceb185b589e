// The list of all sites, with what is unusual above it.

import { chart, FORMATS, rangeChoice, spark } from "./chart.js";
import { h, say, setText } from "./dom.js";
import * as format from "./format.js";
import { store } from "./store.js";

/** Columns: title, key of the order, number of the figure. */
const COLUMNS = [
  ["Site", "name", null],
  ["Requests", "requests", 0],
  ["Errors", "errors", 1],
  ["Time", "seconds", 2],
  ["Processors", "processors", 3],
  ["Memory", "memory", 4],
  ["Waiting", "waiting", null],
];

const ORDERS = {
  trouble: (site) => site.rank * 1e6 + (site.figures[3] ?? 0),
  requests: (site) => site.figures[0] ?? -1,
  errors: (site) => site.failed + site.crashes,
  seconds: (site) => site.figures[2] ?? -1,
  processors: (site) => site.figures[3] ?? -1,
  memory: (site) => site.figures[4] ?? -1,
  waiting: (site) => site.waiting,
};

/** Rows above and below the visible ones. */
const SPARE = 4;

/** Sites that are named above the list, parts that are out, and warnings. */
const MAX_CARDS = 12;
const MAX_PROBLEMS = 4;
const MAX_WARNINGS = 50;

const choices = { order: "trouble", filter: "", idle: false };

/** Returns the address of the page of a site. */
export function addressOf(name) {
  return `#/site/${encodeURIComponent(name)}`;
}

/** Returns the notices of a site as a list. */
export function notices(site) {
  return h("ul", { class: "notices" }, site.notices.map(([rank, text]) =>
    h("li", { class: rank >= 4 ? "bad" : "odd", text })));
}

/** Shows the list in `main`. Returns what ends it. */
export function show(main) {
  const charts = [0, 1, 2, 3, 4].map((figure) => chart(figure, figure === 2 ? "Slowest" : undefined));
  const problems = h("div", { class: "problems" });
  const unusual = h("div", { class: "cards" });
  const warned = h("div", { class: "problems" });
  const summary = h("summary");
  const warnings = h("details", { class: "warnings", hidden: true }, summary, warned);
  const heading = h("h2", { id: "unusual" });
  const counted = h("span", { class: "counted", role: "status" });
  const list = new List();
  const filter = h("input", {
    type: "search", id: "filter", placeholder: "Filter by name", "aria-label": "Filter by name", value: choices.filter,
    oninput: () => { choices.filter = filter.value; update("choice"); },
  });
  const idle = h("input", {
    type: "checkbox", checked: choices.idle, onchange: () => { choices.idle = idle.checked; update("choice"); },
  });
  const order = h("select", {
    "aria-label": "Order", onchange: () => { choices.order = order.value; update("choice"); },
  }, [["trouble", "Trouble first"], ...COLUMNS.map(([title, key]) => [key, title])].map(([value, text]) =>
    h("option", { value, text, selected: choices.order === value })));
  list.onOrder = (key) => {
    choices.order = choices.order === key ? "trouble" : key;
    order.value = choices.order;
    update("choice");
  };

  main.replaceChildren(
    h("h1", { class: "unseen", text: "Sites" }),
    h("section", { class: "tiles", "aria-label": "The whole server" }, charts.map((each) => each.element)),
    h("section", { "aria-labelledby": "unusual" }, heading, problems, unusual, warnings),
    h("section", { "aria-label": "All sites" },
      h("div", { class: "bar" }, filter, order, h("label", { class: "check" }, idle, "Idle sites, too"),
        counted, rangeChoice(() => update("choice"))),
      list.element));

  let known = null;
  const update = (kind) => {
    const sites = [...store.sites.values()];
    charts.forEach((each, at) => each.update(0, store.total?.figures[at]));
    if (kind !== "history") {
      showUnusual(sites);
      list.choose(sites);
      const all = sites.length;
      setText(counted, list.sites.length === all ? `${all} sites` : `${list.sites.length} of ${all} sites`);
    }
    list.draw();
  };
  const showUnusual = (sites) => {
    const trouble = sites.filter((site) => site.notices.length > 0).sort(by("trouble"));
    setText(heading, trouble.length ? `Unusual now: ${trouble.length === 1 ? "1 site" : `${trouble.length} sites`}` : "Nothing unusual now");
    const cards = trouble.slice(0, MAX_CARDS).map((site) => h("article", { class: "trouble" },
      h("a", { href: addressOf(site.name), text: site.name }), notices(site)));
    if (trouble.length > MAX_CARDS) cards.push(h("p", { class: "more", text: `and ${trouble.length - MAX_CARDS} more, at the top of the list` }));
    replace(unusual, cards);
    const parts = store.server.problems || [];
    const severe = parts.filter((part) => part.level !== "warning");
    const above = severe.slice(0, MAX_PROBLEMS).map(problem);
    if (severe.length > MAX_PROBLEMS) {
      above.push(h("p", { class: "more" }, h("a", { href: "#/document", text: `and ${severe.length - MAX_PROBLEMS} more` })));
    }
    replace(problems, above);
    const others = parts.filter((part) => part.level === "warning");
    warnings.hidden = others.length === 0;
    setText(summary, others.length === 1 ? "1 warning" : `${others.length} warnings`);
    replace(warned, others.slice(0, MAX_WARNINGS).map(problem));
    const names = trouble.map((site) => site.name);
    const fresh = known ? names.filter((name) => !known.has(name)) : [];
    if (fresh.length) say(`Unusual: ${fresh.slice(0, 3).join(", ")}`);
    known = new Set(names);
  };
  const end = store.listen(update);
  const onScroll = () => list.draw();
  window.addEventListener("scroll", onScroll, { passive: true });
  window.addEventListener("resize", onScroll);
  update("choice");
  return () => {
    end();
    window.removeEventListener("scroll", onScroll);
    window.removeEventListener("resize", onScroll);
  };
}

/** Returns the element of a part of the document that is out, or of a warning. */
export function problem(part) {
  const title = part.level === "refused" ? "The document on the disk is refused; another one is served"
    : `${part.level === "out" ? "Out" : "Warning"}: ${part.kind} “${part.name}”`;
  return h("article", { class: `problem ${part.level}` }, h("strong", { text: title }),
    h("p", { text: part.reason }),
    h("small", { text: [part.file, part.since && `since ${part.since}`].filter(Boolean).join(" · ") }));
}

// Elements that are the same stay, so that focus and selection do.
function replace(parent, children) {
  const old = [...parent.children];
  children.forEach((child, at) => {
    if (!old[at]) parent.append(child);
    else if (!old[at].isEqualNode(child)) {
      const focused = old[at].contains(document.activeElement);
      old[at].replaceWith(child);
      if (focused) child.querySelector("a")?.focus();
    }
  });
  old.slice(children.length).forEach((child) => child.remove());
}

function by(order) {
  const number = ORDERS[order];
  const byName = (a, b) => a.name.localeCompare(b.name, "en", { numeric: true });
  return number ? (a, b) => number(b) - number(a) || byName(a, b) : byName;
}

// The list. Only the rows that can be seen are elements.
class List {
  sites = [];
  onOrder = () => {};
  #rows = new Map();

  constructor() {
    this.heads = COLUMNS.map(([title, key]) => {
      const button = h("button", { type: "button", text: title, onclick: () => this.onOrder(key) });
      return h("div", { role: "columnheader", class: `of-${key}` }, button);
    });
    this.body = h("div", { role: "rowgroup", class: "rows" });
    this.empty = h("p", { class: "empty", hidden: true });
    this.table = h("div", { role: "table", class: "sites", "aria-label": "Sites" },
      h("div", { role: "rowgroup" }, h("div", { role: "row", class: "heads", "aria-rowindex": "1" }, this.heads)), this.body);
    this.element = h("div", null, this.table, this.empty);
    this.body.addEventListener("keydown", (event) => this.#onKey(event));
  }

  choose(sites) {
    const filter = choices.filter.toLowerCase();
    const chosen = sites.filter((site) => (choices.idle || site.active || filter) && site.name.toLowerCase().includes(filter));
    this.sites = chosen.sort(by(choices.order));
    this.heads.forEach((head, at) => {
      const key = COLUMNS[at][1];
      const order = key === choices.order ? (key === "name" ? "ascending" : "descending") : "none";
      head.setAttribute("aria-sort", order);
    });
    this.table.setAttribute("aria-rowcount", String(chosen.length + 1));
    this.empty.hidden = chosen.length > 0;
    setText(this.empty, sites.length === 0 ? "The server has no site with requests so far."
      : filter ? "No site has this in its name." : "All sites are idle.");
  }

  draw() {
    const height = parseFloat(getComputedStyle(this.body).getPropertyValue("--row")) || 48;
    this.body.style.height = `${this.sites.length * height}px`;
    const above = -this.body.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(above / height) - SPARE);
    const last = Math.min(this.sites.length, Math.ceil((above + window.innerHeight) / height) + SPARE);
    const shown = new Set();
    const active = document.activeElement?.closest?.(".row");
    this.sites.slice(first, Math.max(last, first)).forEach((site, at) => {
      shown.add(site.id);
      let row = this.#rows.get(site.id);
      if (!row) {
        row = new Row(site);
        this.#rows.set(site.id, row);
      }
      row.update(site, first + at, height);
    });
    for (const [id, row] of this.#rows) {
      // A row with the focus stays, also out of sight.
      if (!shown.has(id) && row.element !== active) {
        row.element.remove();
        this.#rows.delete(id);
      }
    }
    // In the order of the list, for screen readers and the Tab key.
    let next = this.body.firstElementChild;
    this.sites.slice(first, Math.max(last, first)).forEach((site) => {
      const { element } = this.#rows.get(site.id);
      if (element === next) next = element.nextElementSibling;
      else if (element !== active || !element.isConnected) this.body.insertBefore(element, next);
    });
  }

  #onKey(event) {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
    const row = event.target.closest(".row");
    if (!row || (!step && event.key !== "Home" && event.key !== "End")) return;
    event.preventDefault();
    const at = Number(row.getAttribute("aria-rowindex")) - 2;
    const last = this.sites.length - 1;
    const to = event.key === "Home" ? 0 : event.key === "End" ? last : Math.min(Math.max(at + step, 0), last);
    const height = parseFloat(getComputedStyle(this.body).getPropertyValue("--row"));
    const top = this.body.getBoundingClientRect().top + to * height;
    const edge = 120;
    if (top < edge) window.scrollBy(0, top - edge);
    else if (top + height > window.innerHeight - 20) window.scrollBy(0, top + height - window.innerHeight + 20);
    this.draw();
    this.#rows.get(this.sites[to].id)?.link.focus({ preventScroll: true });
  }
}

class Row {
  constructor(site) {
    this.link = h("a", { href: addressOf(site.name), text: site.name });
    this.note = h("span", { class: "note" });
    this.figures = [0, 1, 2, 3, 4].map((figure) => ({ number: h("span", { class: "value" }), spark: spark(figure) }));
    this.waiting = h("span", { class: "value" });
    const cells = this.figures.map(({ number, spark: line }, at) =>
      h("div", { role: "cell", class: `of-${COLUMNS[at + 1][1]}`, "data-title": COLUMNS[at + 1][0] }, line.element, number));
    this.element = h("div", { role: "row", class: "row" },
      h("div", { role: "rowheader", class: "of-name" }, this.link, this.note), cells,
      h("div", { role: "cell", class: "of-waiting", "data-title": "Waiting" }, this.waiting));
  }

  update(site, at, height) {
    const { element } = this;
    element.style.transform = `translateY(${at * height}px)`;
    if (element.ariaRowIndex !== String(at + 2)) element.setAttribute("aria-rowindex", String(at + 2));
    const worst = site.notices[0];
    element.classList.toggle("bad", Boolean(worst && worst[0] >= 4));
    element.classList.toggle("odd", Boolean(worst && worst[0] < 4));
    element.classList.toggle("idle", !site.active);
    setText(this.note, site.notices.map(([, text]) => text).join(" · "));
    this.note.title = this.note.textContent;
    this.figures.forEach(({ number, spark: line }, figure) => {
      const text = figure === 1 ? (site.failed ? `${format.count(site.failed)}/min` : "0") : FORMATS[figure](site.figures[figure]);
      setText(number, text);
      line.update(site.id);
    });
    setText(this.waiting, site.waiting ? format.count(site.waiting) : "0");
  }
}
