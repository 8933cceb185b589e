// Upstreams, caches, limits, certificates and the document.

import { confirmed, h, say, setText, table } from "./dom.js";
import * as format from "./format.js";
import { ask, send } from "./server.js";
import { problem } from "./sites.js";
import { store } from "./store.js";

/** Interval of the questions, in milliseconds. */
const INTERVAL = 2_000;

const PAGES = { upstreams, caches, limits, certificates, document: documents };

/** Shows a part of the server in `main`. Returns what ends it. */
export function show(main, name) {
  const content = h("div", { class: "details" });
  const result = h("span", { class: "result", role: "status" });
  main.replaceChildren(h("div", { class: "title" }, h("h1", { text: name[0].toUpperCase() + name.slice(1) }), result), content);
  let isOver = false;
  let timer;
  let shown = "";
  const act = async (body, words) => {
    setText(result, "…");
    try {
      const answer = await send("do", body);
      setText(result, answer.note || words);
      say(words);
    } catch (error) {
      setText(result, error.message);
    }
    clearTimeout(timer);
    refresh();
  };
  const refresh = async () => {
    if (!document.hidden) {
      try {
        const parts = await ask("parts");
        if (isOver) return;
        const text = JSON.stringify([parts, store.server]);
        if (text !== shown) {
          shown = text;
          const focused = document.activeElement?.dataset?.name;
          content.replaceChildren(...[PAGES[name](parts, act)].flat());
          if (focused) [...content.querySelectorAll("[data-name]")].find((each) => each.dataset.name === focused)?.focus();
        }
      } catch (error) {
        if (isOver) return;
        if (!content.firstChild) content.replaceChildren(none(error.message));
      }
    }
    timer = setTimeout(refresh, INTERVAL);
  };
  refresh();
  return () => {
    isOver = true;
    clearTimeout(timer);
  };
}

function none(text) {
  return h("p", { class: "empty", text });
}

function button(name, text, onclick) {
  return h("button", { type: "button", class: "small", "data-name": name, text, onclick });
}

function upstreams({ upstreams: all = {}, buttons, drained = [] }, act) {
  const names = Object.entries(all);
  if (!names.length) return none("The document has no upstream.");
  return names.map(([name, { servers }]) => {
    const rows = Object.entries(servers).map(([server, state]) => {
      const isDrained = drained.some(([a, b]) => a === name && b === server);
      const key = `drain ${JSON.stringify([name, server])}`;
      const code = buttons?.[key];
      const kind = { up: "good", failing: "bad", unhealthy: "bad", draining: "odd" }[state.state];
      const drain = code && button(key, isDrained ? "Use again" : "Drain", () => act(
        { do: "drain", name, server, drains: !isDrained, code }, isDrained ? `${server} is used again` : `${server} drains`));
      return [server, h("span", { class: `state ${kind || ""}`, text: state.state }), format.count(state.requests.active),
        format.count(state.requests.total), { text: format.count(state.failures), class: state.failures ? "odd" : null }, drain || ""];
    });
    return h("section", null, h("h2", { text: name }),
      table(`Servers of ${name}`, ["Server", "State", "Active", "Requests", "Failures", ""], rows, { numbers: [2, 3, 4] }));
  });
}

function caches({ caches: all = {}, buttons }, act) {
  const names = Object.entries(all);
  if (!names.length) return none("The document has no cache.");
  return names.map(([name, cache]) => {
    const code = buttons?.[`purge ${name}`];
    const answered = cache.hits + cache.stale + cache.collapsed + cache.misses + cache.bypassed + cache.revalidated;
    const rows = [
      ["Answered from the cache", format.percent(cache.hits + cache.stale + cache.collapsed, answered)],
      ["Memory", `${format.bytes(cache.bytes)} of ${format.bytes(cache.memory)}, ${format.count(cache.entries)} entries`],
      ["Hits, stale, collapsed", [cache.hits, cache.stale, cache.collapsed].map(format.count).join(", ")],
      ["Misses, bypassed, validated", [cache.misses, cache.bypassed, cache.revalidated].map(format.count).join(", ")],
      ["Stored, refused", [cache.stored, cache.refused].map(format.count).join(", ")],
      ["Purges", format.count(cache.purges)],
    ];
    if (cache.disk_size !== undefined) {
      rows.push(["Disk", `${format.bytes(cache.disk_bytes)} of ${format.bytes(cache.disk_size)}, ${format.count(cache.disk_entries)} entries, ${format.count(cache.disk_errors)} errors`]);
    }
    const purge = code && button(`purge ${name}`, "Purge …", async () => {
      const text = "Stored pages that begin with this URL are removed. Without a URL, all of them are; visitors then wait until pages are made again.";
      const answer = await confirmed(`Purge the cache ${name}?`, text, "Purge", "example.org/blog/");
      if (answer) await act({ do: "purge", name, prefix: answer.value || null, code }, `${name} was purged`);
    });
    return h("section", null, h("div", { class: "title" }, h("h2", { text: name }), purge || null),
      h("dl", { class: "facts" }, rows.map(([title, text]) => h("div", null, h("dt", { text: title }), h("dd", { text })))));
  });
}

