# SPDX-License-Identifier: MIT
"""How much overlap is left between streams whose program allocates and frees around each kernel: what tests/gpu/overlap
says bare and with several budgets of memory, as a table and a picture. Rows in, text out, but for measure()."""
import re

import report

STREAMS = (1, 2, 4)
BUDGETS = (0, 10, 50, 100)  # run_ahead, percent; 10 is the default
PATTERNS = ("even", "uneven")
SAID = re.compile(r"ok overlap_\w+ streams=\d+ kernels=\d+ overlap=([\d.]+) held_mib=(\d+)")
KERNEL = re.compile(r"kernel (\d+) ([\d.]+) ([\d.]+)")


def way(budget):
    return "without custash" if budget is None else f"run_ahead:{budget}"


def measure(start):
    """start(how, settings, arguments) runs the program and gives its output, or None."""
    rows = []
    for pattern in PATTERNS:
        for streams in STREAMS:
            for budget in (None, *BUDGETS):
                settings = "" if budget is None else way(budget)
                said = start("bare" if budget is None else "custash", settings,
                             ["--streams", str(streams), *(["--uneven"] if pattern == "uneven" else [])])
                found = SAID.search(said or "")
                if found:
                    rows.append({"pattern": pattern, "streams": streams, "way": way(budget),
                                 "overlap": float(found[1]), "held_mib": int(found[2]),
                                 "kernels": [[int(s), float(a), float(b)] for s, a, b in KERNEL.findall(said)]})
    return rows


def table(rows):
    ways = list(dict.fromkeys(r["way"] for r in rows))
    lines = [["overlap (MiB held)", *ways], ["---"] * (len(ways) + 1)]
    for pattern, streams in dict.fromkeys((r["pattern"], r["streams"]) for r in rows):
        cell = {r["way"]: f"{r['overlap']:.2f} ({r['held_mib']:,})" for r in rows
                if (r["pattern"], r["streams"]) == (pattern, streams)}
        plural = "stream" if streams == 1 else "streams"
        lines.append([f"{streams} {plural}, {pattern}", *(cell.get(each, "") for each in ways)])
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


LEFT, WIDTH, ROW, GAP = 130, 900, 18, 34


def plot(rows):
    """The kernels of the most streams on one axis of time: a panel each way, a line each stream."""
    most = max((r["streams"] for r in rows), default=0)
    shown = [r for r in rows if (r["pattern"], r["streams"]) == ("even", most) and r["kernels"]]
    end = max((kernel[2] for r in shown for kernel in r["kernels"]), default=1)
    body, down = "", 20
    for row in shown:
        body += report.text(10, down, f"{row['way']}: overlap {row['overlap']:.2f}, {row['held_mib']:,} MiB held")
        for stream in range(row["streams"]):
            body += report.text(LEFT - 8, down + 20 + ROW * stream, f"stream {stream}", "end")
        for stream, begin, finish in row["kernels"]:
            x, width = LEFT + (WIDTH - LEFT - 20) * begin / end, (WIDTH - LEFT - 20) * (finish - begin) / end
            body += (f'<rect x="{x:.1f}" y="{down + 8 + ROW * stream}" width="{width:.1f}" height="{ROW - 4}" '
                     f'fill="{report.COLOURS[stream % len(report.COLOURS)]}" stroke="#fff"/>\n')
        down += ROW * row["streams"] + GAP
    body += report.text(LEFT, down, "0") + report.text(WIDTH - 20, down, f"{end / 1000:.0f} ms", "end")
    return report.document(WIDTH, down + 12, body)
