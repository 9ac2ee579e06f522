# SPDX-License-Identifier: MIT
"""Pictures and tables of the five figures that figures.py measures. Pure: figures in, text out. A dot is a median, the
line through it the range of all runs."""
import html
import itertools
import math

import report

GREEN, GREY = "#009e73", "#888"
OURS = (GREEN, "#7fd4b9")
OTHERS = ("#0072b2", "#d55e00", "#cc79a7", "#e69f00", "#56b4e9", "#666")
LEFT, WIDTH, RIGHT, ROW, TOP = 200, 960, 260, 22, 64
TITLES = {
    "threads": ("cudaMalloc and cudaFree of 64 KiB, nanoseconds a pair, by threads", "thread"),
    "training": ("GPT-2 training: a step, and the memory that the process holds", ""),
    "stall": ("cudaFree while another stream's 60 ms kernel runs, by size of the block", "bytes"),
    "pinned": ("cudaMallocHost and cudaFreeHost, nanoseconds a pair, by size", "bytes"),
    "held": ("memory held ÷ memory in use, at their peaks, by recorded program", ""),
}


def size(value, unit):
    if unit == "thread":
        return f"{value} thread" + ("" if value == 1 else "s")
    if unit != "bytes":
        return str(value)
    for step, name in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if value >= 1 << step:
            return f"{value >> step} {name}"
    return f"{value} B"


def scaled(value, unit):
    """What a figure is divided by to be read, and the unit it then has."""
    steps = ((1e6, "ms"), (1e3, "µs")) if unit == "ns" else ((1e3, "ms"),) if unit == "µs" else ()
    return next(((by, name) for by, name in steps if value >= by), (1, unit))


def readable(value, by=1):
    return f"{value / by:,.0f}" if value >= 1000 * by else f"{value / by:.3g}"


def median(row):
    by, unit = scaled(row["median"], row["unit"])
    return f"{readable(row['median'], by)} {unit or '×'}"


def span(row):
    """The median with its range and the number of runs."""
    by, _ = scaled(row["median"], row["unit"])
    if row["low"] == row["high"]:
        return median(row)
    return f"{median(row)} ({readable(row['low'], by)}–{readable(row['high'], by)}, {row['runs']} runs)"


def of(found, picture):
    return [row for row in found["rows"] if row["picture"] == picture]


def tables(found):
    """One table a picture: a line a way, a column a place on the axis."""
    out = f"Measured on {found['machine']}. A cell has the median of its runs and their range. Without a range, all were equal.\n\n"
    for picture, (title, unit) in TITLES.items():
        rows = of(found, picture)
        if not rows:
            continue
        places = list(dict.fromkeys(row["at"] for row in rows))
        lines = [[title, *(size(at, unit) for at in places)], ["---"] * (len(places) + 1)]
        for who in dict.fromkeys(row["who"] for row in rows):
            cell = {row["at"]: span(row) for row in rows if row["who"] == who}
            lines.append([who, *(cell.get(at, "") for at in places)])
        out += "".join("| " + " | ".join(line) + " |\n" for line in lines) + "\n"
    return out


class Axis:
    """From a figure to its place on a line, from 0 on or logarithmic."""

    def __init__(self, rows, logarithmic):
        least, most = min(row["low"] for row in rows), max(row["high"] for row in rows)
        self.unit, self.logarithmic = rows[0]["unit"], logarithmic
        self.low, self.high = (math.log10(least), math.log10(most)) if self.logarithmic else (0, most)

    def at(self, value):
        share = ((math.log10(value) if self.logarithmic else value) - self.low) / ((self.high - self.low) or 1)
        return LEFT + 10 + (WIDTH - LEFT - RIGHT - 20) * share

    def ticks(self):
        powers = range(math.ceil(self.low), math.floor(self.high) + 1)
        return [10 ** power for power in powers] if len(powers) > 1 else [1, 2, 5]

    def draw(self, top, bottom):
        out = ""
        for tick in self.ticks():
            if self.low <= math.log10(tick) <= self.high:
                by, unit = scaled(tick, self.unit)
                out += f'<path d="M{self.at(tick):.1f} {top}V{bottom}" stroke="#ddd"/>\n'
                out += report.text(self.at(tick), bottom + 14, f"{tick / by:g} {unit or '×'}", "middle")
        return out


