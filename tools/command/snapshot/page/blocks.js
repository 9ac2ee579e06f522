// SPDX-License-Identifier: MIT
// The table of blocks, and one block's life: when and where it was allocated and freed, on which stream.
const STREAMS = new Map([[0, "none named"], [1, "legacy default"], [2, "per-thread default"]]);
const streamText = stream => STREAMS.get(stream) || hexadecimal(stream);
let blocksShown = "all";

const KINDS = {
  all: ["all in the range", (run, b) => run.begin[b] < view.to && run.end[b] >= view.from],
  moment: ["in use at the chosen moment", (run, b) => run.livesAt(b, view.moment)],
  kept: [
    "allocated in the range, never freed",
    (run, b) => run.begin[b] >= view.from && run.begin[b] < view.to && run.end[b] === run.length
  ],
  freed: ["freed in the range", (run, b) => run.end[b] >= view.from && run.end[b] < view.to],
};

// Blocks that the search and the chosen stream leave. A number 0x… finds the blocks that held this address.
function blockRows() {
  const run = past(), wanted = KINDS[blocksShown][1], out = [],
        address = /^0x[0-9a-f]+$/i.test(view.words.trim()) ? Number(view.words.trim()) : null;
  for (let b = 0; b < run.blocks; ++b) {
    if (!wanted(run, b) || view.stream !== null && run.on[b] !== view.stream) continue;
    if (address === null ? shown(run.site[b]) :
                           run.at[b] <= address && address < run.at[b] + Math.max(1, run.size[b]))
      out.push(b);
  }
  return out;
}

const sinceStart = event => seconds(past().time[event] - past().time[0]);

function blocksSection() {
  section(
      "Blocks",
      () => "Each block's own life. Open one for both of its stacks. The search also takes an address (0x…).",
      ["from", "to", "moment", "search", "words", "stream", "blocks"], body => {
        const run = past();
        if (!run.blocks) return false;
        const ranks = new Map([...new Set(run.site)]
                                  .map(stack => [stack, file().places.label(stack)])
                                  .sort((a, b) => a[1].localeCompare(b[1]))
                                  .map((each, rank) => [each[0], rank]));
        body.append(
            make(
                "div", {class: "row"},
                choice(
                    "show", Object.entries(KINDS).map(([key, [words]]) => [key, words]), blocksShown,
                    value => {
                      blocksShown = value;
                      change({blocks: value});
                    }),
                view.stream === null ?
                    null :
                    button(`only stream ${streamText(view.stream)} ✕`, () => change({stream: null}))),
            table(
                "blocks",
                [
                  {
                    title: "call site",
                    up: true,
                    value: b => ranks.get(run.site[b]),
                    show: b => button(file().places.label(run.site[b]), () => showBlock(b), {class: "link"})
                  },
                  {title: "bytes", value: b => run.size[b], show: b => bytes(run.size[b])}, {
                    title: "life",
                    value: b => run.lifetime(b),
                    show: b => Number.isFinite(run.lifetime(b)) ? duration(run.lifetime(b) * 1000) :
                        run.end[b] < run.length                 ? "begun earlier" :
                                                                  "not freed"
                  },
                  {
                    title: "allocated",
                    up: true,
                    value: b => run.begin[b],
                    show: b => run.begin[b] < 0 ? "earlier" : sinceStart(run.begin[b])
                  },
                  {
                    title: "freed",
                    up: true,
                    value: b => run.end[b],
                    show: b => run.end[b] === run.length ? "no" : sinceStart(run.end[b])
                  },
                  {title: "stream", value: b => run.on[b], show: b => streamText(run.on[b])}, {
                    title: "address",
                    up: true,
                    value: b => run.at[b],
                    show: b => make("span", {class: "mono"}, hexadecimal(run.at[b]))
                  }
                ],
                blockRows(), 1));
        return true;
      });
}

function stackNode(title, stack) { return [make("h3", {}, title), make("pre", {}, file().places.whole(stack))]; }

function showBlock(b) {
  const run = past(), dialog = byId("block"), begin = run.begin[b], end = run.end[b], alive = end === run.length;
  let same = 0;
  for (let other = 0; other < run.blocks; ++other) same += run.site[other] === run.site[b];
  const when = event =>
      `${sinceStart(event)} after the first event (event ${count(event + 1)} of ${count(run.length)})`;
  const goTo = moment => {
    dialog.close();
    change({moment});
    byId("moment").scrollIntoView();
  };
  const row = (word, meaning) => [make("dt", {}, word), make("dd", {}, meaning)];
  dialog.replaceChildren(
      make("h2", {id: "block-title"}, `Block of ${bytes(run.size[b])}`),
      make(
          "dl", {}, ...row("address", hexadecimal(run.at[b])),
          ...row("size as asked for", `${count(run.size[b])} bytes`), ...row("stream", streamText(run.on[b])),
          ...row("allocated", begin < 0 ? "before the first event that is known" : when(begin)),
          ...row("freed", alive ? "not freed" : when(end)),
          ...row(
              "life",
              Number.isFinite(run.lifetime(b)) ? duration(run.lifetime(b) * 1000) :
                  alive                        ? "to the end" :
                                                 "not known"),
          ...row("like it", `${plural(same, "block")} of this call site`)),
      ...stackNode("Allocated by", run.site[b]),
      ...(alive ? [] : stackNode("Freed by", run.freedBy[end]).map((node, i) => {
        if (i && run.freedBy[end] < 0) node.textContent = "not known";
        return node;
      })),
      make(
          "div", {class: "row"}, begin < 0 ? null : button("state when it was allocated", () => goTo(begin + 1)),
          alive ? null : button("state when it was freed", () => goTo(end + 1)),
          button("close", () => dialog.close(), {autofocus: true})));
  hideTip();
  dialog.showModal();
}