function limits({ limits: all = {} }) {
  const names = Object.entries(all);
  if (!names.length) return none("The document has no limit.");
  const rows = names.map(([name, limit]) => [
    name, format.count(limit.requests), format.count(limit.delayed), { text: format.count(limit.refused), class: limit.refused ? "odd" : null },
    format.count(limit.closed), format.count(limit.dry_run), format.count(limit.penalties), format.count(limit.keys),
  ]);
  const keys = names.flatMap(([name, limit]) => limit.top.map((key) => [name, { text: key.key, class: "long" }, format.count(key.refused), `${format.seconds(key.seconds)} ago`]));
  return [
    table("Limits", ["Limit", "Requests", "Delayed", "Refused", "Closed", "Dry run", "Penalties", "Keys"], rows, { numbers: [1, 2, 3, 4, 5, 6, 7] }),
    keys.length ? h("section", null, h("h2", { text: "Most refused" }), table("Most refused", ["Limit", "Key", "Refused", "Last"], keys, { numbers: [2] })) : null,
  ].filter(Boolean);
}

function certificates({ certificates: all = {}, listeners = {} }) {
  const sections = [];
  const names = Object.entries(all).sort(([, a], [, b]) => (Date.parse(a.expires) || 0) - (Date.parse(b.expires) || 0));
  if (names.length) {
    const rows = names.map(([name, certificate]) => {
      const days = (Date.parse(certificate.expires) - Date.now()) / 86_400_000;
      const kind = certificate.expires === null || days < 3 ? "bad" : days < 14 ? "odd" : null;
      const { renewal } = certificate;
      const state = !renewal ? "" : renewal.error ? `${renewal.failures} failures: ${renewal.error}` : renewal.next ? `next attempt ${format.away(renewal.next)}` : "is being ordered";
      return [name, { text: certificate.names.join(", "), class: "long" },
        { text: certificate.expires ? format.away(certificate.expires) : "not obtained yet", class: kind, title: certificate.expires },
        { text: state, class: renewal?.failures ? "odd" : null }];
    });
    sections.push(table("Certificates", ["Certificate", "Names", "Expires", "Renewal"], rows));
  } else {
    sections.push(none("No listener uses a certificate."));
  }
  const tls = Object.entries(listeners).filter(([, listener]) => listener.tls);
  if (tls.length) {
    const rows = tls.map(([name, listener]) => [
      name, format.count(listener.tls.handshakes), format.percent(listener.tls.resumed, listener.tls.handshakes), format.count(listener.tls.failed),
      Object.entries(listener.tls.versions || {}).map(([version, times]) => `${version} ${format.count(times)}`).join(", "),
    ]);
    sections.push(h("section", null, h("h2", { text: "Handshakes" }), table("Handshakes", ["Listener", "Handshakes", "Resumed", "Failed", "Versions"], rows, { numbers: [1, 2, 3] })));
  }
  return sections;
}

function documents({ connections = {}, requests = {}, memory = {}, listeners = {}, cluster, protection = {}, landlock, buttons }, act) {
  const { server } = store;
  const facts = [
    ["Version", server.version], ["Started", `${format.away(server.started)} (${server.started})`],
    ["PHP", (server.php || []).join(", ")], ["Source", server.document || "the control API"],
    ["Generation", `${server.generation}, in use since ${format.away(server.applied).replace(/ ago$/, "")}`],
    ["Log", server.log], ["Listeners", Object.keys(listeners).join(", ")],
    ["Connections", `${format.count(connections.active)} active, ${format.count(connections.idle)} idle, ${format.count(connections.accepted)} accepted`],
    ["Requests", format.count(requests.total)],
    ["Memory of PHP", `${format.bytes(memory.used)}${memory.budget ? ` of ${format.bytes(memory.budget)}` : ""}`],
    ["Restrictions of the router", (protection.restrictions || []).join(", ")], ["Landlock", landlock ? `version ${landlock}` : "none"],
  ];
  if (cluster) facts.push(["Shared through", `${cluster.server}, ${cluster.connected ? "connected" : "not connected"}`]);
  if (server.replaced) facts.push(["Last replaced process", `${server.replaced.reason} (${server.replaced.at})`]);
  const code = buttons?.reload;
  const reload = code && button("reload", "Reload", async () => {
    const text = "The document is read again from its source. If it is refused, the one in use stays.";
    if (await confirmed("Reload the document?", text, "Reload")) await act({ do: "reload", code }, "reloaded");
  });
  const problems = (server.problems || []).map(problem);
  return [
    h("div", { class: "problems" }, problems.length ? problems : h("p", { class: "good", text: "The document is in use as a whole." })),
    h("dl", { class: "facts" }, facts.filter(([, text]) => text).map(([title, text]) => h("div", null, h("dt", { text: title }), h("dd", { text })))),
    reload || null,
  ].filter(Boolean);
}
