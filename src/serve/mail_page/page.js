// Shows the messages of a file in mbox format. What they contain is text here, and pages of theirs are
// in frames without scripts, forms and requests.

const INTERVAL = 2000;
const MAX_DEPTH = 10;
const POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";
const list = document.getElementById("list");
const view = document.getElementById("message");
let messages = [], length = 0;

// A byte is a character.
const bytes = text => Uint8Array.from(text, character => character.charCodeAt(0));

const decode = (text, charset) => {
    try {
        return new TextDecoder(charset || "utf-8").decode(bytes(text));
    } catch {
        return new TextDecoder().decode(bytes(text));
    }
};

const base64 = text => {
    try {
        return atob(text.replace(/[^A-Za-z0-9+/]/g, ""));
    } catch {
        return text;
    }
};

const hex = text => text.replace(/=([0-9A-F]{2})/gi, (_, code) => String.fromCharCode(parseInt(code, 16)));

// Encoded words of fields (RFC 2047).
const word = (_, charset, kind, text) =>
    decode(kind.toUpperCase() === "B" ? base64(text) : hex(text.replace(/_/g, " ")), charset);

const shown = value => decode(value.replace(/\n[ \t]+/g, " "))
    .replace(/(=\?[^?\s]+\?[bq]\?[^?\s]*\?=)\s+(?==\?)/gi, "$1")
    .replace(/=\?([^?*\s]+)[^?\s]*\?([bq])\?([^?\s]*)\?=/gi, word);

const parse = text => {
    const end = text.indexOf("\n\n");
    const head = end < 0 ? text : text.slice(0, end);
    const fields = [...head.matchAll(/^([^\s:]+):[ \t]*(.*(?:\n[ \t].*)*)/gm)]
        .map(([, name, value]) => [name.toLowerCase(), value]);
    const field = name => fields.find(([other]) => other === name)?.[1] ?? "";
    return { fields, field, body: end < 0 ? "" : text.slice(end + 2) };
};

const parameter = (value, name) =>
    new RegExp(`;\\s*${name}\\s*=\\s*(?:"([^"]*)"|([^;\\s]*))`, "i").exec(value)?.slice(1).find(Boolean) ?? "";

// The parts of a message (RFC 2046), each with its type and its text.
const parts = (text, depth = 0) => {
    const part = parse(text), type = part.field("content-type") || "text/plain";
    const essence = type.split(";")[0].trim().toLowerCase(), boundary = parameter(type, "boundary");
    if (essence.startsWith("multipart/") && boundary && depth < MAX_DEPTH) {
        const sections = ("\n" + part.body).split("\n--" + boundary);
        const inner = sections.slice(1).filter(section => !section.startsWith("--"));
        return inner.flatMap(section => parts(section.replace(/^[^\n]*\n/, ""), depth + 1));
    }
    const disposition = part.field("content-disposition");
    const encoding = part.field("content-transfer-encoding").trim().toLowerCase();
    const raw = encoding === "base64" ? base64(part.body)
        : encoding === "quoted-printable" ? hex(part.body.replace(/=[ \t]*\n/g, "")) : part.body;
    const name = parameter(disposition, "filename") || parameter(type, "name");
    return [{
        essence, name: shown(name), size: raw.length, text: decode(raw, parameter(type, "charset")),
        isFile: /^\s*attachment/i.test(disposition) || !essence.startsWith("text/"),
    }];
};

const element = (name, text = "", ...children) => {
    const made = document.createElement(name);
    made.textContent = text;
    made.append(...children);
    return made;
};

const page = text => {
    const frame = document.createElement("iframe");
    // Links open in tabs of their own; nothing else is allowed, and nothing is loaded: the policy of
    // this page would permit the styles of the site.
    frame.setAttribute("sandbox", "allow-popups allow-popups-to-escape-sandbox");
    frame.srcdoc = `<meta http-equiv="Content-Security-Policy" content="${POLICY}"><base target=_blank>` + text;
    return frame;
};

const show = index => {
    const message = messages[index], all = parts(message.text);
    const facts = element("dl");
    for (const [label, names] of [["From", ["from"]], ["To", ["to", "cc"]], ["Sent to", ["x-envelope-to"]],
        ["Subject", ["subject"]], ["Date", ["date"]]]) {
        const values = message.fields.filter(([name]) => names.includes(name)).map(([, value]) => shown(value));
        if (values.length) facts.append(element("dt", label), element("dd", values.join(", ")));
    }
    const files = all.filter(part => part.isFile).map(part => `${part.name || part.essence} (${part.size} bytes)`);
    if (files.length) facts.append(element("dt", "Files"), element("dd", files.join(", ")));
    const readable = all.filter(part => !part.isFile);
    const pages = readable.filter(part => part.essence === "text/html");
    const texts = readable.filter(part => part.essence !== "text/html");
    const source = element("details", "", element("summary", "Source"), element("pre", decode(message.text)));
    view.replaceChildren(facts, ...texts.map(part => element("pre", part.text)), ...pages.map(part => page(part.text)), source);
    [...list.children].forEach((button, at) => button.toggleAttribute("aria-current", messages.length - 1 - at === index));
};

const refresh = async () => {
    const answer = await fetch("messages", { cache: "no-cache" });
    const file = new Uint8Array(await answer.arrayBuffer());
    if (!answer.ok || file.length === length) return;
    length = file.length;
    let text = "";
    for (let at = 0; at < file.length; at += 8192) text += String.fromCharCode(...file.subarray(at, at + 8192));
    messages = ("\n" + text).split("\nFrom ").slice(1).map(entry => {
        // Lines of a message that begin like the first line of one have a ">" in front.
        const whole = entry.slice(entry.indexOf("\n") + 1).replace(/^>(>*From )/gm, "$1");
        return { text: whole, ...parse(whole) };
    });
    list.replaceChildren(...messages.map((message, index) => {
        const button = element("button", shown(message.field("subject")) || "(no subject)",
            element("small", shown(message.field("to") || message.field("x-envelope-to"))));
        button.addEventListener("click", () => show(index));
        return button;
    }).reverse());
    if (messages.length) show(messages.length - 1);
};

const look = () => {
    const done = document.hidden ? Promise.resolve() : refresh();
    done.catch(() => {}).finally(() => setTimeout(look, INTERVAL));
};
look();
