# SPDX-License-Identifier: MIT
"""gpualloc-bench: recorded programs and patterns that fragment, by every way to get device memory that this machine has.

  tools/bench --suite [--json FILE] [--page FILE.md] [--rounds 3] [--only TRACE...]
  tools/bench --suite --from FILE --docs      the tables of docs/measurements.md, on any machine

Each way runs in a process of its own, in turn, every other round in the opposite order. tests/bench/README.md has the
method. Nothing else may use the device.
"""
import argparse
import json
import lzma
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import figures
import report
import runs
import shapes

ROOT = runs.ROOT
FORMAT = "custash suite 1"
# Who, how the process starts, the peer, and what its environment has besides.
WAYS = (("cudaMalloc", "bare", "cudaMalloc", {}),
        ("cudaMallocAsync", "bare", "cudaMallocAsync", {}),
        ("CUB", "bare", "cub", {}),
        ("RMM's pool", "bare", "rmm", {}),
        ("CuPy's pool", "bare", "cupy", {}),
        ("PyTorch", "bare", "torch", {}),
        ("expandable segments", "bare", "torch", {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),
        ("custash, cudaMalloc", "custash", "cudaMalloc", {}),
        ("custash, cudaMallocAsync", "custash", "cudaMallocAsync", {}))


def traces(folder):
    """{name: path}, as plain text."""
    paths = shapes.write(folder)
    for packed in sorted((ROOT / "tests/traces").rglob("*.xz")):
        path = folder / packed.stem
        path.write_bytes(lzma.decompress(packed.read_bytes()))
        paths[path.stem] = path
    return paths


class Suite:
    def __init__(self, args, folder):
        self.args, self.bench = args, runs.Bench(args, folder)
        self.peers = {pathlib.Path(path).stem.removeprefix("peer_"): path for path in self.bench.plug_ins}
        self.paths = {name: path for name, path in traces(pathlib.Path(folder)).items() if not args.only or name in args.only}
        self.rows = {}  # (trace, who): {figure: values}
        self.more = {"CUSTASH_BENCH_TRACES": ":".join(map(str, self.paths.values()))}
        if not self.bench.gpu:  # NVML's double reads the memory of a machine
            self.more["CUSTASH_SIM"] = f"data=0,memory=64g,machine={folder}/machine"

    def cupy(self):
        command = [self.args.python, __file__, "--cupy", *map(str, self.paths.values())]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            self.bench.fail(f"CuPy: exit {done.returncode}\n{done.stderr[-1000:]}")
        return json.loads(done.stdout or "[]")

    def found(self, how, peer, more):
        if peer == "cupy":
            return self.cupy()
        options = [f"--benchmark_filter=^recorded/{peer}/"]
        return self.bench.benchmarks("shared", options, how, **self.more, CUSTASH_BENCH_PEERS=self.peers.get(peer, ""), **more)

    def missing(self, peer):
        if peer == "cupy" and self.bench.gpu and not self.args.no_peers:
            return subprocess.run([self.args.python, "-c", "import cupy"], capture_output=True, check=False).returncode != 0
        return not peer.startswith("cuda") and peer not in self.peers

    def round(self, number):
        for who, how, peer, more in WAYS if number % 2 == 0 else reversed(WAYS):
            if self.missing(peer):
                continue
            print(f"round {number + 1}: {who}", file=sys.stderr, flush=True)
            for row in self.found(how, peer, more):
                name = row["run_name"].split("/")[2]
                if row.get("error_occurred"):
                    print(f"bench: {who}, {name}: {row['error_message']}", file=sys.stderr)
                    continue
                into = self.rows.setdefault((name, who), {"ns": [], "held_mib": [], "in_use_mib": []})
                for figure, values in into.items():
                    values += [round(row[figure], 1)] if figure in row else []

    def result(self):
        return {"format": FORMAT, "machine": figures.machine(self.bench), "failed": self.bench.failed, "rows": [
            {"trace": name, "who": who, **values} for name in self.paths for who, *_ in WAYS
            if (values := self.rows.get((name, who)))]}


def replay_cupy(paths):
    """In a process of its own: CuPy's pool, called from Python. Its times would be Python's, and are left out."""
    sys.path.insert(0, str(ROOT / "tests/gpu"))
    import cupy
    from device_memory import used_mib
    pool, rows = cupy.cuda.MemoryPool(), []
    for path in paths:
        events = [line.split() for line in pathlib.Path(path).read_text().splitlines() if not line.startswith("#")]
        streams = {name: cupy.cuda.Stream.null if name == "-" else cupy.cuda.Stream(non_blocking=True) for *_, name in events}
        for stream in streams.values():
            stream.synchronize()
        live, in_use, peak, before = {}, 0, 0, used_mib()
        most = before
        for count, (_, _, op, block, size, name) in enumerate(events):
            size = int(size)
            if op == "a":
                with streams[name]:
                    live[block] = pool.malloc(size)
                    live[block].memset_async(0, 1, streams[name])
                in_use += size
            elif op == "f":
                del live[block]
                in_use -= size
            if in_use > peak or count % 64 == 0:
                peak, most = max(peak, in_use), max(most, used_mib())
        live.clear()
        pool.free_all_blocks()
        rows.append({"run_name": f"recorded/cupy/{pathlib.Path(path).stem}", "held_mib": most - before, "in_use_mib": peak / 2**20})
    print(json.dumps(rows))


def spread(values, digits):
    low, middle, high = min(values), statistics.median(values), max(values)
    text = f"{middle:.{digits}f}"
    return text if high <= 1.1 * low else f"{text} ({low:.{digits}f}–{high:.{digits}f})"


def table(found, title, cell):
    ways = [who for who, *_ in WAYS if any(cell(row) for row in found["rows"] if row["who"] == who)]
    lines = [[title, *ways], ["---"] * (1 + len(ways))]
    for name in dict.fromkeys(row["trace"] for row in found["rows"]):
        rows = {row["who"]: cell(row) for row in found["rows"] if row["trace"] == name}
        lines.append([name, *(rows.get(who) or "–" for who in ways)])
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def held(row):
    return row["held_mib"] and spread([mib / max(used, 1) for mib, used in zip(row["held_mib"], row["in_use_mib"])], 3)


def tables(found):
    rounds = max(len(row["held_mib"] or row["ns"]) for row in found["rows"])
    return (f"On {found['machine']}; {rounds} processes each. A cell is their median, and their range where it is wider than a tenth.\n\n"
            + table(found, "memory held ÷ in use, at their peaks", held) + "\n"
            + table(found, "microseconds an event, with the write", lambda row: row["ns"] and spread([ns / 1000 for ns in row["ns"]], 2)))


def document(found):
    page = ROOT / "docs/measurements.md"
    page.write_text(report.between(page.read_text(), "suite", tables(found) + "\n"))
    lines = ",\n".join(json.dumps(row) for row in found["rows"])
    (ROOT / "docs/suite.json").write_text(f'{{"format": "{FORMAT}", "machine": "{found["machine"]}", "rows": [\n{lines}\n]}}\n')


def main():
    if sys.argv[1:2] == ["--cupy"]:
        replay_cupy(sys.argv[2:])
        return 0
    parser = argparse.ArgumentParser(prog="tools/bench --suite", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--only", nargs="*", default=[], metavar="TRACE")
    parser.add_argument("--rounds", type=report.count, default=3)
    parser.add_argument("--json", help="write every figure to this file")
    parser.add_argument("--from", dest="source", metavar="JSON", help="measure nothing; take the figures that --json wrote")
    parser.add_argument("--page", help="write a page with the method and the tables to this file (Markdown)")
    parser.add_argument("--docs", action="store_true", help="write the tables into docs/measurements.md")
    parser.add_argument("--quick", action="store_true", help=argparse.SUPPRESS)
    runs.add_options(parser)
    args = parser.parse_args()
    try:
        keys = {"format": FORMAT, "machine": None, "rows": None}
        found = report.read_figures(args.source, keys, "tools/bench --suite") if args.source else measured(args)
    except report.Unreadable as why:
        sys.exit(f"tools/bench: {why}")
    if not found["rows"]:
        sys.exit("tools/bench: nothing was measured")
    print(tables(found), end="")
    if args.page:
        method = (ROOT / "tests/bench/README.md").read_text()
        pathlib.Path(args.page).write_text(f"{method}\n## Results\n\n{tables(found)}")
    if args.docs:
        if found["machine"] == runs.SIMULATED:
            sys.exit("tools/bench: figures of the simulator do not go into the documentation")
        document(found)
    return 1 if found.get("failed") else 0


def measured(args):
    with tempfile.TemporaryDirectory() as folder:
        suite = Suite(args, folder)
        if unknown := set(args.only) - set(suite.paths):
            sys.exit(f"tools/bench: no such trace: {', '.join(sorted(unknown))}")
        for number in range(args.rounds):
            if suite.bench.end is not None and time.monotonic() > suite.bench.end:
                break
            suite.round(number)
            if args.json:  # what there is, should the rest be cut off
                pathlib.Path(args.json).write_text(json.dumps(suite.result(), indent=1))
        return suite.result()


if __name__ == "__main__":
    sys.exit(main())
