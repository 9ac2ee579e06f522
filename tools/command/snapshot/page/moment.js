// SPDX-License-Identifier: MIT
// The state after any event: what the event did, what was in use and held, and the map of memory then.
function eventText(event) {
  const run = past(), size = bytes(run.bytes[event]), on = `on stream ${streamText(run.stream[event])}`;
  switch (run.action[event]) {
    case ALLOC:
      return `${size} allocated ${on} by ${file().places.label(run.stack[event])}`;
    case FREE:
      return `${size} freed by ${
          run.freedBy[event] < 0 ?
              "an unknown call site" :
              file().places.label(run.freedBy[event])}, allocated by ${file().places.label(run.stack[event])}`;
    case OOM:
      return `out of memory: ${size} asked for by ${file().places.label(run.stack[event])}; the driver had ${
          bytes(run.address[event])} free`;
    default:
      return `${size} ${GROWS[run.action[event]] > 0 ? "taken from" : "given back to"} the driver (${
          ACTIONS[run.action[event]]})`;
  }
}

function momentSection() {
  section(
      "Every segment and page",
      () => {
        const end = view.moment === past().length;
        return "All memory held from the driver, address by address: in use (coloured by call site), " +
            (end ?
                 "freed with work in flight (yellow), free. Tall marks are segments, short ones are pages that can move or be released." :
                 "and free. Before the end, blocks have the requested size, and memory that waits for work counts as free.") +
            " Click a block for its life.";
      },
      ["moment", "theme", "width"],
      (body, node) => {
        node.id = "moment";
        const run = past(), end = view.moment === run.length;
        if (run.length) {
          const go = (title, moment, label) => button(
              title, () => change({moment: Math.max(1, Math.min(run.length, moment))}), {"aria-label": label});
          const range = make("input", {
            type: "range",
            min: 1,
            max: run.length,
            step: 1,
            "aria-label": "moment",
            onchange: () => change({moment: +range.value})
          });
          const number = make("input", {
            type: "number",
            min: 1,
            max: run.length,
            style: "width:9em",
            "aria-label": "after event",
            onchange: () => change({moment: Math.max(1, Math.min(run.length, Math.round(+number.value) || 1))})
          });
          range.value = number.value = view.moment;
          const beside = (step, wanted) => {
            let e = view.moment - 1 + step;
            while (e >= 0 && e < run.length && !wanted(run.action[e])) e += step;
            return e + 1;
          };
          body.append(
              make(
                  "div", {class: "row"}, go("first", 1, "first event"), go("‹", view.moment - 1, "event before"),
                  range, go("›", view.moment + 1, "event after"), go("last", run.length, "last event"),
                  go("peak", run.peakOf(view.from, view.to).moment, "peak of the range"),
                  go("‹ driver call", beside(-1, a => a > FREE), "driver call before"),
                  go("driver call ›", beside(1, a => a > FREE), "driver call after"),
                  make("label", {}, "after event", number)),
              make(
                  "p", {id: "state", role: "status"},
                  `After event ${count(view.moment)} of ${count(run.length)}, at ${
                      seconds(run.timeAt(view.moment) - run.time[0])}: ${bytes(run.usedAt(view.moment))} in use, ${
                      bytes(Math.max(run.heldAt(view.moment), 0))} held. ` +
                      `Event ${count(view.moment)}: ${eventText(Math.max(0, view.moment - 1))}.`));
        }
        body.append(drawMap(
            file(), run, end ? mapAtEnd(run) : mapAt(run, view.moment), Math.max(280, body.clientWidth || 1080)));
        return true;
      });
}

function fragmentationSection() {
  section(
      "Fragmentation at the end",
      () => {
        const stats = device().stats;
        return stats["custash.free_bytes"] ?
            `${bytes(stats["custash.free_bytes"])} are cached and free, ${
                bytes(stats["custash.largest_free_block"])} of them in one piece; ${
                (stats["custash.fragmentation"] / 10)
                    .toFixed(
                        1)} % lie outside it. A request that fits no piece moves free pages together, where the memory is made of pages, or asks the driver.` :
            "Nothing is cached and free.";
      },
      [],
      body => {
        const free = new Map();
        for (const segment of device().segments)
          for (const [, size, , state] of segment.blocks) {
            if (state !== "free") continue;
            const bucket = 2 ** Math.ceil(Math.log2(Math.max(512, size))), row = free.get(bucket) || [0, 0];
            free.set(bucket, [row[0] + size, row[1] + 1]);
          }
        body.append(bars(
            "free pieces",
            [...free].sort((a, b) => a[0] - b[0]).map(([
                                                        size, [sum, n]
                                                      ]) => ["up to " + bytes(size), sum, plural(n, "piece")]),
            bytes));
        return true;
      });
}

function oomSection() {
  section(
      "Out of memory", "Requests that were refused. A click on the time shows the memory then.", ["from", "to"],
      body => {
        const run = past(), rows = [];
        for (let i = view.from; i < view.to; ++i)
          if (run.action[i] === OOM) rows.push({event: i, stack: run.stack[i]});
        if (!rows.length) return false;
        body.append(table(
            "out of memory",
            [
              siteColumn("call site"), {
                title: "time",
                up: true,
                value: row => row.event,
                show: row => button(
                    sinceStart(row.event),
                    () => {
                      change({moment: row.event + 1});
                      byId("moment").scrollIntoView();
                    },
                    {class: "link"})
              },
              bytesColumn("asked for", row => run.bytes[row.event]),
              bytesColumn("the driver had", row => run.address[row.event]),
              bytesColumn("in use", row => run.usedAt(row.event))
            ],
            rows, 1));
        return true;
      });
}
