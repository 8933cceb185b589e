// The last requests, live.

import { h, setText } from "./dom.js";
import * as format from "./format.js";
import { ask } from "./server.js";
import { store } from "./store.js";

/** Interval of the questions, in milliseconds. */
const INTERVAL = 1_000;

/** Requests on the page. */
const MAX_SHOWN = 300;

/** Parts of the time of a request, in their order. */
const PARTS = [["queue", "queue"], ["php_start", "start of PHP"], ["script", "script"], ["upstream", "upstream"], ["sending", "sending"]];

const choices = { site: "", status: "", slow: "" };

/** Returns a table of requests, the newest first. */
export function requestTable(title, requests, hasSite) {
  const heads = ["Time", hasSite && "Site", "Status", "Took", "Parts", "Request"].filter(Boolean);
  const body = h("tbody", null, requests.map((request) => row(request, hasSite)));
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title },
    h("table", { class: "requests" }, h("caption", { class: "unseen", text: title }),
      h("thead", null, h("tr", null, heads.map((text) => h("th", { scope: "col", class: text === "Took" ? "number" : null, text })))), body));
}

function row(request, hasSite) {
  const parts = PARTS.filter(([key]) => request[key] !== undefined);
  const words = parts.map(([key, title]) => `${title} ${format.seconds(request[key])}`);
  const more = [
    request.failure,
    request.cpu !== undefined && `processor ${format.seconds(request.cpu)}`,
    request.memory_peak !== undefined && `memory ${format.bytes(request.memory_peak)}`,
    request.servers && `servers ${request.servers.join(", ")}`,
    request.cache && `cache ${request.cache}`,
    request.cut_by && `cut by the ${request.cut_by}`,
  ].filter(Boolean);
  const kind = request.status >= 500 ? "bad" : request.status >= 400 ? "odd" : null;
  return h("tr", null,
    h("td", { class: "time", text: format.clock(request.time), title: request.time }),
    hasSite && h("td", null, h("a", { href: `#/site/${encodeURIComponent(request.site)}`, text: request.site })),
    h("td", null, h("span", { class: `status ${kind || ""}`, text: String(request.status) })),
    h("td", { class: `number${request.seconds >= 1 ? " odd" : ""}`, text: format.seconds(request.seconds) }),
    h("td", { title: [...words, ...more].join(", ") }, bar(request, parts), h("span", { class: "unseen", text: words.join(", ") })),
    h("td", { class: "long" }, h("span", { class: "method", text: request.method || "–" }), ` ${request.target || ""}`,
      more.length ? h("small", { text: ` ${more.join(", ")}` }) : null));
}

// The parts of the time as pieces of a bar.
function bar(request, parts) {
  const known = parts.reduce((sum, [key]) => sum + request[key], 0);
  const whole = Math.max(request.seconds, known, 1e-6);
  const pieces = parts.map(([key]) => {
    const piece = h("span", { class: `piece of-${key}` });
    piece.style.width = `${(100 * request[key]) / whole}%`;
    return piece;
  });
  return h("span", { class: "pieces", "aria-hidden": "true" }, pieces);
}

/** Shows the last requests in `main`. Returns what ends it. */
export function show(main) {
  let after = "";
  let isPaused = false;
  let isOver = false;
  let turn = 0;
  const change = () => {
    choices.site = site.value.trim();
    choices.status = status.value;
    choices.slow = slow.value;
    after = "";
    body.replaceChildren();
    turn += 1;
    refresh(turn);
  };
  const option = (chosen) => ([value, text]) => h("option", { value, text, selected: value === chosen });
  const site = h("input", { type: "search", list: "names", placeholder: "All sites", "aria-label": "Site", value: choices.site, onchange: change });
  const status = h("select", { "aria-label": "Status", onchange: change },
    [["", "Any status"], ["5xx", "5xx"], ["4xx", "4xx"], ["404", "404"], ["429", "429"], ["3xx", "3xx"], ["2xx", "2xx"]].map(option(choices.status)));
  const slow = h("select", { "aria-label": "Time", onchange: change },
    [["", "Any time"], ["0.1", "100 ms and more"], ["0.5", "500 ms and more"], ["1", "1 s and more"], ["5", "5 s and more"]].map(option(choices.slow)));
  const names = h("datalist", { id: "names" }, [...store.sites.values()].map(({ name }) => h("option", { value: name })));
  const pause = h("button", { type: "button", "aria-pressed": "false", text: "Pause", onclick: () => {
    isPaused = !isPaused;
    pause.setAttribute("aria-pressed", String(isPaused));
    setText(pause, isPaused ? "Continue" : "Pause");
  } });
  const note = h("span", { class: "counted", role: "status" });
  const legend = h("p", { class: "legend", "aria-hidden": "true" }, PARTS.map(([key, title]) => h("span", { class: `of-${key}`, text: title })));
  const view = requestTable("Last requests", [], true);
  const body = view.querySelector("tbody");
  main.replaceChildren(h("h1", { text: "Last requests" }),
    h("div", { class: "bar" }, site, names, status, slow, pause, note), legend, view);

  let timer;
  const refresh = async (own) => {
    clearTimeout(timer);
    if (!isPaused && !document.hidden) {
      const first = after === "";
      try {
        const answer = await ask("requests", { ...choices, after });
        if (isOver || own !== turn) return;
        after = answer.next;
        const fresh = answer.requests.reverse().map((request) => row(request, true));
        if (!first) for (const each of fresh) each.classList.add("fresh");
        body.prepend(...fresh);
        while (body.childElementCount > MAX_SHOWN) body.lastElementChild.remove();
        setText(note, body.childElementCount ? "" : "No such request so far");
      } catch (error) {
        if (isOver || own !== turn) return;
        setText(note, error.message);
      }
    }
    timer = setTimeout(refresh, INTERVAL, own);
  };
  refresh(turn);
  return () => {
    isOver = true;
    clearTimeout(timer);
  };
}
