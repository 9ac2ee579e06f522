// SPDX-License-Identifier: MIT
// The map of memory: every segment, page and block, at the end or after any event.
const MAP_ROW = 18, MAP_GAP = 5, MAP_ROWS = 24, BYTES_PER_PIXEL = 256 * 1024;

// At the end: as the snapshot has it. [{base, size, words, pages, blocks: [{base, size, state, requested, block}]}]
function mapAtEnd(run) {
  const alive = new Map();
  for (let b = 0; b < run.blocks; ++b)
    if (run.end[b] === run.length) alive.set(run.at[b], b);
  return run.device.segments.map(
      s => ({
        base: s.address,
        size: s.size,
        pages: s.pages,
        words: `segment of ${bytes(s.size)} (${s.pool}, ${
            s.made_of === "pages" ? plural(s.pages.length, "handle") :
                                    "cuMemAlloc"}), stream ${streamText(s.stream)}`,
        blocks: s.blocks.map(
            ([base, size, requested, state, stack]) =>
                ({base, size, state, requested, stack, block: state === "used" ? alive.get(base) : undefined}))
      }));
}

// Ranges held at a moment: those at the end, with the later events undone.
function rangesAt(run, moment) {
  let ranges = run.device.segments.map(s => [s.address, s.address + s.size]);
  for (let i = run.length - 1; i >= moment; --i) {
    const way = GROWS[run.action[i]], begin = run.address[i], end = begin + run.bytes[i];
    if (!way) continue;
    if (way < 0)
      ranges.push([begin, end]);
    else
      ranges = ranges.flatMap(
          ([a, b]) => b <= begin || a >= end ? [[a, b]] : [[a, begin], [end, b]].filter(([x, y]) => x < y));
  }
  const joined = [];
  for (const [a, b] of ranges.sort((x, y) => x[0] - y[0])) {
    const last = joined[joined.length - 1];
    if (last && a <= last[1])
      last[1] = Math.max(last[1], b);
    else
      joined.push([a, b]);
  }
  return joined;
}

// Earlier: out of the events. Blocks have the size that was asked for.
function mapAt(run, moment) {
  const ranges = rangesAt(run, moment), blocks = [];
  for (let b = 0; b < run.blocks; ++b)
    if (run.livesAt(b, moment)) blocks.push(b);
  blocks.sort((a, b) => run.at[a] - run.at[b]);
  let next = 0;
  const piece = b =>
      ({base: run.at[b], size: run.size[b], requested: run.size[b], state: "used", stack: run.site[b], block: b});
  return ranges.map(([base, end]) => {
    const inside = [];
    for (let at = base; at < end;) {
      while (next < blocks.length && run.at[blocks[next]] < at) ++next;
      const b = next < blocks.length && run.at[blocks[next]] < end ? blocks[next++] : null,
            begin = b === null ? end : run.at[b];
      if (begin > at) inside.push({base: at, size: begin - at, state: "free", stack: -1});
      if (b !== null) inside.push(piece(b));
      at = b === null ? end : begin + Math.max(1, run.size[b]);
    }
    return {base, size: end - base, pages: [], words: `held: ${bytes(end - base)} in a row`, blocks: inside};
  });
}

function drawMap(its, run, segments, width) {
  const total = segments.reduce((sum, s) => sum + s.size, 0);
  if (total === 0) return make("p", {}, "Nothing is held.");
  const rows = Math.max(1, Math.min(MAP_ROWS, Math.ceil(total / (BYTES_PER_PIXEL * width)))),
        perRow = Math.ceil(total / rows), scale = width / perRow;
  const canvas = make("canvas", {
    width: width * 2,
    height: rows * (MAP_ROW + MAP_GAP) * 2,
    role: "img",
    "aria-label": `map of ${bytes(total)} in ${plural(segments.length, "segment")}`
  });
  const draw = canvas.getContext("2d"), style = getComputedStyle(document.documentElement),
        hits = Array.from({length: rows}, () => []);
  draw.scale(2, 2);
  const ink = style.getPropertyValue("--ink"), free = style.getPropertyValue("--free"),
        limbo = style.getPropertyValue("--limbo");
  const edge = (offset, height) => {
    const row = Math.min(rows - 1, Math.floor(offset / perRow));
    draw.fillStyle = ink;
    draw.fillRect((offset - row * perRow) * scale - .4, row * (MAP_ROW + MAP_GAP) + MAP_ROW - height, .8, height);
  };
  let at = 0;
  for (const segment of segments) {
    for (const piece of segment.blocks) {
      draw.fillStyle = piece.state === "used" ? colourOf(its, piece.stack) : piece.state === "limbo" ? limbo : free;
      let offset = at + piece.base - segment.base,
          size = Math.max(0, Math.min(piece.size, at + segment.size - offset));
      while (size > 0) {
        const row = Math.floor(offset / perRow), within = offset - row * perRow,
              part = Math.min(size, perRow - within), wide = part * scale;
        draw.fillRect(within * scale, row * (MAP_ROW + MAP_GAP), Math.max(wide - (wide > 3 ? .5 : 0), .2), MAP_ROW);
        hits[row].push({from: within * scale, to: (within + part) * scale, piece, segment});
        offset += part;
        size -= part;
      }
    }
    let page = at;
    for (const size of segment.pages) edge(page += size, 4);
    edge(at, MAP_ROW);
    at += segment.size;
  }
  const hitAt = event => {
    const box = canvas.getBoundingClientRect(), x = (event.clientX - box.left) / box.width * width,
          row = hits[Math.floor((event.clientY - box.top) / box.height * rows)] || [];
    return row.find(hit => hit.from <= x && x < hit.to);
  };
  canvas.onmousemove = event => {
    const hit = hitAt(event);
    if (!hit) return hideTip();
    const {piece, segment} = hit;
    showTip(
        event,
        (piece.state === "used" ?
             `${bytes(piece.requested)} in use (${bytes(piece.size)} handed out)\n${
                 its.places.label(piece.stack)}` :
             `${bytes(piece.size)} ${
                 piece.state === "limbo" ? "freed, work in flight may still use it" : "free"}`) +
            `\n${hexadecimal(piece.base)}, ${segment.words}`);
  };
  canvas.onmouseleave = hideTip;
  canvas.onclick = event => {
    const hit = hitAt(event);
    if (hit?.piece.block !== undefined) showBlock(hit.piece.block);
  };
  return canvas;
}
