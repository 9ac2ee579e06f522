# SPDX-License-Identifier: MIT
"""Table and plots of the rows that runs.py measured. Pure: rows in, text out."""
import json
import math
import pathlib

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#666", "#000")
CASES = {  # what a case measures, and what its lines differ in
    "size": ("By size, one thread", "bytes"),
    "processes": ("The core alone: threads of one process, and processes", "how many"),
    "threads_own": ("By threads, each on a stream of its own", "threads"),
    "threads_shared": ("By threads, all on one stream", "threads"),
    "handover": ("By threads, each frees what another has allocated", "threads"),
    "live": ("One block at random of N live ones", "live"),
    "lanes": ("By streams that have work", "streams"),
    "recorded": ("The order and the sizes of a recorded program, with a write to each block", "program"),
    "cold": ("The first allocation of a size, and its free", "bytes"),
    "threads_size": ("By size and threads, each on a stream of its own", "bytes, threads"),
    "tails": ("One of six sizes beside work on the device: the share of pairs that takes at most so long", "threads"),
    "holes": ("One of 500 sizes beside so many free blocks", "free blocks"),
    "windows": ("A recorded program over and over: the median window, and the slowest", "program"),
    "endings": ("A thread that starts, allocates six sizes, frees them and ends; bytes that it leaves", ""),
    "pinned": ("Pinned memory, by size", "bytes"),
}
RUNTIMES = {"shared": "shared runtime", "static": "static runtime", "double": "the runtime's double", "none": "no runtime"}
HOW = {"bare": "without custash", "custash": "with custash"}
PLOTS = (("size", "bytes"), ("threads_own", "threads"))
WIDTH, HEIGHT, LEFT, TOP, RIGHT = 900, 340, 70, 40, 260


def column(row):
    """What a figure stands under: calls of CUDA bare or with custash, or a peer."""
    return f"{row['peer']}, {HOW[row['how']]}" if row["peer"].startswith("cuda") else row["peer"]


def number(text):
    digits = "".join(c for c in text if c.isdigit())
    return int(digits) if digits else 0


def readable(ns):
    if ns < 1000:
        return f"{ns:.0f}" if ns >= 100 else f"{ns:.1f}"
    return f"{ns:,.0f}"


def table(rows):
    """One table a case and runtime: a line a parameter, a column a peer; ratio = without custash ÷ with."""
    out = ""
    for case, runtime in dict.fromkeys((r["case"], r["runtime"]) for r in rows):
        mine = [r for r in rows if (r["case"], r["runtime"]) == (case, runtime)]
        columns = list(dict.fromkeys(column(r) for r in mine))
        without, with_custash = (f", {HOW[how]}" for how in ("bare", "custash"))
        pairs = [c.removesuffix(without) for c in columns
                 if c.endswith(without) and c.removesuffix(without) + with_custash in columns]
        title, of = CASES[case]
        lines = [[of, *columns, *(f"{p}: ratio" for p in pairs)]]
        lines.append(["---"] * len(lines[0]))
        for where in dict.fromkeys(r["where"] for r in mine):
            cell = {column(r): r["ns"] for r in mine if r["where"] == where}
            ratios = [cell.get(p + without, 0) / cell[p + with_custash] if cell.get(p + with_custash)
                      else None for p in pairs]
            lines.append([where.replace("threads:", ""), *(readable(cell[c]) if c in cell else "" for c in columns),
                          *(f"{r:,.0f} ×" if r and r >= 100 else f"{r:.1f} ×" if r else "" for r in ratios)])
        out += f"{title}; {RUNTIMES[runtime]}:\n\n" + "".join("| " + " | ".join(l) + " |\n" for l in lines) + "\n"
    return out


def text(x, y, what, anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{what}</text>\n'


def one_plot(rows, title, unit, down):
    """Both axes logarithmic."""
    curves = {}
    for row in rows:
        curves.setdefault(column(row), []).append((number(row["where"]), row["ns"]))
    xs = sorted({x for points in curves.values() for x, _ in points})
    low = math.floor(math.log10(min(r["ns"] for r in rows)))
    high = max(low + 1, math.ceil(math.log10(max(r["ns"] for r in rows))))
    span = math.log2(xs[-1] / xs[0]) or 1

    def at(x, ns):
        return (LEFT + (WIDTH - LEFT - RIGHT) * math.log2(x / xs[0]) / span,
                down + TOP + (HEIGHT - 2 * TOP) * (1 - (math.log10(ns) - low) / (high - low)))

    out = text(LEFT, down + 22, f"{title}: ns a pair by {unit}")
    for power in range(low, high + 1):
        y = at(xs[0], 10 ** power)[1]
        out += f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>\n'
        out += text(LEFT - 8, y + 4, f"{10 ** power:,}", "end")
    for x in xs:
        name = f"{x >> 20} Mi" if x >= 1 << 20 else f"{x >> 10} Ki" if x >= 1 << 10 else str(x)
        out += text(at(x, 1)[0], down + HEIGHT - TOP + 18, name, "middle")
    for i, (name, points) in enumerate(curves.items()):
        colour = COLOURS[i % len(COLOURS)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in sorted(points)))
        out += f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>\n'
        y = down + TOP + 20 * i
        out += f'<path d="M{WIDTH - RIGHT + 20} {y}h24" stroke="{colour}" stroke-width="2"/>\n'
        out += text(WIDTH - RIGHT + 50, y + 4, name)
    return out


def plot(rows):
    body, down = "", 0
    for case, unit in PLOTS:
        mine = [r for r in rows if r["case"] == case and r["runtime"] == "shared"]
        if mine:
            body += one_plot(mine, case, unit, down)
            down += HEIGHT
    return document(WIDTH, max(down, 1), body)


def document(width, height, body):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            'font-family="sans-serif" font-size="12" fill="#333">\n'
            '<rect width="100%" height="100%" fill="#fff"/>\n' + body + "</svg>\n")


def count(text):
    """For argparse: a whole number from 1 on."""
    if int(text) < 1:
        raise ValueError
    return int(text)


def minutes(text):
    """For argparse: more than none, and an end."""
    if not 0 < float(text) < math.inf:
        raise ValueError
    return float(text)


class Unreadable(Exception):
    """A file that holds no figures; the text says why."""


def read_figures(path, keys, command):
    """What `command --json` wrote into a file: an object with these keys, and with their values where they are not None."""
    try:
        found = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except OSError as why:
        raise Unreadable(f"{path}: {why.strerror}") from why
    except ValueError as why:
        raise Unreadable(f"{path} is not JSON: {why}") from why
    if not isinstance(found, dict) or not all(key in found and value in (None, found[key]) for key, value in keys.items()):
        raise Unreadable(f"{path} holds no figures of {command}")
    return found


def between(page, name, text):
    """The page with what stands between its two comments of that name replaced."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    head, found, rest = page.partition(begin)
    _, closed, tail = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"no place for {name}")
    return f"{head}{begin}{text}{end}{tail}"
