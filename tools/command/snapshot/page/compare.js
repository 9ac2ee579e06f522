// SPDX-License-Identifier: MIT
// Two files beside each other: what changed from the first to the second, by call site, as `custash diff` counts
// it.
const WHERE = {
  device: index => `device ${index}`,
  pinned: () => "pinned memory",
  other: index => `device ${index}, from the driver itself`
};

function changedSites(before, after) {
  const rows = new Map();
  for (const [its, sign] of [[before, 0], [after, 1]])
    for (const site of its.data.history.sites) {
      const where = WHERE[site.memory](site.device), key = where + "\n" + its.places.key(site.stack);
      if (!rows.has(key))
        rows.set(key, {where, stack: site.stack, its, bytes: [0, 0], blocks: [0, 0], peak: [0, 0], calls: [0, 0]});
      const row = rows.get(key);
      row.bytes[sign] += site.bytes;
      row.blocks[sign] += site.blocks;
      row.peak[sign] += site.at_peak_bytes;
      row.calls[sign] += site.allocations;
      if (sign) {
        row.its = its;
        row.stack = site.stack;
      }
    }
  return [...rows.values()].filter(
      row => ["bytes", "blocks", "peak", "calls"].some(key => row[key][0] !== row[key][1]));
}

// Whether more of it is worse (1), better (-1) or neither.
const NUMBERS = [
  ["in use at the snapshot", stats => stats[usedKey(stats) + ".all.current"], bytes, 1],
  ["in use at its peak", stats => stats[usedKey(stats) + ".all.peak"], bytes, 1],
  ["held from the driver", stats => stats["reserved_bytes.all.current"], bytes, 1],
  ["held at its peak", stats => stats["reserved_bytes.all.peak"], bytes, 1],
  ["allocations", stats => stats["allocation.all.allocated"], count, 0],
  ["driver calls for memory", stats => stats.num_device_alloc + stats.num_device_free, count, 1],
  ["frees that did not wait", stats => stats["custash.num_stalls_avoided"], count, -1],
  ["out of memory", stats => stats.num_ooms, count, 1]
];
const growth = (n, text, worse = 1) => make(
    "span",
    {class: n * worse > 0 ? "more" :
         n * worse < 0    ? "less" :
                            "dim"},
    n ? signed(n, text) : "0");
let flameOf = "grew";

function numbersTable(before, after) {
  const value = (its, number) => {
    const stats = its.data.devices[view.device]?.stats;
    return stats && number(stats) || 0;
  };
  return make(
      "div", {class: "scroll", tabindex: 0, role: "region", "aria-label": "table: numbers of both files"},
      make(
          "table", {"aria-label": "numbers of both files"},
          make(
              "thead", {},
              make(
                  "tr", {},
                  ...["", before.name, after.name, "change"].map(
                      words => make("th", {scope: "col"}, words || make("span", {}, "number"))))),
          make(
              "tbody", {},
              ...NUMBERS.map(
                  ([words, number, text, worse]) => make(
                      "tr", {}, make("td", {}, words), make("td", {}, text(value(before, number))),
                      make("td", {}, text(value(after, number))),
                      make("td", {}, growth(value(after, number) - value(before, number), text, worse)))))));
}

function compareSection() {
  if (files.length < 2) return;
  const [before, after] = files;
  section(
      "What changed",
      `From ${before.name} to ${after.name}. Below this part, the page shows one of them: choose it at the top.`,
      ["search", "width", "theme", "byEvent", "flameOf"], body => {
        const all = changedSites(before, after),
              rows = all.filter(row => row.its.places.matches(row.stack, view.search)),
              live = rows.filter(row => row.bytes[0] !== row.bytes[1] || row.blocks[0] !== row.blocks[1]);
        const sum = live.reduce((total, row) => total + row.bytes[1] - row.bytes[0], 0),
              by = row => row.bytes[1] - row.bytes[0];
        body.append(
            make(
                "p", {id: "changed", role: "status"},
                live.length ? `${signed(sum, bytes)} (${signed(sum, count)} bytes) in use, at ${
                                  plural(live.length, "call site")}.` :
                              "No call site holds more or less."),
            numbersTable(before, after));
        const histories = [before, after].map(its => its.data.devices[view.device] && historyOf(its, view.device));
        if (histories.every(each => each && each.length > 1)) {
          const most = Math.max(...histories.map(
                    each => Math.max(each.peakOf(0, each.length).bytes, each.heldAt(each.length)))),
                width = Math.max(
                    280,
                    Math.min(
                        body.clientWidth || 1080, body.clientWidth > 860 ? (body.clientWidth - 14) / 2 : 9999));
          body.append(
              make(
                  "div", {class: "pair"},
                  ...[before, after].map(
                      (its, i) => make("div", {}, make("h3", {}, its.name), chart(its, histories[i], {
                                                                              from: 0,
                                                                              to: histories[i].length,
                                                                              width,
                                                                              height: 200,
                                                                              most,
                                                                              byEvent,
                                                                              label: its.name
                                                                            }).svg))),
              legend());
        }
        if (!rows.length) return true;
        const both = (title, key, text) =>
            [{title: `${title} before`, value: row => row[key][0], show: row => text(row[key][0])},
             {title: "after", value: row => row[key][1], show: row => text(row[key][1])}];
        body.append(
            make("h3", {}, "By call site"),
            table(
                "changed call sites",
                [
                  {
                    title: "call site",
                    up: true,
                    value: row => row.its.places.label(row.stack),
                    show: row => row.where === `device ${after.data.devices[view.device]?.device}` ?
                        row.its.places.node(row.stack) :
                        make("span", {}, row.where + ": ", row.its.places.node(row.stack))
                  },
                  {title: "change", value: by, show: row => growth(by(row), bytes)},
                  ...both("in use", "bytes", bytes), {
                    title: "blocks",
                    value: row => row.blocks[1] - row.blocks[0],
                    show: row => growth(row.blocks[1] - row.blocks[0], count)
                  },
                  {
                    title: "at the peak",
                    value: row => row.peak[1] - row.peak[0],
                    show: row => growth(row.peak[1] - row.peak[0], bytes)
                  },
                  {
                    title: "calls",
                    value: row => row.calls[1] - row.calls[0],
                    show: row => growth(row.calls[1] - row.calls[0], count, 0)
                  }
                ],
                rows, 1));
        // A tree of the files' own stacks; each side's places have their own numbers.
        const way = flameOf === "grew" ? 1 : -1,
              weights = rows.map(row => ({row, weight: way * by(row)})).filter(each => each.weight > 0);
        const places = {
          framesOf: index => weights[index].row.its.places.framesOf(weights[index].row.stack),
          label: index => weights[index].row.its.places.label(weights[index].row.stack),
          name: shortText  // offsets differ between builds
        };
        const root = flameTree(places, weights.map((each, stack) => ({stack, weight: each.weight})), flame);
        body.append(
            make(
                "div", {class: "row"},
                choice(
                    "flame graph of what", [["grew", "grew"], ["shrank", "shrank"]], flameOf,
                    value => {
                      flameOf = value;
                      change({flameOf: value});
                    })),
            ...(weights.length ? flameGraph("flame graph of the change", root, bytes, view.search) :
                                 [make("p", {class: "dim"}, "Nothing.")]));
        return true;
      });
}
