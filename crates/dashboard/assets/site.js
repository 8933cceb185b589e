// One site: its figures, processes, slow scripts and last requests.

import { chart, rangeChoice } from "./chart.js";
import { confirmed, h, say, setText, table } from "./dom.js";
import * as format from "./format.js";
import { requestTable } from "./requests.js";
import { ask, send } from "./server.js";
import { notices } from "./sites.js";
import { store } from "./store.js";

/** Interval of the questions about a site, in milliseconds. */
const INTERVAL = 2_000;

/** Shows a site in `main`. Returns what ends it. */
export function show(main, name) {
  const charts = [0, 1, 2, 3, 4].map((figure) => chart(figure));
  const unusual = h("div", { class: "of-site", "aria-live": "polite" });
  const facts = h("dl", { class: "facts" });
  const buttons = h("div", { class: "buttons" });
  const details = h("div", { class: "details" });
  const update = () => {
    const site = store.named(name);
    charts.forEach((each, at) => each.update(site?.id ?? -1, site?.figures[at]));
    const list = site ? notices(site) : h("p", { text: "This site has no requests and no processes." });
    if (!unusual.firstElementChild?.isEqualNode(list)) unusual.replaceChildren(list);
  };
  main.replaceChildren(
    h("nav", { class: "path", "aria-label": "Path" }, h("a", { href: "#/", text: "Sites" }), " › "),
    h("div", { class: "title" }, h("h1", { text: name }), buttons),
    h("div", { class: "bar" }, unusual, rangeChoice(update)),
    h("section", { class: "tiles large", "aria-label": "Figures" }, charts.map((each) => each.element)),
    facts, details);
  const end = store.listen(update);
  update();

  let isOver = false;
  let before = null;
  let timer;
  const refresh = async () => {
    if (!document.hidden) {
      try {
        const answer = await ask("site", { name });
        if (isOver) return;
        showButtons(buttons, answer);
        showFacts(facts, answer);
        showDetails(details, answer, before);
        before = { at: performance.now(), processes: new Map((answer.pool?.procs || []).map((each) => [each.pid, each])) };
      } catch (error) {
        if (isOver) return;
        if (!details.firstChild) details.replaceChildren(h("p", { class: "empty", text: error.message }));
      }
    }
    timer = setTimeout(refresh, INTERVAL);
  };
  refresh();
  return () => {
    isOver = true;
    clearTimeout(timer);
    end();
  };
}

function showButtons(parent, answer) {
  const code = answer.buttons?.restart;
  if (!code || parent.firstChild) {
    if (!code) parent.replaceChildren();
    return;
  }
  const restart = h("button", { type: "button", text: "Restart", title: "Replaces all processes, without interrupting a request" });
  const result = h("span", { class: "result", role: "status" });
  restart.addEventListener("click", async () => {
    const text = "All its processes are replaced. Requests that run are completed, and new ones wait for the new processes.";
    if (!await confirmed(`Restart ${answer.name}?`, text, "Restart")) return;
    restart.disabled = true;
    setText(result, "restarting …");
    try {
      await send("do", { do: "restart", name: answer.name, code });
      setText(result, "restarted");
      say(`${answer.name} was restarted`);
    } catch (error) {
      setText(result, error.message);
    }
    restart.disabled = false;
  });
  parent.replaceChildren(result, restart);
}

