# SPDX-License-Identifier: MIT
"""The table of the rows that runs.py measured, and what other figures are drawn with. Pure: rows in, text out."""
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
    "pinned": ("Pinned memory, by size", "bytes"),
}
RUNTIMES = {"shared": "shared runtime", "static": "static runtime", "double": "the runtime's double", "none": "no runtime"}
HOW = {"bare": "without custash", "custash": "with custash"}


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
