// SPDX-License-Identifier: MIT
// Elements of the page, and numbers as text. Text becomes text nodes only, so nothing in a file can become markup.
const COLOURS = ["#3b6fe0", "#e8743b", "#19a979", "#c94f9b", "#8a63d2", "#d6a21e", "#13a4b4", "#d64545", "#6c8893"];
const OTHER = "#9aa5b8";
const byId = id => document.getElementById(id);

function make(tag, attributes = {}, ...children) {
  const svg = ["svg", "path", "line", "text", "rect", "g", "title"].includes(tag);
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function")
      node[name] = value;
    else if (name === "style")
      node.style.cssText = value;
    else if (value !== undefined && value !== false)
      node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter(child => child !== null && child !== undefined));
  return node;
}
const button = (title, onclick, attributes = {}) => make("button", {type: "button", onclick, ...attributes}, title);

function choice(title, options, value, onchange) {
  const node = make(
      "select", {onchange: () => onchange(node.value)},
      ...options.map(([key, words]) => make("option", {value: key}, words)));
  node.value = value;
  return make("label", {}, title, node);
}
function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = Math.abs(n), unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  return (n < 0 ? "−" : "") +
      (unit === 0 || value >= 100 || value % 1 === 0 ? value.toFixed(0) : value.toFixed(1)) + " " + units[unit];
}
const signed = (n, text) => n > 0 ? "+" + text(n) : text(n);
const count = n => n.toLocaleString("en").replace("-", "−");
const percent = (part, whole) => (whole ? part / whole * 100 : 0).toFixed(1) + " %";
const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;

function duration(ns) {
  for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3]]) {
    if (ns >= size)
      return (ns >= 1000 * size ? count(Math.round(ns / size)) : (ns / size).toPrecision(3)) + " " + unit;
  }
  return ns + " ns";
}
const seconds = us => us < 1e6 ? duration(us * 1000) : (us / 1e6).toFixed(us < 1e7 ? 3 : us < 1e9 ? 2 : 0) + " s";
const hexadecimal = n => "0x" + n.toString(16);

function showTip(event, text) {
  const tip = byId("tip");
  tip.textContent = text;
  tip.style.display = "block";
  tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)) + "px";
  tip.style.top = Math.max(4, Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8)) + "px";
}
const hideTip = () => {
  byId("tip").style.display = "none";
};

// A table of bars: [name, value, more].
function bars(label, rows, text) {
  const most = Math.max(...rows.map(row => row[1]), 1);
  return make(
      "table", {class: "bars", "aria-label": label},
      make(
          "tbody", {},
          ...rows.map(
              ([name, value, more]) => make(
                  "tr", {}, make("td", {}, name),
                  make(
                      "td", {}, make("i", {class: "fill", style: `width:${(value / most * 60).toFixed(1)}%`}),
                      " " + text(value) + (more ? "  ·  " + more : ""))))));
}
