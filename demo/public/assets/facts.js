// Asks /api/facts many times and shows how the answers spread over the workers.
"use strict";

const TOTAL = 60;
const AT_ONCE = 6; // what browsers allow to one host
const at = (id) => document.getElementById("crew" + (id ? "-" + id : ""));

async function ask(workers) {
  const response = await fetch("/api/facts", { cache: "no-store" });
  if (!response.ok) {
    throw new Error("status " + response.status);
  }
  const facts = await response.json();
  const worker = workers.get(facts.pid) ?? { answers: 0, requests: 0 };
  worker.answers += 1;
  worker.requests = Math.max(worker.requests, facts.requests);
  workers.set(facts.pid, worker);
}

function show(workers) {
  const rows = [...workers].sort((a, b) => b[1].answers - a[1].answers).map(([pid, worker]) => {
    const row = document.createElement("li");
    const name = document.createElement("span");
    const bar = document.createElement("meter");
    const count = document.createElement("span");
    name.textContent = "Worker " + pid;
    bar.max = TOTAL;
    bar.value = worker.answers;
    count.textContent = worker.answers + " (" + worker.requests.toLocaleString() + " in its life)";
    row.append(name, bar, count);
    return row;
  });
  at("list").replaceChildren(...rows);
}

async function run() {
  const button = at("start");
  const workers = new Map();
  const begun = performance.now();
  let left = TOTAL;
  let failed = 0;
  button.disabled = true;
  const line = async () => {
    while (left > 0) {
      left -= 1;
      try {
        await ask(workers);
      } catch {
        failed += 1;
      }
      show(workers);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, line));
  const time = Math.round(performance.now() - begun);
  at("state").textContent = `${TOTAL - failed} answers from ${workers.size} ${workers.size === 1 ? "worker" : "workers"} in ${time} ms`
    + (failed ? `, ${failed} without an answer.` : ".");
  button.disabled = false;
}

at("").hidden = false;
at("start").addEventListener("click", run);
