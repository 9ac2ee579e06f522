// SPDX-License-Identifier: MIT
// Choosing a stretch of the time line: with the pointer on the chart, or with two sliders.
let byEvent = false;

function drawBrush(part) {
  const {drawn, overlay} = part, whole = isWhole(), left = drawn.xOf(view.from), right = drawn.xOf(view.to - 1);
  overlay.replaceChildren();
  if (!whole)
    overlay.append(make(
        "rect",
        {class: "brush", x: left, width: Math.max(2, right - left), y: 4, height: drawn.height - BOTTOM - 4}));
  const at = drawn.xOf(view.moment - 1);
  overlay.append(make(
      "line",
      {x1: at, x2: at, y1: 4, y2: drawn.height - BOTTOM, stroke: "var(--accent)", "stroke-dasharray": "2 2"}));
}

// A drag chooses a stretch, a click a moment.
function takesPointer(part) {
  const svg = part.drawn.svg, pixel = event => event.clientX - svg.getBoundingClientRect().left;
  let start = null;
  svg.onpointerdown = event => {
    if (event.button) return;
    start = pixel(event);
    svg.setPointerCapture(event.pointerId);
  };
  svg.onpointermove = event => {
    if (start === null || Math.abs(pixel(event) - start) < 5) return;
    const [a, b] = [start, pixel(event)].sort((x, y) => x - y);
    part.overlay.replaceChildren(make("rect", {
      class: "brush",
      x: Math.max(LEFT, a),
      width: Math.max(1, Math.min(part.drawn.width - RIGHT, b) - Math.max(LEFT, a)),
      y: 4,
      height: part.drawn.height - BOTTOM - 4
    }));
  };
  svg.onpointercancel = () => {
    start = null;
  };
  svg.onpointerup = event => {
    if (start === null) return;
    const [a, b] = [start, pixel(event)].sort((x, y) => x - y);
    start = null;
    if (b - a < 5)
      change({moment: part.drawn.sampleAt(b).moment});
    else
      choose(part.drawn.eventAt(a), part.drawn.eventAt(b) + 1);
  };
}

function slider(title, value, onchange) {
  const node =
      make("input", {type: "range", min: 0, max: past().length, step: 1, onchange: () => onchange(+node.value)});
  node.value = value;
  return make("label", {class: "wide"}, title, node);
}

function timelineSection() {
  const part = {drawn: null, overlay: null};
  section(
      "Memory over time",
      () => past().length < 2 ?
          "No events were recorded. Start the program with custash run --record-history FILE.html, or switch history on while it runs." :
          "Each colour is one call site; its height is what that call site holds. The dashed line is the memory held from the driver, cached memory included. Drag to select a range; all tables then show that range only. Click to pick a moment.",
      ["from", "to", "moment", "byEvent", "width", "theme"], body => {
        if (past().length < 2) return true;
        const width = Math.max(300, body.clientWidth || 1080), options = {width, byEvent};
        part.drawn = chart(
            file(), past(),
            {...options, from: 0, to: past().length, height: 280, label: "memory over time by call site"});
        part.overlay = make("g");
        part.drawn.svg.append(part.overlay);
        takesPointer(part);
        drawBrush(part);
        const peak = past().peakOf(0, past().length).moment, around = Math.max(5, Math.round(past().length / 100));
        body.append(
            part.drawn.svg,
            make(
                "div", {class: "row"},
                slider("from event", view.from, value => choose(value, Math.max(value + 1, view.to))),
                slider("to event", view.to, value => choose(Math.min(view.from, value - 1), value)),
                button("around the peak", () => choose(peak - around, peak + around)),
                button("the whole run", () => choose(0, past().length), {disabled: isWhole()}),
                choice(
                    "axis", [["time", "time"], ["events", "events"]], byEvent ? "events" : "time",
                    value => {
                      byEvent = value === "events";
                      change({byEvent});
                    })),
            make(
                "p", {id: "stretch", class: "dim", role: "status"},
                isWhole() ? `All ${plural(past().length, "event")}.` :
                            `Selected: ${stretchText()}, ${seconds(past().time[view.from] - past().time[0])} to ${
                                seconds(past().timeAt(view.to) - past().time[0])}; peak ${
                                bytes(past().peakOf(view.from, view.to).bytes)}.`));
        if (!isWhole() && view.to - view.from > 1) {
          const detail = {
            drawn: chart(
                file(), past(),
                {...options, from: view.from, to: view.to, height: 200, label: "the selected range"}),
            overlay: make("g")
          };
          detail.drawn.svg.append(detail.overlay);
          takesPointer(detail);
          body.append(make("h3", {}, "The selected range"), detail.drawn.svg);
        }
        body.append(legend());
        return true;
      });
}
