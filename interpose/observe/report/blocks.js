// SPDX-License-Identifier: MIT
// The table of blocks, and one block's life: when and where it was allocated and freed, on which stream.
const STREAMS = new Map([[0, "none named"], [1, "legacy default"], [2, "per-thread default"]]);
const streamText = stream => STREAMS.get(stream) || hexadecimal(stream);
let blocksShown = "all";

const KINDS = {
  all: ["all in the stretch", (of, b) => of.begin[b] < view.to && of.end[b] >= view.from],
  moment: ["in use at the chosen moment", (of, b) => of.livesAt(b, view.moment)],
  kept: [
    "allocated in the stretch, never freed",
    (of, b) => of.begin[b] >= view.from && of.begin[b] < view.to && of.end[b] === of.length
  ],
  freed: ["freed in the stretch", (of, b) => of.end[b] >= view.from && of.end[b] < view.to],
};

// Blocks that the search and the chosen stream leave. A number 0x… finds the blocks that held this address.
function blockRows() {
  const of = past(), wanted = KINDS[blocksShown][1], out = [],
        address = /^0x[0-9a-f]+$/i.test(view.words.trim()) ? Number(view.words.trim()) : null;
  for (let b = 0; b < of.blocks; ++b) {
    if (!wanted(of, b) || view.stream !== null && of.on[b] !== view.stream) continue;
    if (address === null ? shown(of.of[b]) : of.at[b] <= address && address < of.at[b] + Math.max(1, of.size[b]))
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
        const of = past();
        if (!of.blocks) return false;
        const ranks = new Map([...new Set(of.of)]
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
                    value: b => ranks.get(of.of[b]),
                    show: b => button(file().places.label(of.of[b]), () => showBlock(b), {class: "link"})
                  },
                  {title: "bytes", value: b => of.size[b], show: b => bytes(of.size[b])}, {
                    title: "life",
                    value: b => of.lifetime(b),
                    show: b => Number.isFinite(of.lifetime(b)) ? duration(of.lifetime(b) * 1000) :
                        of.end[b] < of.length                  ? "begun earlier" :
                                                                 "not freed"
                  },
                  {
                    title: "allocated",
                    up: true,
                    value: b => of.begin[b],
                    show: b => of.begin[b] < 0 ? "earlier" : sinceStart(of.begin[b])
                  },
                  {
                    title: "freed",
                    up: true,
                    value: b => of.end[b],
                    show: b => of.end[b] === of.length ? "no" : sinceStart(of.end[b])
                  },
                  {title: "stream", value: b => of.on[b], show: b => streamText(of.on[b])}, {
                    title: "address",
                    up: true,
                    value: b => of.at[b],
                    show: b => make("span", {class: "mono"}, hexadecimal(of.at[b]))
                  }
                ],
                blockRows(), 1));
        return true;
      });
}

function stackNode(title, stack) { return [make("h3", {}, title), make("pre", {}, file().places.whole(stack))]; }

function showBlock(b) {
  const of = past(), dialog = byId("block"), begin = of.begin[b], end = of.end[b], alive = end === of.length;
  let same = 0;
  for (let other = 0; other < of.blocks; ++other) same += of.of[other] === of.of[b];
  const when = event =>
      `${sinceStart(event)} after the first event (event ${count(event + 1)} of ${count(of.length)})`;
  const goTo = moment => {
    dialog.close();
    change({moment});
    byId("moment").scrollIntoView();
  };
  const row = (word, meaning) => [make("dt", {}, word), make("dd", {}, meaning)];
  dialog.replaceChildren(
      make("h2", {id: "block-title"}, `Block of ${bytes(of.size[b])}`),
      make(
          "dl", {}, ...row("address", hexadecimal(of.at[b])),
          ...row("size as asked for", `${count(of.size[b])} bytes`), ...row("stream", streamText(of.on[b])),
          ...row("allocated", begin < 0 ? "before the first event that is known" : when(begin)),
          ...row("freed", alive ? "not freed" : when(end)),
          ...row(
              "life",
              Number.isFinite(of.lifetime(b)) ? duration(of.lifetime(b) * 1000) :
                  alive                       ? "to the end" :
                                                "not known"),
          ...row("like it", `${plural(same, "block")} of this call site`)),
      ...stackNode("Allocated by", of.of[b]),
      ...(alive ? [] : stackNode("Freed by", of.freedBy[end]).map((node, i) => {
        if (i && of.freedBy[end] < 0) node.textContent = "not known";
        return node;
      })),
      make(
          "div", {class: "row"}, begin < 0 ? null : button("state when it was allocated", () => goTo(begin + 1)),
          alive ? null : button("state when it was freed", () => goTo(end + 1)),
          button("close", () => dialog.close(), {autofocus: true})));
  hideTip();
  dialog.showModal();
}