def dots(row, axis, y, colour):
    return (f'<path d="M{axis.at(row["low"]):.1f} {y}H{axis.at(row["high"]):.1f}" stroke="{colour}" stroke-width="4"/>\n'
            f'<circle cx="{axis.at(row["median"]):.1f}" cy="{y}" r="5" fill="{colour}"/>\n')


def is_ours(who):
    return "with custash" in who or who == "custash"


def panel(rows, title, down):
    """A bar for each way. For places that have an axis of their own."""
    axis, out = Axis(rows, False), report.text(LEFT, down, title)
    for i, row in enumerate(rows):
        y = down + 8 + ROW * i + ROW / 2
        out += report.text(LEFT - 12, y + 4, html.escape(row["who"]), "end")
        colour = GREEN if is_ours(row["who"]) else GREY
        out += (f'<rect x="{axis.at(0):.1f}" y="{y - 8}" width="{axis.at(row["median"]) - axis.at(0):.1f}" height="16" fill="{colour}" '
                f'fill-opacity="0.3"/>\n' + dots(row, axis, y, colour))
        out += report.text(WIDTH - RIGHT + 14, y + 4, span(row))
    return out, down + ROW * len(rows) + 40


def lines(rows, unit, down):
    """A line for each place, all ways on it in colours, one axis for all."""
    places, ways = list(dict.fromkeys(row["at"] for row in rows)), list(dict.fromkeys(row["who"] for row in rows))
    ways.sort(key=is_ours)  # drawn last, above the others
    ours, others = iter(OURS), itertools.cycle(OTHERS)
    colours = {who: next(ours) if is_ours(who) else next(others) for who in ways}
    axis, x, out = Axis(rows, True), LEFT, ""
    for who in ways:  # the legend
        if x + 8 * len(who) > WIDTH:
            x, down = LEFT, down + 18
        out += f'<circle cx="{x + 5}" cy="{down - 4}" r="5" fill="{colours[who]}"/>\n' + report.text(x + 14, down, html.escape(who))
        x += 34 + 6.4 * len(who)
    top, down = down + 8, down + 8
    for at in places:
        y = down + ROW / 2
        out += report.text(LEFT - 12, y + 4, html.escape(size(at, unit)), "end")
        out += f'<path d="M{LEFT} {y}H{WIDTH - RIGHT}" stroke="#eee"/>\n'
        mine = [row for row in rows if row["at"] == at]
        out += "".join(dots(row, axis, y, colours[row["who"]]) for row in sorted(mine, key=lambda row: is_ours(row["who"])))
        ours = next((row for row in mine if is_ours(row["who"])), mine[-1])
        out += report.text(WIDTH - RIGHT + 14, y + 4, f"custash: {span(ours)}")
        down += ROW
    return out + axis.draw(top, down), down + 40


def picture(found, name):
    title, unit = TITLES[name]
    rows = of(found, name)
    counts = sorted({row["runs"] for row in rows})
    runs = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    below = f"{'bar: median' if len({row['unit'] for row in rows}) > 1 else 'dot: median'}, line: range; runs of each: {runs}; {found['machine']}"
    body = report.text(16, 24, title) + f'<g fill="{GREY}">{report.text(16, 42, html.escape(below))}</g>\n'
    down = TOP
    if len({row["unit"] for row in rows}) == 1:
        part, down = lines(rows, unit, down + 4)
        return report.document(WIDTH, down - 10, body + part)
    for at in dict.fromkeys(row["at"] for row in rows):
        part, down = panel([row for row in rows if row["at"] == at], size(at, unit), down + 4)
        body += part
    return report.document(WIDTH, down - 10, body)


def pictures(found):
    return {name: picture(found, name) for name in TITLES if of(found, name)}
