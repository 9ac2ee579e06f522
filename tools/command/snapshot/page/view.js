// SPDX-License-Identifier: MIT
// What the page shows of which file: device, stretch of events, moment, search, stream. Each part of the page is
// drawn anew when something that it depends on changes.
const files = [];  // as readFile() gives them, with places and histories; the last one is the newest
const view = {
  file: 0,
  device: 0,
  from: 0,
  to: 0,
  moment: 0,
  words: "",
  search: null,
  stream: null
};
const parts = [];

const file = () => files[view.file];
const device = () => file().data.devices[view.device];

function historyOf(its, index) {
  its.histories ||= new Map();
  if (!its.histories.has(index)) its.histories.set(index, new History(its.events, its.data.devices[index]));
  return its.histories.get(index);
}
const past = () => historyOf(file(), view.device);

// The counter of memory in use that the events add up to: PyTorch's events have rounded sizes.
const usedKey = stats => "requested_bytes.all.peak" in stats ? "requested_bytes" : "allocated_bytes";
const isWhole = () => view.from === 0 && view.to === past().length;
const shown = stack => file().places.matches(stack, view.search);

// The call sites of the recording; complete even where the ring of events was too small.
const sites = (data = file().data, index = view.device) =>
    data.history.sites.filter(s => s.device === data.devices[index].device && s.memory === "device");

// Sums by call site over the chosen stretch.
function sums() {
  const key = [view.file, view.device, view.from, view.to].join();
  if (sums.key === key) return sums.value;
  const out = past().sum(view.from, view.to), callers = new Map(sites().map(s => [s.stack, s]));
  for (const row of out.rows) {
    row.caller = callers.get(row.stack)?.caller || "unknown";
    row.growing = callers.get(row.stack)?.growing || false;
  }
  if (isWhole() && sites().length)
    out.rows = sites().map(s => ({
                             stack: s.stack,
                             caller: s.caller || "unknown",
                             growing: s.growing,
                             calls: s.allocations,
                             allocated: s.allocated_bytes,
                             freed: s.allocations - s.blocks,
                             now: s.bytes,
                             blocks: s.blocks,
                             fresh: s.bytes,
                             freshBlocks: s.blocks,
                             own: s.peak_bytes,
                             atPeak: s.at_peak_bytes
                           }));
  sums.key = key;
  sums.value = out;
  return out;
}

// A part of the page. `draw(body, node)` fills it and returns false where there is nothing to show.
function section(title, explanation, needs, draw) {
  const body = make("div"), words = make("p"),
        node = make("section", {"aria-label": title}, make("h2", {}, title), words, body);
  byId("main").append(node);
  const nameOf = control => control.getAttribute("aria-label") || (control.closest("label") || control).textContent;
  const part = {
    needs: ["file", "device", ...needs],
    node,
    draw: () => {
      const active = body.contains(document.activeElement) ? document.activeElement : null,
            name = active && nameOf(active);
      body.replaceChildren();
      words.textContent = typeof explanation === "function" ? explanation() : explanation;
      words.hidden = !words.textContent;
      node.hidden = draw(body, node) === false;
      // Whoever works with keys goes on where they were.
      if (active)
        [...body.querySelectorAll(active.tagName)].find(each => nameOf(each) === name)?.focus({
          preventScroll: true
        });
    }
  };
  parts.push(part);
  part.draw();
}

function change(values) {
  const changed = Object.keys(values).filter(key => view[key] !== values[key]);
  Object.assign(view, values);
  for (const part of parts)
    if (part.needs.some(need => changed.includes(need))) part.draw();
}

// Another stretch: the moment moves to its end.
function choose(from, to) {
  const last = past().length;
  const begin = Math.max(0, Math.min(from, last)), end = Math.max(begin, Math.min(to, last));
  change({from: begin, to: end, moment: end});
}
const stretchText = () => isWhole() ? "the whole run" : `events ${count(view.from + 1)} to ${count(view.to)}`;
