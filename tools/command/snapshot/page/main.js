// SPDX-License-Identifier: MIT
// Puts the page together.
function tiles() {
  const box = make("div", {class: "tiles"}), notes = make("div");
  byId("main").append(box, notes);
  const part = {
    needs: ["file", "device"],
    draw: () => {
      const stats = device().stats, recorded = file().data.history, now = name => stats[name + ".all.current"],
            peak = name => stats[name + ".all.peak"], total = stats["custash.total_bytes"];
      box.replaceChildren(
          ...[[
            bytes(now(usedKey(stats))),
            total ? `in use at the snapshot, of ${bytes(total)}` : "in use at the snapshot"
          ],
              [bytes(peak(usedKey(stats))), "in use at its peak"],
              [bytes(now("reserved_bytes")), `held from the driver (peak ${bytes(peak("reserved_bytes"))})`],
              [
                bytes(stats["custash.free_bytes"]),
                `cached, free; largest ${bytes(stats["custash.largest_free_block"])}`
              ],
              [bytes(stats["custash.limbo_bytes"]), "freed, work still in flight"],
              [count(stats["allocation.all.allocated"]), "allocations"],
              [count(stats.num_device_alloc + stats.num_device_free), "driver calls for memory"],
              [count(stats["custash.num_stalls_avoided"]), "frees that did not wait"],
              [count(stats.num_ooms), "out of memory"]]
              .map(([value, name]) => make("div", {class: "tile"}, make("b", {}, value), make("span", {}, name))));
      notes.replaceChildren();
      if (recorded.events_lost)
        notes.append(make(
            "div", {class: "note"},
            `The ring of events was too small: the first ${count(recorded.events_lost)} of ${
                count(
                    recorded
                        .events_seen)} are lost. Peaks and call sites of the whole run are complete; the time line begins late. To keep all, run it with the option history:${
                recorded.events_seen} or more.`));
      if (recorded.stacks_lost)
        notes.append(make(
            "div", {class: "note"},
            `${count(recorded.stacks_lost)} allocations have no call site: too many different ones.`));
    }
  };
  parts.push(part);
  part.draw();
}

function searchBar() {
  const box = make("input", {
    type: "search",
    placeholder: "search functions, files, libraries; /regular expression/; 0x address",
    "aria-label": "search"
  }),
        said = make("span", {class: "dim", role: "status"});
  let timer = 0;
  const search = () => {
    const words = box.value.trim(), address = /^0x[0-9a-f]+$/i.test(words);
    let found = null;
    try {
      found = address ? null : searchFor(words);
    } catch (error) {
      change({words, search: null});
      said.textContent = `not a regular expression: ${error.message.replace(/^.*\/i?: /, "")}`;
      return;
    }
    change({words, search: found});
    const rows = sums().rows, hit = rows.filter(row => shown(row.stack));
    said.textContent = !words ? "" :
        address               ? "see the table of blocks" :
                                `${count(hit.length)} of ${plural(rows.length, "call site")}, ${
                      percent(
                                        hit.reduce((sum, row) => sum + row.atPeak, 0),
                                        rows.reduce((sum, row) => sum + row.atPeak, 0))} of the peak`;
  };
  box.oninput = () => {
    clearTimeout(timer);
    timer = setTimeout(search, 150);
  };
  byId("main").append(make("div", {class: "bar", role: "search"}, box, said));
  document.addEventListener("keydown", event => {
    if (event.key !== "/" || event.target.closest("input, select, textarea, dialog")) return;
    event.preventDefault();
    box.focus();
  });
}

const WORDS = [
  ["in use", "memory that the program owns, as it asked for it; custash rounds blocks up"],
  ["held", "memory that custash has from the driver; nvidia-smi counts it as used"],
  ["cached, free", "held but unowned: handed out again without a driver call"],
  ["call site", "one way through the program to an allocation"], ["range", "the events selected on the timeline"],
  ["moment", "the state after one event"], ["segment", "addresses in a row with memory behind them"],
  ["page", "a piece of physical memory that can be moved to other addresses or released by itself"]
];

const versionText = number => [Math.floor(number / 10000), Math.floor(number / 100) % 100, number % 100].join(".");

function show(index, number) {
  Object.assign(view, {file: index, device: number});
  view.from = 0;
  view.to = view.moment = past().length;
  const data = file().data;
  byId("program").textContent = `${data.program}  (process ${data.pid}, ${
      new Date(data.time_us / 1000).toISOString().slice(0, 19).replace("T", " ")} UTC${
      data.version ?
          `; custash ${versionText(data.version)}` :
          ""}${data.ended_by ? `; ended by ${data.ended_by}, map of memory rebuilt from the history` : ""})`;
  byId("device").replaceChildren(
      ...data.devices.map((each, i) => make("option", {value: i}, "device " + each.device)));
  byId("device").value = number;
  byId("device").hidden = data.devices.length < 2;
  for (const part of parts) part.draw();
}
const usedDevice = index =>
    Math.max(0, files[index].data.devices.findIndex(each => each.stats["allocation.all.allocated"] > 0));

function buildPage() {
  byId("file").replaceChildren(...files.map((each, i) => make("option", {value: i}, each.name)));
  byId("file").hidden = files.length < 2;
  byId("file").onchange = () => show(+byId("file").value, usedDevice(+byId("file").value));
  byId("device").onchange = () => show(view.file, +byId("device").value);
  byId("file").value = view.file = files.length - 1;
  if (!file().data.devices.length) return byId("main").append(make("p", {}, "No device."));
  view.device = usedDevice(view.file);
  show(view.file, view.device);
  tiles();
  searchBar();
  compareSection();
  timelineSection();
  flameSection();
  peakSection();
  momentSection();
  blocksSection();
  lanesSection();
  oomSection();
  leakSection();
  siteSections();
  passedSection();
  lifetimeSection();
  fragmentationSection();
  section(
      "Words", "", [],
      body => body.append(
          make("dl", {}, ...WORDS.flatMap(([word, meaning]) => [make("dt", {}, word), make("dd", {}, meaning)]))));
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) {
      width = innerWidth;
      change({width});
    }
  });
}

byId("theme").onclick = () => {
  const dark = getComputedStyle(document.documentElement).colorScheme === "dark" ||
      document.documentElement.dataset.theme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  change({theme: document.documentElement.dataset.theme});
};

async function begin() {
  for (const id of ["before", "data"]) {
    const element = byId(id);
    if (!element) continue;
    const its = await readFile(element);
    its.places = new Places(its.data);
    files.push(its);
  }
  byId("wait").remove();
  buildPage();
  document.body.dataset.ready = "yes";
}
begin().catch(error => {
  const words = `This report cannot be shown: ${error.message}. It needs a browser from 2023 or later.`;
  byId("main").append(make("p", {class: "note"}, words));
  document.body.dataset.ready = words;
});
