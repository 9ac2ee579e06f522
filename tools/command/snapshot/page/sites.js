// SPDX-License-Identifier: MIT
// The tables by call site and by library, over the chosen stretch.
const found = () => sums().rows.filter(row => shown(row.stack));

function peakSection() {
  section(
      "Where the peak came from",
      () => {
        const whole = sums().rows.reduce((sum, row) => sum + row.atPeak, 0);
        return `When the program held the most in ${stretchText()} (${
            bytes(
                whole)} as asked for), these places held it. To lower the peak, begin at the top. Open a place to see how the program came there.`;
      },
      ["from", "to", "search"],
      body => {
        const whole = sums().rows.reduce((sum, row) => sum + row.atPeak, 0),
              rows = found().filter(row => row.atPeak > 0);
        if (!whole) return false;
        body.append(table(
            "call sites at the peak",
            [
              siteColumn("call site"), {
                title: "share",
                value: row => row.atPeak,
                show: row => make(
                    "span", {},
                    make("i", {class: "fill", style: `width:${(row.atPeak / whole * 90).toFixed(0)}px`}),
                    " " + percent(row.atPeak, whole))
              },
              bytesColumn("at the peak", row => row.atPeak), {title: "caller", value: row => row.caller, up: true}
            ],
            rows, 2));
        return true;
      });
}

function leakSection() {
  section(
      "Leaks",
      () => {
        if (!isWhole()) return `Allocated in ${stretchText()} and still in use at its end.`;
        return sums().rows.some(row => row.growing) ?
            "The memory of these call sites grew all through the run: what a leak in a loop looks like." :
            "No call site's memory grew all through the run.";
      },
      ["from", "to", "search"],
      body => {
        const rows = found().filter(row => row.freshBlocks > 0), growing = found().filter(row => row.growing);
        if (!sums().rows.length) return false;
        if (growing.length && isWhole())
          body.append(make(
              "div", {class: "note"},
              "Growing: " +
                  growing
                      .map(
                          row => `${file().places.label(row.stack)} (${plural(row.calls, "allocation")}, ${
                              bytes(row.allocated)}, ${row.freed ? count(row.freed) : "none"} freed)`)
                      .join("; ")));
        if (!rows.length)
          body.append(make("p", {class: "dim"}, "Nothing."));
        else
          body.append(table(
              "still allocated",
              [
                siteColumn("still allocated, by call site"),
                {title: "growing", value: row => row.growing ? 1 : 0, show: row => row.growing ? "yes" : ""},
                countColumn("blocks", row => row.freshBlocks), bytesColumn("bytes", row => row.fresh)
              ],
              rows, 3));
        return true;
      });
}

function siteSections() {
  section(
      "All call sites", () => `In ${stretchText()}. A heading sorts; a second time, the other way.`,
      ["from", "to", "search"], body => {
        if (!sums().rows.length) return false;
        body.append(table(
            "all call sites",
            [
              siteColumn("call site"), countColumn("calls", row => row.calls),
              bytesColumn("at the end", row => row.now), bytesColumn("its own peak", row => row.own),
              bytesColumn("in sum", row => row.allocated)
            ],
            found(), 3));
        return true;
      });
  section(
      "By library", "Which library called CUDA: the program, PyTorch, NCCL, cuBLAS …", ["from", "to", "search"],
      body => {
        const callers = new Map();
        for (const row of found()) {
          const its = callers.get(row.caller) || {caller: row.caller, calls: 0, now: 0, atPeak: 0};
          for (const key of ["calls", "now", "atPeak"]) its[key] += row[key];
          callers.set(row.caller, its);
        }
        if (!sums().rows.length) return false;
        body.append(table(
            "by library",
            [
              {title: "module", value: row => row.caller, up: true}, countColumn("calls", row => row.calls),
              bytesColumn("at the end", row => row.now), bytesColumn("at the peak", row => row.atPeak)
            ],
            [...callers.values()], 3));
        return true;
      });
}

// Older files do not say what the driver served.
function passedSection() {
  section(
      "Served by the driver",
      "Allocations of the whole process that custash left to the driver: handles, arrays, managed memory …",
      ["file"], body => {
        const rows = file().data.passed || [];
        if (!rows.length) return false;
        body.append(table(
            "served by the driver",
            [
              {title: "kind", value: row => row.kind, up: true}, countColumn("allocations", row => row.allocations),
              bytesColumn("bytes in sum", row => row.allocated_bytes), countColumn("live", row => row.live),
              bytesColumn("live bytes", row => row.live_bytes)
            ],
            rows, 2));
        const callers = new Map();
        for (const site of file().data.history.sites) {
          if (site.memory !== "other") continue;
          const its = callers.get(site.caller) || {caller: site.caller, calls: 0, bytes: 0};
          its.calls += site.allocations;
          its.bytes += site.bytes;
          callers.set(site.caller, its);
        }
        if (callers.size)
          body.append(table(
              "served by the driver, by library",
              [
                {title: "module", value: row => row.caller, up: true}, countColumn("calls", row => row.calls),
                bytesColumn("live bytes", row => row.bytes)
              ],
              [...callers.values()], 2));
        return true;
      });
}

function lifetimeSection() {
  section(
      "How long blocks live", () => `Short-lived blocks gain most from a cache. Blocks freed in ${stretchText()}.`,
      ["from", "to", "search"], body => {
        const tracked = file().data.history.tracked[device().device], its = past(), rows = new Map();
        if (isWhole() && !view.search) {
          for (const [ns, n] of Object.entries(tracked?.lifetimes_up_to_ns || {})) rows.set(+ns, n);
        } else {
          for (let b = 0; b < its.blocks; ++b) {
            if (its.begin[b] < 0 || its.end[b] < view.from || its.end[b] >= view.to || !shown(its.site[b]))
              continue;
            const bucket = 2 ** Math.ceil(Math.log2(Math.max(1, its.lifetime(b) * 1000)));
            rows.set(bucket, (rows.get(bucket) || 0) + 1);
          }
        }
        if (!rows.size) return false;
        body.append(bars(
            "lifetimes", [...rows].sort((a, b) => a[0] - b[0]).map(([ns, n]) => ["up to " + duration(ns), n]),
            count));
        return true;
      });
}
