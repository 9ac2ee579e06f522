# SPDX-License-Identifier: MIT
"""Table and picture of what the wall measured. Pure: rows in, text out.

A row is one way of one program. A ratio above 1 says that custash is better. The baseline noise is the program against
itself: the ratios of its runs without custash to the next ones, in the same minutes.
"""
import html
import math
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench"))
import report  # noqa: E402

GREEN, RED, GREY = "#009e73", "#d55e00", "#999"
MIB = 1 << 20
OTHERS = ("managed", "handles", "arrays", "mipmaps", "external")  # custash serves none of these


def ratios(row):
    """How many times better each round is with custash."""
    pairs = zip(row["with"], row["without"]) if row["higher"] else zip(row["without"], row["with"])
    return [better / worse for better, worse in pairs]


def ratios_to_itself(row):
    return [one / next_one for one, next_one in zip(row["without"], row["without"][1:])]


def verdict(row):
    words = {"lower": "worse" if row["higher"] else "better", "higher": "better" if row["higher"] else "worse",
             "noise": "within the noise"}
    return words.get(row["with_custash"], row["with_custash"])


def memory_verdict(row):
    """Peak memory has no repeated runs to test against: below 1 % is no difference."""
    if not row["memory"]:
        return ""
    ratio = row["memory"][1] / row["memory"][0]
    return "less" if ratio < 0.99 else "more" if ratio > 1.01 else "the same"


def measured(rows):
    return [row for row in rows if "why_not" not in row]


def ordered(rows):
    """The largest gain first; rows without figures last."""
    return sorted(measured(rows), key=lambda row: -statistics.median(ratios(row))) + [row for row in rows if "why_not" in row]


def readable(value):
    digits = max(0, 2 - math.floor(math.log10(value))) if value > 0 else 0
    return f"{value:,.{digits}f}"


def span(values):
    return f"{readable(min(values))}–{readable(max(values))}" if values else ""


def served(row):
    """The shares of the calls and bytes that custash may serve, and how many other ones the driver served."""
    share = row.get("share")
    text = share and " / ".join(f"{100 * each:.{0 if each == 1 else 1}f} %" for each in share) or "–"
    others = [f"{each['kind']} {each['allocations']:,}" for each in row.get("passed", ()) if each["kind"] in OTHERS]
    return "; ".join([text, *others])


def title(row):
    return f"{row['name']}, {row['way']}" if row["way"] else row["name"]


def line(row):
    cells = [title(row), row["release"]]
    if "why_not" in row:
        return [*cells, " ".join(row["why_not"].split()).replace("|", "\\|"), *[""] * (len(HEAD) - 3)]
    memory = row["memory"] and " / ".join(f"{each / MIB:,.0f}" for each in row["memory"])
    found = ratios(row)
    return [*cells, *(f"{readable(statistics.median(row[side]))} {row['unit']}" for side in ("without", "with")),
            f"{readable(statistics.median(found))} × ({span(found)})", span(ratios_to_itself(row)), verdict(row), memory or "", memory_verdict(row),
            served(row),
            "the same" if row["same"] else "**differs**"]


HEAD = ["program", "release", "without custash", "with custash", "ratio (range)", "baseline noise", "time", "MiB without / with",
        "memory", "served", "output"]


def table(rows):
    lines = [HEAD, ["---"] * len(HEAD), *map(line, ordered(rows))]
    return "".join("| " + " | ".join(each) + " |\n" for each in lines)


LEFT, WIDTH, RIGHT, ROW, TOP = 430, 1040, 130, 26, 40


def scale(values):
    """The axis of ratios: logarithmic, from a power of two to a power of two, with 1 inside."""
    low = math.floor(math.log2(min([0.8, *values])))
    high = math.ceil(math.log2(max([1.25, *values])))
    return low, high


def picture(rows):
    """A line a row: the range against itself in grey, the range and the median with custash in colour."""
    rows = measured(ordered(rows))
    low, high = scale([each for row in rows for each in (*ratios(row), *ratios_to_itself(row))])

    def at(ratio):
        return LEFT + (WIDTH - LEFT - RIGHT) * (math.log2(ratio) - low) / (high - low)

    bottom = TOP + ROW * len(rows)
    body = report.text(LEFT, 20, "without custash ÷ with custash: to the right custash is better; grey: baseline noise")
    for power in range(low, high + 1):
        x = at(2.0 ** power)
        body += f'<path d="M{x:.1f} {TOP - 6}V{bottom}" stroke="{"#333" if power == 0 else "#ddd"}"/>\n'
        body += report.text(x, bottom + 16, f"{2.0 ** power:g}", "middle")
    for i, row in enumerate(rows):
        y = TOP + ROW * i + ROW / 2
        found = ratios(row)
        median = statistics.median(found)
        colour = {"better": GREEN, "worse": RED}.get(verdict(row), GREY)
        body += report.text(LEFT - 12, y + 4, html.escape(title(row)), "end")
        itself = ratios_to_itself(row)
        if itself:
            body += f'<path d="M{at(min(itself)):.1f} {y + 5}H{at(max(itself)):.1f}" stroke="#ccc" stroke-width="6"/>\n'
        body += f'<path d="M{at(min(found)):.1f} {y - 3}H{at(max(found)):.1f}" stroke="{colour}" stroke-width="2"/>\n'
        body += f'<circle cx="{at(median):.1f}" cy="{y - 3}" r="5" fill="{colour}"/>\n'
        body += report.text(WIDTH - RIGHT + 14, y + 4, f"{readable(median)} ×" + ("" if row["same"] else ", output differs"))
    return report.document(WIDTH, bottom + 30, body)
