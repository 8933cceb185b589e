// The sites with their last figures and their histories, and those who want to hear of changes.

import { ask } from "./server.js";

/** Figures of a site, in the order of their histories. */
export const FIGURES = ["requests", "errors", "seconds", "processors", "memory"];

/** Number of histories that are asked for at a time. */
const BATCH = 50;

/** Time after which the histories of a longer range are asked for again, in milliseconds. */
const REFRESH = { "5m": Infinity, "1h": 15_000, "1d": 60_000 };

class Store {
  sites = new Map();
  server = {};
  total = null;
  second = 0;
  problem = null;
  range = "5m";
  histories = new Map();
  #wanted = new Set();
  #asking = false;
  #listeners = new Set();

  /** Calls `listener` after each change, until the returned function is called. */
  listen(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Takes an event of the server. */
  receive(kind, data) {
    if (kind === "all") {
      this.sites.clear();
      this.histories.clear();
    }
    this.second = data.second;
    this.problem = data.problem || null;
    this.total = data.total || this.total;
    if (data.server) this.server = data.server;
    for (const frame of data.sites || []) this.#take(frame);
    for (const id of data.gone || []) {
      this.sites.delete(id);
      this.histories.delete(id);
    }
    if (!this.problem && kind === "tick") this.#grow();
    for (const listener of this.#listeners) listener(kind);
  }

  #take(frame) {
    const [id, name, requests, errors, seconds, processors, memory, failed, waiting, crashes, active, notices] = frame;
    this.sites.set(id, {
      id, name, figures: [requests, errors, seconds, processors, memory], failed, waiting, crashes,
      active: active === 1, notices,
      rank: notices.reduce((sum, [rank]) => sum + rank, 0),
    });
  }

  /** Returns the site of a name. */
  named(name) {
    for (const site of this.sites.values()) if (site.name === name) return site;
    return null;
  }

  /** Chooses the time of histories. */
  setRange(range) {
    this.range = range;
    this.histories.clear();
  }

  // Each second is a point of the shortest range.
  #grow() {
    if (this.range !== "5m") return;
    for (const [id, history] of this.histories) {
      if (!history.values) continue;
      const figures = id === 0 ? this.total?.figures : this.sites.get(id)?.figures;
      const missed = Math.min(this.second - history.second, history.points);
      if (missed <= 0 || !figures) continue;
      for (const [at, values] of history.values.entries()) {
        for (let number = 0; number < missed; number++) values.push(figures[at]);
        if (values.length > history.points) values.splice(0, values.length - history.points);
      }
      history.second = this.second;
    }
  }

  /** Returns the history of a site (0: of the server); undefined until it has come. */
  history(id) {
    const known = this.histories.get(id);
    if (!known || Date.now() - known.asked > REFRESH[this.range]) this.#want(id);
    return known?.values ? known : undefined;
  }

  #want(id) {
    this.#wanted.add(id);
    if (this.#asking) return;
    this.#asking = true;
    queueMicrotask(async () => {
      while (this.#wanted.size > 0) await this.#fetch([...this.#wanted].slice(0, BATCH)).catch(() => {});
      this.#asking = false;
      for (const listener of this.#listeners) listener("history");
    });
  }

  async #fetch(ids) {
    const range = this.range;
    for (const id of ids) this.#wanted.delete(id);
    const asked = Date.now();
    for (const id of ids) {
      const known = this.histories.get(id);
      if (known) known.asked = asked;
      else this.histories.set(id, { asked });
    }
    const answer = await ask("histories", { ids: ids.join(","), range });
    if (range !== this.range) return;
    for (const id of ids) {
      const values = answer.sites[id] || FIGURES.map(() => []);
      this.histories.set(id, { asked, second: answer.second, points: answer.points, values });
    }
  }
}

export const store = new Store();
