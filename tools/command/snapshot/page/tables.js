// SPDX-License-Identifier: MIT
// Tables that are sorted by a click or a key on a heading, downwards and upwards. They show the first rows and say
// how many there are.
const FIRST_ROWS = 25, MORE_ROWS = 200;

const compare = (a, b) => typeof a === "string" ? a.localeCompare(b) : a < b ? -1 : a > b ? 1 : 0;

// The first rows in an order. A million of them are not all sorted: a threshold leaves out most.
function firstRows(rows, value, descending, most) {
  const order = descending ? (a, b) => compare(value(b), value(a)) : (a, b) => compare(value(a), value(b));
  if (rows.length <= 5000) return [...rows].sort(order).slice(0, most);
  const keys = new Float64Array(rows.length);
  for (let i = 0; i < rows.length; ++i) keys[i] = value(rows[i]);
  const sorted = keys.slice().sort(),
        limit = descending ? sorted[Math.max(0, rows.length - most)] : sorted[Math.min(most, rows.length) - 1];
  const sure = [], equal = [];
  for (let i = 0; i < rows.length; ++i) {
    if (keys[i] === limit)
      equal.length < most && equal.push(rows[i]);
    else if (descending ? keys[i] > limit : keys[i] < limit)
      sure.push(rows[i]);
  }
  return [...sure.sort(order), ...equal].slice(0, most);
}

// Columns: {title, value(row), show(row) where that is not the value itself, up: sorted upwards first}. Values of
// many rows are numbers.
function table(label, columns, rows, by) {
  const body = make("tbody"), head = make("tr"), foot = make("div", {class: "row dim"});
  const state = {by, descending: !columns[by].up, most: FIRST_ROWS};
  const headings = columns.map((column, i) => make("th", {scope: "col"}, button(column.title, () => {
                                                     state.descending =
                                                         state.by === i ? !state.descending : !column.up;
                                                     state.by = i;
                                                     fill();
                                                   })));
  function fill() {
    const column = columns[state.by];
    headings.forEach((heading, i) => {
      if (i === state.by)
        heading.setAttribute("aria-sort", state.descending ? "descending" : "ascending");
      else
        heading.removeAttribute("aria-sort");
      heading.firstChild.textContent = columns[i].title + (i === state.by ? state.descending ? " ▾" : " ▴" : "");
    });
    const first = firstRows(rows, column.value, state.descending, state.most);
    body.replaceChildren(...first.map(
        row => make("tr", {}, ...columns.map(c => make("td", {}, c.show ? c.show(row) : c.value(row))))));
    const left = rows.length - first.length;
    foot.replaceChildren(`${count(first.length)} of ${plural(rows.length, "row")}`);
    if (left > 0)
      foot.append(button(`show ${count(Math.min(left, MORE_ROWS))} more`, () => {
        state.most += MORE_ROWS;
        fill();
      }));
  }
  head.append(...headings);
  fill();
  return make(
      "div", {},
      make(
          "div", {class: "scroll", tabindex: 0, role: "region", "aria-label": "table: " + label},
          make("table", {"aria-label": label}, make("thead", {}, head), body)),
      foot);
}

const bytesColumn = (title, value) => ({title, value, show: row => bytes(value(row))});
const countColumn = (title, value) => ({title, value, show: row => count(value(row))});
const siteColumn = title =>
    ({title, up: true, value: row => file().places.label(row.stack), show: row => file().places.node(row.stack)});
