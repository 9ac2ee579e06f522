// SPDX-License-Identifier: MIT
// What the time line shows: the call sites with a colour, the axis, and what was in use at each of its places.

// The call sites that have a colour: those that hold the most at the peak, the same ones in both files.
function colouredKeys() {
  if (colouredKeys.value) return colouredKeys.value;
  const most = new Map();
  for (const its of files)
    for (const site of its.data.history.sites) {
      if (site.stack < 0 || site.memory !== "device") continue;
      const key = its.places.key(site.stack);
      most.set(key, Math.max(most.get(key) || 0, site.at_peak_bytes));
    }
  const keys = [...most].sort((a, b) => b[1] - a[1]).slice(0, COLOURS.length).map(each => each[0]);
  colouredKeys.value = new Map(keys.map((key, i) => [key, i]));
  return colouredKeys.value;
}
function seriesOf(its, stack) {
  its.series ||= new Map();
  if (!its.series.has(stack))
    its.series.set(
        stack, stack < 0 ? colouredKeys().size : colouredKeys().get(its.places.key(stack)) ?? colouredKeys().size);
  return its.series.get(stack);
}
const colourOf = (its, stack) => seriesOf(its, stack) < colouredKeys().size ? COLOURS[seriesOf(its, stack)] : OTHER;

// Where an event stands between 0 and 1 on the axis, and what is written there.
function axisOf(run, from, to, byEvent) {
  const last = Math.max(from, to - 1), begin = run.time[from], span = run.time[last] - begin;
  if (byEvent || span <= 0)
    return {
      unit: "events",
      begin: from,
      size: Math.max(1, last - from),
      place: i => (i - from) / Math.max(1, last - from),
      text: v => count(Math.round(v)),
      eventAt: p => from + Math.round(p * (last - from))
    };
  const [unit, each] = span < 1e3 ? ["µs", 1] : span < 1e6 ? ["ms", 1e3] : ["s", 1e6];
  return {
    unit: "time",
    begin: begin - run.time[0],
    size: span,
    place: i => (run.time[i] - begin) / span,
    text: (v, step) =>
        `${(v / each).toFixed(Math.max(0, Math.min(3, -Math.floor(Math.log10(step / each)))))} ${unit}`,
    eventAt: p => {
      let low = from, high = last;  // the last event that is not after it
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (run.time[middle] - begin <= p * span)
          low = middle;
        else
          high = middle - 1;
      }
      return low;
    }
  };
}

// For each of `wide` columns the moment with the most in use, and the levels of all series then.
function samplesOf(its, run, from, to, axis, wide) {
  const levels = new Float64Array(colouredKeys().size + 1), out = [];
  for (const [stack, size] of run.sitesAt(from)) levels[seriesOf(its, stack)] += size;
  let total = levels.reduce((a, b) => a + b, 0), held = run.heldAt(from);
  const reach = (column, moment) => {
    while (out.length <= column) out.push({total, moment, held: Math.max(held, total), levels: levels.slice()});
  };
  run.walk(from, to, (i, stack, change) => {
    const column = Math.min(wide - 1, Math.floor(axis.place(i) * wide));
    reach(column, i);
    if (stack === null)
      held += change;
    else {
      levels[seriesOf(its, stack)] += change;
      total += change;
    }
    const now = out[column];
    if (total > now.total) {
      now.total = total;
      now.moment = i + 1;
      now.levels = levels.slice();
    }
    now.held = Math.max(now.held, held, total);
  });
  reach(wide - 1, to);
  return out;
}

// A coloured call site's label, from whichever file has it.
function labelOfKey(key) {
  labelOfKey.known ||= new Map();
  if (!labelOfKey.known.has(key)) {
    for (const its of files)
      for (const site of its.data.history.sites)
        if (site.stack >= 0 && its.places.key(site.stack) === key)
          labelOfKey.known.set(key, its.places.label(site.stack));
  }
  return labelOfKey.known.get(key);
}
