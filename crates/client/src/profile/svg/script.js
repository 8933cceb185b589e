(function () {
  "use strict";
  var svg = document.documentElement;
  var width = Number(svg.dataset.width), side = Number(svg.dataset.side);
  var character = Number(svg.dataset.character);
  var reset = document.getElementById("reset"), told = document.getElementById("told");
  var calls = Array.prototype.map.call(document.querySelectorAll("g.c"), function (g) {
    var rect = g.querySelector("rect"), text = g.querySelector("text");
    return {
      g: g, rect: rect, text: text, title: g.querySelector("title").textContent,
      name: text.dataset.n, x: Number(rect.dataset.x), w: Number(rect.dataset.w),
      y: Number(rect.getAttribute("y"))
    };
  });
  var all = calls[0];

  function draw(call, x, w) {
    var room = Math.max(0, Math.floor((w - 6) / character));
    call.rect.setAttribute("x", x);
    call.rect.setAttribute("width", w);
    call.text.setAttribute("x", x + 3);
    call.text.textContent = call.name.length <= room ? call.name
      : room < 3 ? "" : call.name.slice(0, room - 2) + "..";
  }

  function zoom(to) {
    var scale = width / to.w, end = to.x + to.w;
    calls.forEach(function (call) {
      var isAround = call.x <= to.x && call.x + call.w >= end && call.y > to.y;
      var isWithin = call.x >= to.x && call.x + call.w <= end && call.y <= to.y;
      call.g.classList.toggle("parent", isAround);
      call.g.classList.toggle("out", !isAround && !isWithin);
      if (isAround) { draw(call, side, width); }
      if (isWithin) { draw(call, side + (call.x - to.x) * scale, call.w * scale); }
    });
    reset.classList.toggle("out", to === all);
  }

  function search(words) {
    var pattern = null, spans = [], found = 0, end = -1;
    if (words) {
      try { pattern = new RegExp(words, "i"); } catch (error) { told.textContent = String(error); return; }
    }
    calls.forEach(function (call) {
      var isFound = pattern !== null && pattern.test(call.name);
      call.g.classList.toggle("found", isFound);
      if (isFound) { spans.push([call.x, call.x + call.w]); }
    });
    spans.sort(function (a, b) { return a[0] - b[0]; });
    spans.forEach(function (span) {
      found += Math.max(0, span[1] - Math.max(span[0], end));
      end = Math.max(end, span[1]);
    });
    told.textContent = pattern ? "Found: " + (found * 100 / all.w).toFixed(1) + " %" : " ";
  }

  function ask() {
    var words = window.prompt("Functions to search for (regular expression; nothing ends the search)", "");
    if (words !== null) { search(words); }
  }

  calls.forEach(function (call) {
    call.g.addEventListener("click", function () { zoom(call); });
    call.g.addEventListener("mouseover", function () { told.textContent = call.title; });
  });
  reset.addEventListener("click", function () { zoom(all); });
  document.getElementById("search").addEventListener("click", ask);
  window.addEventListener("keydown", function (event) {
    if (event.key === "f" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); ask(); }
    if (event.key === "Escape") { zoom(all); search(""); }
  });
}());
