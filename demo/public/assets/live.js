// Shows the events of /live/events. The browser reconnects by itself when an answer ends.
"use strict";

const at = (id) => document.getElementById("live-" + id);
const button = at("switch");
let source = null;

function start() {
  source = new EventSource("/live/events");
  at("state").textContent = "Connecting…";
  source.addEventListener("open", () => { at("state").textContent = "Connected"; });
  source.addEventListener("error", () => { at("state").textContent = "Coming back in a moment…"; });
  source.addEventListener("tick", (event) => {
    const tick = JSON.parse(event.data);
    at("count").textContent = tick.count;
    at("time").textContent = new Date(tick.time).toLocaleTimeString();
    at("worker").textContent = tick.pid + ", its request no. " + tick.requests.toLocaleString();
    at("memory").textContent = Math.round(tick.memory / 1024).toLocaleString() + " KB";
    at("entries").textContent = tick.entries.toLocaleString();
    at("newest").textContent = tick.newest ? tick.newest.name : "nobody";
  });
  button.textContent = "Pause";
}

function stop() {
  source.close();
  source = null;
  at("state").textContent = "Paused";
  button.textContent = "Start again";
}

button.hidden = false;
button.addEventListener("click", () => (source ? stop() : start()));
start();