function showFacts(parent, { application, php, pool, out }) {
  const facts = [];
  const add = (title, text) => { if (text !== null && text !== undefined && text !== "") facts.push([title, text]); };
  if (out) add("Out", out.reason);
  if (application) {
    add("Problem", application.problem);
    const { running, starting, idle } = application.processes;
    add("Processes", `${running - idle} busy, ${idle} idle${starting ? `, ${starting} starting` : ""}${pool?.["max-processes"] ? `, at most ${pool["max-processes"]}` : ""}`);
    add("Queue", `${Math.max(application.requests.active - (running - idle), 0)} waiting`);
  }
  if (php) {
    add("PHP", php.state);
    if (php.processes?.programs) add("Programs of scripts", format.count(php.processes.programs));
    const { activity } = php;
    if (activity) {
      add("Requests", format.count(activity.accepted));
      add("Slow", format.count(activity.slow));
      if (activity.timed_out) add("Timed out", format.count(activity.timed_out));
      if (activity.exhausted) add("Queue was full of waiting", format.count(activity.exhausted));
      if (activity.memory_peak) add("Highest memory of a script", format.bytes(activity.memory_peak));
      const ends = Object.entries(activity.ends || {}).map(([reason, times]) => `${reason.replaceAll("_", " ")} ${times}`);
      if (ends.length) add("Ends of processes", ends.join(", "));
      if (activity.dropped_lines) add("Log lines left out", format.count(activity.dropped_lines));
    }
    if (php.opcache?.enabled) {
      const { hits, misses, memory, scripts } = php.opcache;
      add("OPcache", `${format.count(scripts)} scripts, ${format.percent(hits, hits + misses)} hits, ${format.percent(memory.used, memory.used + memory.free + memory.wasted)} full`);
    }
    if (php.limits) {
      const { memory, cpu, processes } = php.limits;
      add("Limits", [memory && format.bytes(memory), cpu && `${cpu} processors`, processes && `${processes} processes`].filter(Boolean).join(", "));
    }
  }
  const elements = facts.map(([title, text]) => h("div", null, h("dt", { text: title }), h("dd", { text })));
  const fresh = h("dl", null, elements);
  if (parent.childElementCount !== elements.length || ![...parent.children].every((old, at) => old.isEqualNode(fresh.children[at]))) {
    parent.replaceChildren(...elements);
  }
}

function section(title, ...content) {
  return h("section", null, h("h2", { text: title }), content);
}

function showDetails(parent, answer, before) {
  // A selection, and a table that is being scrolled by keys, stay.
  if (parent.contains(document.activeElement) || (getSelection()?.type === "Range" && parent.contains(getSelection().anchorNode))) return;
  const open = new Set([...parent.querySelectorAll("details[open]")].map((each) => each.dataset.id));
  const sections = [];
  if (answer.pool) sections.push(section("Processes", processes(answer.pool.procs || [], before)));
  if (answer.stacks?.length) {
    sections.push(section("Slow scripts", answer.stacks.map((each) => stack(each, open))));
  }
  for (const [title, requests] of [["Last errors", answer.errors], ["Slow requests", answer.slow], ["Last requests", answer.requests]]) {
    if (requests.length) sections.push(section(title, requestTable(title, [...requests].reverse(), false)));
  }
  if (!sections.length) sections.push(h("p", { class: "empty", text: "No process and no request is known." }));
  const positions = [...parent.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
  parent.replaceChildren(...sections);
  [...parent.querySelectorAll(".scroll")].forEach((each, at) => { each.scrollLeft = positions[at] || 0; });
}

function stack(each, open) {
  return h("details", { "data-id": each.id, open: open.has(each.id) },
    h("summary", null, h("span", { class: "time", text: format.clock(each.time) }), ` ${each.method} ${each.target} `,
      h("strong", { text: `${format.seconds(each.ran)}${each.is_ended ? ", ended" : ""}` })),
    h("small", { text: each.script }),
    h("pre", { text: each.stack.join("\n") || each.problem || "" }));
}

function processes(all, before) {
  const busy = (each) => each.state !== "Idle";
  const sorted = [...all].sort((a, b) => busy(b) - busy(a) || (busy(a) ? b["request-duration"] - a["request-duration"] : a.pid - b.pid));
  const time = before ? (performance.now() - before.at) / 1000 : 0;
  const used = (each) => {
    const old = before?.processes.get(each.pid);
    if (!old || time < 0.5) return "–";
    return `${Math.max(0, (100 * (each["processor-time"] - old["processor-time"])) / 1e6 / time).toFixed(0)} %`;
  };
  const rows = sorted.map((each) => {
    // Its values may be secrets, which only lists of requests can tell.
    const query = each["query-string"] ? "?…" : "";
    const request = each["request-method"] && each["request-method"] !== "-" ? `${each["request-method"]} ${each["request-uri"]}${query}` : "";
    return [
      String(each.pid), { text: each.state, class: busy(each) ? "busy" : null }, format.seconds(each["request-duration"] / 1e6), used(each),
      format.bytes(each.memory), format.count(each.requests), { text: each.script, class: "long" }, { text: request, class: "long" },
    ];
  });
  return table("Processes", ["PID", "State", "Time", "CPU", "Memory", "Requests", "Script", "Request"], rows, { numbers: [0, 2, 3, 4, 5] });
}
