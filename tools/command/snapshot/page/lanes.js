// SPDX-License-Identifier: MIT
// One lane for each stream: what its blocks hold over the chosen stretch.
const LANES = 8, LANE_STEPS = 400;
let allLanes = false;

// By stream: the most in use in each of LANE_STEPS columns, and how many blocks it allocated.
function lanesOf(run, from, to, axis) {
  const lanes = new Map(), lane = stream => {
    if (!lanes.has(stream))
      lanes.set(stream, {stream, level: 0, peak: 0, calls: 0, steps: new Float64Array(LANE_STEPS), reached: -1});
    return lanes.get(stream);
  };
  const reach = (its, column) => {
    while (its.reached < column) its.steps[++its.reached] = its.level;
  };
  for (let b = 0; b < run.blocks; ++b)
    if (run.livesAt(b, from)) {
      const its = lane(run.on[b]);
      its.level += run.size[b];
      its.peak = its.level;
    }
  for (let i = from; i < to; ++i) {
    const block = run.blockOf[i];
    if (block < 0) continue;
    const its = lane(run.on[block]), column = Math.min(LANE_STEPS - 1, Math.floor(axis.place(i) * LANE_STEPS));
    reach(its, column);
    its.level += run.action[i] === ALLOC ? run.size[block] : -run.size[block];
    its.calls += run.action[i] === ALLOC ? 1 : 0;
    its.peak = Math.max(its.peak, its.level);
    its.steps[column] = Math.max(its.steps[column], its.level);
  }
  for (const its of lanes.values()) reach(its, LANE_STEPS - 1);
  return [...lanes.values()].filter(its => its.peak > 0 || its.calls).sort((a, b) => b.peak - a.peak);
}

function lanesSection() {
  section(
      "Streams",
      () => `Memory in blocks of each stream, in ${
          stretchText()}: of the stream that the allocation named. Click a name to filter the table of blocks by stream; click in a lane to pick a moment.`,
      ["from", "to", "stream", "lanes", "byEvent"], body => {
        const run = past();
        if (run.length < 2 || view.to - view.from < 2) return false;
        const axis = axisOf(run, view.from, view.to, byEvent), lanes = lanesOf(run, view.from, view.to, axis),
              most = Math.max(...lanes.map(its => its.peak), 1);
        for (const its of allLanes ? lanes : lanes.slice(0, LANES)) {
          const path =
              [...its.steps]
                  .map(
                      (v, i) =>
                          `L${i} ${(34 - 32 * v / most).toFixed(1)}L${i + 1} ${(34 - 32 * v / most).toFixed(1)}`)
                  .join("");
          const svg = make(
              "svg", {
                viewBox: `0 0 ${LANE_STEPS} 34`,
                preserveAspectRatio: "none",
                role: "img",
                "aria-label": `stream ${streamText(its.stream)}: peak ${bytes(its.peak)}`
              },
              make("path", {d: `M0 34${path}L${LANE_STEPS} 34Z`, fill: "var(--accent)", "fill-opacity": .75}));
          const share = event => {
            const box = svg.getBoundingClientRect();
            return Math.max(0, Math.min(.9999, (event.clientX - box.left) / box.width));
          };
          svg.onmousemove = event => showTip(
              event,
              `${bytes(its.steps[Math.floor(share(event) * LANE_STEPS)])} at most here, on stream ${
                  streamText(its.stream)}`);
          svg.onmouseleave = hideTip;
          svg.onclick = event => change({moment: axis.eventAt(share(event)) + 1});
          body.append(make(
              "div", {class: "lane"},
              button(
                  streamText(its.stream), () => change({stream: view.stream === its.stream ? null : its.stream}), {
                    "aria-pressed": String(view.stream === its.stream),
                    "aria-label": `stream ${streamText(its.stream)}`
                  }),
              svg,
              make(
                  "span", {}, bytes(its.peak), make("br"),
                  make("span", {class: "dim"}, plural(its.calls, "call")))));
        }
        if (lanes.length > LANES)
          body.append(button(allLanes ? "show fewer" : `show all ${count(lanes.length)}`, () => {
            allLanes = !allLanes;
            change({lanes: allLanes});
          }));
        return lanes.length > 0;
      });
}
