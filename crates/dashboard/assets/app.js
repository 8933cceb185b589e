// The frame of the page: log-in, tabs, and the part that is shown.

import { h, setText } from "./dom.js";
import * as parts from "./parts.js";
import * as requests from "./requests.js";
import { ask, listen, logIn, logOut } from "./server.js";
import * as site from "./site.js";
import * as sites from "./sites.js";
import { store } from "./store.js";

const TABS = ["sites", "requests", "upstreams", "caches", "limits", "certificates", "document"];

const main = document.getElementById("main");
const header = document.getElementById("top");
const live = document.getElementById("live");
const alarm = document.getElementById("alarm");
let end = () => {};

function title(text) {
  return text[0].toUpperCase() + text.slice(1);
}

// The part that the fragment of the address names.
function part() {
  const [, name, ...rest] = location.hash.split("/");
  if (name === "site" && rest.length) {
    let decoded = rest.join("/");
    try { decoded = decodeURIComponent(decoded); } catch { /* it stays as it is */ }
    return { tab: "sites", name: decoded };
  }
  return { tab: TABS.includes(name) ? name : "sites" };
}

function show() {
  end();
  const { tab, name } = part();
  for (const link of document.querySelectorAll("#tabs a")) {
    if (link.dataset.tab === tab) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${name || title(tab)} – Howdah`;
  window.scrollTo(0, 0);
  if (name) end = site.show(main, name);
  else if (tab === "sites") end = sites.show(main);
  else if (tab === "requests") end = requests.show(main);
  else end = parts.show(main, tab);
}

function begin() {
  header.hidden = false;
  document.getElementById("tabs").replaceChildren(...TABS.map((tab) =>
    h("a", { href: tab === "sites" ? "#/" : `#/${tab}`, "data-tab": tab, text: title(tab) })));
  let isShown = false;
  listen((kind, data) => {
    store.receive(kind, data);
    if (!isShown) {
      isShown = true;
      show();
      window.addEventListener("hashchange", () => { show(); main.focus({ preventScroll: true }); });
    }
    alarm.hidden = !store.problem;
    setText(alarm, store.problem ? `The server does not answer: ${store.problem}` : "");
  }, (problem) => {
    live.classList.toggle("lost", Boolean(problem));
    setText(live, problem || "live");
  }).then(() => location.reload());
  setText(main, "");
  main.append(h("p", { class: "empty", text: "Waiting for the first figures …" }));
}

// How to log in, and the problem of the last attempt.
function showLogIn(advice, problem) {
  header.hidden = true;
  const code = h("input", { id: "code", type: "password", autocomplete: "off", required: true });
  const note = h("p", { class: "result", role: "alert", text: problem });
  const form = h("form", { class: "log-in", onsubmit: async (event) => {
    event.preventDefault();
    try {
      await logIn(code.value.trim());
      begin();
    } catch (error) {
      setText(note, error.message);
      code.select();
    }
  } },
  h("img", { src: "icon.svg", alt: "", width: "48", height: "48" }), h("h1", { text: "Howdah" }),
  h("p", { text: sentence(advice) }),
  h("label", { for: "code", text: "Code or token" }), code, h("button", { type: "submit", class: "main", text: "Log in" }), note);
  main.replaceChildren(form);
  code.focus();
}

// Nobody can log in here: the reason takes the place of the form, so that no secret is typed.
function showRefusal(reason) {
  header.hidden = true;
  main.replaceChildren(h("p", { class: "empty", role: "alert", text: sentence(reason) }));
}

function sentence(text) {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

// The theme of the system, unless another one was chosen.
function theme() {
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const set = (name) => {
    if (name) document.documentElement.dataset.theme = name;
    setText(button, isDark() ? "Light" : "Dark");
  };
  set(localStorage.getItem("howdah-theme"));
  system.addEventListener("change", () => set());
  button.addEventListener("click", () => {
    const name = isDark() ? "light" : "dark";
    localStorage.setItem("howdah-theme", name);
    set(name);
  });
}

function keys() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.closest("input, select, textarea, dialog")) return;
    if (event.key === "/") {
      const field = document.getElementById("filter");
      if (field) { event.preventDefault(); field.focus(); }
    } else if (event.key === "Escape" && part().name) {
      location.hash = "#/";
    }
  });
}

// The code of a link.
function codeOfLink() {
  return location.hash.match(/^#log-in=([0-9a-f]+)$/)?.[1];
}

async function start() {
  theme();
  keys();
  document.getElementById("log-out").addEventListener("click", async () => {
    await logOut();
    location.reload();
  });
  // A browser loads nothing for a link that is opened in the tab of the page.
  window.addEventListener("hashchange", () => { if (codeOfLink()) location.reload(); });
  const code = codeOfLink();
  let problem = "";
  if (code) {
    // The code does not stay in the history of the browser.
    history.replaceState(null, "", location.pathname);
    await logIn(code).catch((error) => { problem = error.message; });
  }
  try {
    await ask("session");
    begin();
  } catch (error) {
    if (error.status === 401) showLogIn(error.message, problem);
    else showRefusal(error.message);
  }
}

start();
