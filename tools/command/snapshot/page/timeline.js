// SPDX-License-Identifier: MIT
// Memory over time by call site, drawn for any stretch of events.
const LEFT = 64, RIGHT = 8, BOTTOM = 24;

// A round step, so that there are three to six of them.
function roundStep(most, binary) {
  if (binary) return 2 ** Math.ceil(Math.log2(Math.max(1, most) / 5));
  const power = 10 ** Math.floor(Math.log10(most / 4)), factor = most / 4 / power;
  return power * (factor <= 1 ? 1 : factor <= 2 ? 2 : factor <= 5 ? 5 : 10);
}

function areas(samples, x, y) {
  const floor = samples.map(() => 0), out = [];
  for (let s = 0; s <= colouredKeys().size; ++s) {
    if (!samples.some(each => each.levels[s] > 0)) continue;
    let path = "", back = "";
    samples.forEach((each, i) => {
      back = `L${x(i).toFixed(1)} ${y(floor[i]).toFixed(1)}` + back;
      floor[i] += each.levels[s];
      path += `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(floor[i]).toFixed(1)}`;
    });
    out.push(make(
        "path", {d: path + back + "Z", fill: s < colouredKeys().size ? COLOURS[s] : OTHER, "fill-opacity": .85}));
  }
  return out;
}

// {svg, samples, axis, x(event), eventAt(pixel)}. `most`: the top of the scale, where two charts share one.
function chart(its, run, {from, to, width, height, byEvent = false, most = 0, label}) {
  const axis = axisOf(run, from, to, byEvent), plot = Math.max(60, width - LEFT - RIGHT),
        wide = Math.min(Math.max(2, to - from), Math.ceil(plot));
  const samples = samplesOf(its, run, from, to, axis, wide),
        peak = samples.reduce((a, b) => b.total > a.total ? b : a);
  const top = Math.max(most, ...samples.map(each => each.held), 1) / .94;
  const x = i => LEFT + i * plot / Math.max(1, wide - 1), y = v => 4 + (height - BOTTOM - 4) * (1 - v / top);
  const svg = make("svg", {
    class: "chart",
    viewBox: `0 0 ${width} ${height}`,
    height,
    role: "img",
    "aria-label": `${label}: peak ${bytes(peak.total)}, ${bytes(run.usedAt(to))} at the end`
  });
  for (let step = roundStep(top, true), v = 0; v <= top; v += step)
    svg.append(
        make("line", {x1: LEFT, x2: width - RIGHT, y1: y(v), y2: y(v), stroke: "var(--line)"}),
        make("text", {x: LEFT - 8, y: y(v) + 4, "text-anchor": "end"}, bytes(v)));
  for (let step = Math.max(axis.unit === "events" ? 1 : 0, roundStep(axis.size * 300 / plot)),
           v = Math.ceil(axis.begin / step) * step;
       v <= axis.begin + axis.size; v += step) {
    const at = LEFT + plot * (v - axis.begin) / axis.size;
    svg.append(make(
        "text",
        {x: at,
         y: height - 6,
         "text-anchor": at < LEFT + 20 ? "start" :
             at > width - 40           ? "end" :
                                         "middle"},
        axis.text(v, step)));
  }
  svg.append(
      ...areas(samples, x, y), make("path", {
        d: samples.map((each, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(each.held).toFixed(1)}`).join(""),
        fill: "none",
        stroke: "var(--ink)",
        "stroke-dasharray": "4 3",
        "stroke-width": 1.3
      }));
  const at = x(samples.indexOf(peak)), right = at > width * .75;
  svg.append(
      make("line", {x1: at, x2: at, y1: 4, y2: height - BOTTOM, stroke: "var(--warn)", "stroke-width": 1.5}),
      make(
          "text",
          {x: at + (right ? -5 : 5), y: 15, "text-anchor": right ? "end" : "start", style: "fill:var(--warn)"},
          "peak " + bytes(peak.total)));
  const sampleAt = pixel =>
      samples[Math.max(0, Math.min(wide - 1, Math.round((pixel - LEFT) / plot * (wide - 1))))];
  svg.onmousemove = event => {
    const each = sampleAt((event.clientX - svg.getBoundingClientRect().left)), names = [...colouredKeys().keys()];
    const rows = [...each.levels]
                     .map((v, s) => [v, s < names.length ? labelOfKey(names[s]) : "all others"])
                     .filter(row => row[0] > 0)
                     .sort((a, b) => b[0] - a[0]);
    showTip(
        event,
        `${seconds(run.timeAt(each.moment) - run.time[0])}, after ${plural(each.moment, "event")}: ${
            bytes(each.total)} in use, ${bytes(each.held)} held\n` +
            rows.map(row => `${bytes(row[0])}  ${row[1]}`).join("\n"));
  };
  svg.onmouseleave = hideTip;
  return {
    svg,
    sampleAt,
    width,
    height,
    xOf: moment => LEFT + plot * axis.place(Math.max(from, Math.min(to - 1, moment))),
    eventAt: pixel => axis.eventAt(Math.max(0, Math.min(1, (pixel - LEFT) / plot)))
  };
}

function legend() {
  const key = (colour, words) => make("span", {}, make("i", {class: "key", style: `background:${colour}`}), words);
  return make(
      "div", {class: "legend"}, ...[...colouredKeys().keys()].map((each, i) => key(COLOURS[i], labelOfKey(each))),
      key(OTHER, "all others"), make("span", {class: "dim"}, "- - held from the driver"));
}
