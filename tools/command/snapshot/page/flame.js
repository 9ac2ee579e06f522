// SPDX-License-Identifier: MIT
// A flame graph: the wider a function, the more memory was allocated below it. Its places are buttons, so it works
// with keys, too.
const FLAME_ROW = 22, NARROWEST = .0012, DEEPEST = 60;

// A tree of functions out of rows {stack, weight}.
function flameTree(places, rows, {inverted, hideLibraries}) {
  const root = {name: "all", weight: 0, own: 0, children: new Map(), stacks: []};
  for (const {stack, weight} of rows) {
    let frames = places.framesOf(stack);
    if (hideLibraries && frames.some(frame => !isLibrary(frame)))
      frames = frames.filter(frame => !isLibrary(frame));
    let steps =
        frames.map(frame => ({name: places.name(frame), whole: frameText(frame), library: isLibrary(frame)}));
    if (!steps.length) steps = [{name: places.label(stack), whole: places.label(stack), library: false}];
    if (!inverted) steps.reverse();
    let node = root;
    root.weight += weight;
    for (const step of steps.slice(0, DEEPEST)) {
      if (!node.children.has(step.whole))
        node.children.set(step.whole, {...step, weight: 0, own: 0, children: new Map(), parent: node});
      node = node.children.get(step.whole);
      node.weight += weight;
    }
    node.own += weight;
  }
  return root;
}

// Draws a tree; a click or Enter on a place makes it as wide as the page, and the arrows go from place to place.
function flameGraph(label, root, text, search) {
  const box = make("div", {class: "flame", role: "group", "aria-label": label}),
        path = make("p", {class: "dim", role: "status"});
  let focus = root, places = [];
  const isHit = node => search && node !== root && search(node.whole);
  const hits = node =>
      isHit(node) ? node.weight : [...node.children.values()].reduce((sum, child) => sum + hits(child), 0);
  function put(node, left, width, depth, up) {
    const share = `${text(node.weight)}, ${percent(node.weight, root.weight)}`;
    const place = button(node.name, () => zoom(node === focus ? node.parent || root : node), {
      tabindex: -1,
      "aria-label": `${node.whole || node.name}: ${share}`,
      class: [isHit(node) ? "hit" : "", node.library ? "lib" : "", width < .02 ? "narrow" : ""].join(" ").trim(),
      style: `left:${left * 100}%;width:${width * 100}%;top:${depth * FLAME_ROW}px`
    });
    place.onmousemove = event => showTip(
        event,
        `${node.whole || node.name}\n${share}` +
            (node.own && node.children.size ? `, ${text(node.own)} of it here` : ""));
    place.onmouseleave = hideTip;
    const mine = {node, place, up, depth, down: null};
    places.push(mine);
    box.append(place);
    return mine;
  }
  function grow(node, left, width, depth, up) {
    const mine = put(node, left, width, depth, up);
    let at = left, deepest = depth, hidden = 0;
    for (const child of [...node.children.values()].sort((a, b) => b.weight - a.weight)) {
      const wide = width * child.weight / Math.max(1, node.weight);
      if (wide < NARROWEST) {
        hidden += 1;
        continue;
      }
      const [below, made, less] = grow(child, at, wide, depth + 1, mine);
      mine.down ||= made;
      deepest = Math.max(deepest, below);
      hidden += less;
      at += wide;
    }
    return [deepest, mine, hidden];
  }
  function zoom(node, keep = true) {
    hideTip();
    focus = node;
    places = [];
    box.replaceChildren();
    const above = [];
    for (let each = node.parent; each; each = each.parent) above.unshift(each);
    let up = null;
    above.forEach((each, depth) => {
      const mine = put(each, 0, 1, depth, up);
      if (up) up.down = mine;
      up = mine;
    });
    const [deepest, mine, hidden] = grow(node, 0, 1, above.length, up);
    if (up) up.down = mine;
    box.style.height = (deepest + 1) * FLAME_ROW + "px";
    mine.place.tabIndex = 0;
    if (keep) mine.place.focus({preventScroll: true});
    path.textContent = `${node === root ? "" : (node.whole || node.name) + ": "}${text(node.weight)}, ${
                           percent(node.weight, root.weight)}.` +
        (search ? ` Found: ${text(hits(root))}, ${percent(hits(root), root.weight)}.` : "") +
        (hidden ? ` ${plural(hidden, "place")} too narrow to be drawn.` : "");
  }
  box.onkeydown = event => {
    const now = places.findIndex(each => each.place === document.activeElement), mine = places[now];
    if (!mine) return;
    const beside = step => {
      const row = places.filter(each => each.depth === mine.depth);
      return row[row.indexOf(mine) + step];
    };
    const to = {ArrowUp: mine.up, ArrowDown: mine.down, ArrowLeft: beside(-1), ArrowRight: beside(1)}[event.key];
    if (event.key === "Escape")
      zoom(root);
    else if (to) {
      mine.place.tabIndex = -1;
      to.place.tabIndex = 0;
      to.place.focus();
    } else if (!event.key.startsWith("Arrow"))
      return;
    event.preventDefault();
  };
  zoom(root, false);
  return [path, box];
}

const flame = {
  of: "atPeak",
  inverted: false,
  hideLibraries: false
};

function flameSection() {
  const kinds = [
    ["atPeak", "at the peak"], ["now", "at the end"], ["moment", "at the chosen moment"],
    ["allocated", "allocated in sum"], ["calls", "calls"]
  ];
  section(
      "Flame graph",
      () => `Functions that allocated memory, directly or through others, in ${
          stretchText()}. Click to zoom in, press Escape to zoom out; the arrow keys move.`,
      ["from", "to", "moment", "search", "flame"], body => {
        if (!sums().rows.length) return false;
        const set = values => {
          Object.assign(flame, values);
          change({flame: JSON.stringify(flame)});
        };
        const rows = flame.of === "moment" ?
            [...past().sitesAt(view.moment)].map(([stack, weight]) => ({stack, weight})) :
            sums().rows.map(row => ({stack: row.stack, weight: row[flame.of]}));
        const root = flameTree(file().places, rows.filter(row => row.weight > 0), flame);
        const box = (title, key) => {
          const node =
              make("input", {type: "checkbox", checked: flame[key], onchange: () => set({[key]: node.checked})});
          return make("label", {}, node, title);
        };
        body.append(
            make(
                "div", {class: "row"}, choice("memory", kinds, flame.of, of => set({of})),
                box("from the allocation outwards", "inverted"), box("hide libraries", "hideLibraries")),
            ...flameGraph("flame graph", root, flame.of === "calls" ? n => plural(n, "call") : bytes, view.search));
        return true;
      });
}
