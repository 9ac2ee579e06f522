# SPDX-License-Identifier: MIT
"""Measures the five figures of docs/performance.md: pairs by threads, training, a free beside a kernel, pinned memory,
memory held. Every round measures each way once, in turn, and every other round in the opposite order. The figures keep
the median and the range of all rounds.

  tools/bench --figures --json FILE              on a GPU; --rounds 5, --minutes 9
  tools/bench --figures --from FILE... --docs    the pictures and tables of docs/, on any machine
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import figures_plot
import report
import runs

ROOT = pathlib.Path(__file__).resolve().parents[2]
GPU = ROOT / "tests/gpu"
FORMAT = "custash figures 1"
PARTS = ("threads", "stall", "pinned", "held", "training")
WAYS = {"own": "PyTorch's own cache", "expandable": "expandable segments", "bare": "no cache, without custash",
        "custash": "no cache, with custash"}
THROUGH = {"custash": "custash", "driver": "cuMemAlloc", "pool": "cuMemAllocAsync", "PyTorch": "PyTorch's cache",
           "PyTorch expandable": "expandable segments"}
PEERS = {"cub": "CUB's pool", "torch": "PyTorch's cache, from C++", "rmm": "RMM's pool"}


def peer(row):
    """Whose pair a benchmark measured."""
    name = row["run_name"].split("/")[1]
    return name, [part for part in row["run_name"].split("/")[2:] if part != "real_time" and not part.startswith("iterations:")]


class Figures:
    """Rows {picture, who, at, unit, values}; `at` is the place on the picture's axis, or its group."""

    def __init__(self, bench, args):
        self.bench, self.args, self.rows = bench, args, {}

    def add(self, picture, who, at, unit, value):
        self.rows.setdefault((picture, who, at, unit), []).append(value)

    def pairs(self, picture, case, how):
        options = [f"--benchmark_filter=^{case}/", f"--benchmark_min_time={0.001 if self.args.quick else 0.05}"]
        for row in self.bench.benchmarks("shared", options, how):
            if row.get("error_occurred"):
                continue
            name, where = peer(row)
            who = f"{name}, {report.HOW[how]}" if name.startswith("cuda") else PEERS.get(name, name)
            self.add(picture, who, report.number(where[-1]), "ns", row["ns"])

    def threads(self, how):
        self.pairs("threads", "threads_own", how)

    def pinned(self, how):
        self.pairs("pinned", "pinned", how)

    def stall(self, how):
        said = self.bench.run("gpu/free_latency", ["--quick"] if self.args.quick else [], how).stdout
        for size, free_us in re.findall(r"^free_us (\d+) ([\d.]+)$", said, re.MULTILINE):
            self.add("stall", f"cudaFree, {report.HOW[how]}", int(size), "µs", float(free_us))

    def training(self, how):
        if how == "bare" or "training" in (picture for picture, *_ in self.rows):  # all ways and rounds in one turn
            return
        for ways in (["own", "expandable", "custash"], ["bare"]):
            command = [self.args.python, str(GPU / "train_rounds.py"), "--build", str(self.bench.build), "--ways", "one", "--steps",
                       str(self.args.steps), "--rounds", "12" if len(ways) > 1 else "3", "--minutes", "5", "--only", *ways]
            for setting, rounds in (self.told(command) or {"runs": {"one": {}}})["runs"]["one"].items():
                for run in rounds.values():
                    self.add("training", WAYS[setting], "a step", "ms", run["ms"])
                    self.add("training", WAYS[setting], "memory", "MiB", run["peak"])

    def held(self, how):
        if how == "bare":  # all ways in one turn
            return
        folder = ROOT / "tests/traces"
        traces = [str(path) for path in sorted([*folder.glob("*.xz"), *folder.glob("training/*.xz")])]
        command = [self.args.python, str(GPU / "replay.py"), "--command", str(self.bench.build / "tools/custash"), "--repeats", "1",
                   "--python", self.args.python, *traces]
        for path, ways in (self.told(command) or {}).items():
            for who, found in ways.items():
                if "utilisation" in found[-1]:
                    self.add("held", THROUGH[who], pathlib.Path(path).stem.partition(".")[0], "", found[-1]["utilisation"])

    def told(self, command):
        """What a program writes with --json; nothing where it cannot run here."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "figures.json")
            done = subprocess.run([*command, "--json", str(path)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  check=False)
            if done.returncode == 77 or not self.bench.gpu:
                return []
            if done.returncode != 0:
                self.bench.fail(f"{pathlib.Path(command[1]).name}: exit {done.returncode}\n{done.stdout[-500:]}{done.stderr[-500:]}")
            return json.loads(path.read_text()) if path.exists() else []

    def round(self, number):
        for name in self.args.only or PARTS:
            for how in ("bare", "custash") if number % 2 == 0 else ("custash", "bare"):
                if self.bench.end is not None and time.monotonic() > self.bench.end:
                    return False
                print(f"round {number + 1}: {name}, {how}", file=sys.stderr, flush=True)
                getattr(self, name)(how)
        return True

    def result(self, machine):
        rows = [{"picture": picture, "who": who, "at": at, "unit": unit, "runs": len(values), "low": min(values),
                 "median": statistics.median(values), "high": max(values)}
                for (picture, who, at, unit), values in self.rows.items()]
        return {"format": FORMAT, "machine": machine, "rows": rows}


def merged(paths):
    """The figures of several calls."""
    rows, machines = {}, {}
    for path in paths:
        found = report.read_figures(path, {"format": FORMAT, "machine": None, "rows": None}, "tools/bench --figures")
        machines[found["machine"]] = True
        rows.update({name: figures_plot.of(found, name) for name in PARTS if figures_plot.of(found, name)})
    return {"format": FORMAT, "machine": "; ".join(machines), "rows": [row for name in PARTS for row in rows.get(name, [])]}


def machine(bench):
    if not bench.gpu:
        return runs.SIMULATED
    done = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True,
                          text=True, check=False)
    name, _, driver = (done.stdout.strip().splitlines() or ["a GPU, "])[0].partition(", ")
    return f"one {name}, driver {driver}, {os.cpu_count()} processors"


def document(found):
    """The pictures, and the tables of docs/measurements.md."""
    page = ROOT / "docs/measurements.md"
    page.write_text(report.between(page.read_text(), "figures", figures_plot.tables(found)))
    for name, drawn in figures_plot.pictures(found).items():
        (ROOT / "docs/pictures" / f"{name}.svg").write_text(drawn)
    (ROOT / "docs/figures.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


def arguments():
    parser = argparse.ArgumentParser(prog="tools/bench --figures", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figures", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--only", action="append", choices=PARTS, help="only this figure; may be repeated")
    parser.add_argument("--rounds", type=report.count, default=5, help="how often each way is measured (5)")
    parser.add_argument("--steps", type=report.count, default=50, help="of the training, in each round (50)")
    parser.add_argument("--quick", action="store_true", help="short runs: to see that it works")
    parser.add_argument("--json", type=pathlib.Path, help="write every figure to this file")
    parser.add_argument("--from", dest="source", type=pathlib.Path, nargs="+", metavar="JSON",
                        help="measure nothing; take what --json wrote, each figure from the last file that has it")
    parser.add_argument("--docs", action="store_true", help="write the pictures and tables into docs/")
    runs.add_options(parser)
    return parser.parse_args()


def main():
    args = arguments()
    if args.source:
        try:
            found = merged(args.source)
        except report.Unreadable as why:
            sys.exit(f"tools/bench: {why}")
    else:
        with tempfile.TemporaryDirectory() as folder:
            bench = runs.Bench(args, folder)
            figures = Figures(bench, args)
            for number in range(args.rounds):
                whole = figures.round(number)
                found = figures.result(machine(bench))
                if args.json:  # what there is, should the rest be cut off
                    args.json.write_text(json.dumps(found, indent=1, ensure_ascii=False))
                if not whole:
                    break
        if not found["rows"]:
            sys.exit("tools/bench: nothing was measured")
    print(figures_plot.tables(found), end="")
    if args.docs:
        if runs.SIMULATED in found["machine"]:
            sys.exit("tools/bench: the simulator's figures do not go into the documentation")
        document(found)
    return 0 if args.source or not bench.failed else 1


if __name__ == "__main__":
    sys.exit(main())
