// Elements. Texts of the server are set as text only, so that no name becomes markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "text") element.textContent = value;
    else if (name === "value") element.value = value;
    else if (name === "checked") element.checked = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== undefined && child !== null && child !== false) element.append(child);
  }
  return element;
}

/** Returns a new element. `on…` are listeners, `text` is its text, the others are attributes. */
export function h(tag, properties, ...children) {
  return fill(document.createElement(tag), properties, children);
}

/** Returns a new element of a drawing. */
export function s(tag, properties, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

/** Replaces the text of an element if it differs, so that nothing is drawn without need. */
export function setText(element, text) {
  if (element.firstChild?.nodeValue !== text || element.childNodes.length > 1) element.textContent = text;
}

/** Returns a table with a caption for screen readers. A cell is a text, a node, or {text, class}. */
export function table(caption, headings, rows, options = {}) {
  const numbers = options.numbers || [];
  const cell = (tag, content, at) => {
    const number = numbers.includes(at) ? "number" : "";
    if (content instanceof Node) return h(tag, { class: number || null }, content);
    const given = content !== null && typeof content === "object" ? content : { text: content };
    const names = [number, given.class].filter(Boolean).join(" ");
    return h(tag, { class: names || null, text: given.text ?? "", title: given.title });
  };
  const head = h("tr", null, headings.map((heading, at) =>
    h("th", { scope: "col", class: numbers.includes(at) ? "number" : null, text: heading })));
  const body = rows.map((row) => h("tr", null, row.map((content, at) => cell("td", content, at))));
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", null, h("caption", { class: "unseen", text: caption }),
      h("thead", null, head), h("tbody", null, body)));
}

/** Says something to screen readers. */
export function say(text) {
  document.getElementById("said").textContent = text;
}

/** Asks before something is done. Returns a promise of true or false. */
export function confirmed(title, text, button, field) {
  const dialog = document.getElementById("dialog");
  return new Promise((resolve) => {
    const input = field && h("input", { type: "text", "aria-label": field, placeholder: field });
    const answer = (value) => () => { dialog.close(); resolve(value); };
    const yes = h("button", { type: "button", class: "main", text: button });
    yes.addEventListener("click", () => answer(input ? { value: input.value.trim() } : true)());
    dialog.replaceChildren(h("h2", { id: "dialog-title", text: title }), h("p", { text }), input || "",
      h("div", { class: "buttons" }, h("button", { type: "button", onclick: answer(false), text: "Cancel" }), yes));
    dialog.oncancel = () => resolve(false);
    dialog.showModal();
    (input || yes).focus();
  });
}
