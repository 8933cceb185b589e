// Reloads a page when files of its site have changed. Hidden pages have no connection, of which
// browsers have few for a site; they learn of changes when they are shown again.
(() => {
    let events, seen = "";
    const listen = () => {
        events = new EventSource("/-/reload?" + seen);
        events.onmessage = message => { seen = message.lastEventId; };
        events.addEventListener("reload", () => location.reload());
    };
    document.addEventListener("visibilitychange", () => {
        events?.close();
        if (!document.hidden) listen();
    });
    if (!document.hidden) listen();
})();
