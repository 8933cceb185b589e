// Requests to the server of this page. Each has the key of the session, which only this origin knows.

const KEY = "howdah-key";

/** A refusal of the server. */
export class Refusal extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

function headers(more) {
  return { "X-Howdah-Key": localStorage.getItem(KEY) || "", ...more };
}

async function answer(response) {
  const value = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refusal(response.status, value.problem || `status ${response.status}`);
  return value;
}

/** Asks the server. */
export async function ask(name, parameters) {
  const query = parameters ? `?${new URLSearchParams(parameters)}` : "";
  return answer(await fetch(`api/${name}${query}`, { headers: headers() }));
}

/** Has the server do something. */
export async function send(name, body) {
  const type = { "Content-Type": "application/json" };
  return answer(await fetch(`api/${name}`, { method: "POST", headers: headers(type), body: JSON.stringify(body) }));
}

/** Logs in with a code or the token. */
export async function logIn(code) {
  const { key } = await send("log-in", { code });
  localStorage.setItem(KEY, key);
}

/** Logs out. */
export async function logOut() {
  await send("log-out", {}).catch(() => {});
  localStorage.removeItem(KEY);
}

// An EventSource cannot send the key.
async function read(response, receive) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    for (let end; (end = text.indexOf("\n\n")) >= 0;) {
      const lines = text.slice(0, end).split("\n");
      text = text.slice(end + 2);
      const of = (name) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
      const data = of("data");
      if (data) receive(of("event"), JSON.parse(data));
    }
  }
}

/** Receives events until the session ends. `onState` hears `live`, or why there is no connection. */
export async function listen(receive, onState) {
  for (let pause = 500; ; pause = Math.min(pause * 2, 10_000)) {
    const stop = new AbortController();
    // There is a message a second; a connection without one is dead.
    let watch;
    const alive = () => { clearTimeout(watch); watch = setTimeout(() => stop.abort(), 20_000); };
    try {
      alive();
      const response = await fetch("api/events", { headers: headers(), signal: stop.signal });
      if (response.status === 401) return;
      if (response.ok) {
        onState(null);
        await read(response, (kind, data) => { alive(); pause = 500; receive(kind, data); });
      }
    } catch (error) {
      console.debug(error);
    } finally {
      clearTimeout(watch);
    }
    onState("no connection");
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}
