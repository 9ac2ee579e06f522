# SPDX-License-Identifier: MIT
"""The runs of tools/bench: every case bare and with custash preloaded, each in a process of its own, in turn.

It runs on a GPU where one works, else over the simulated driver (--sim asks for that). The simulator shows host
cost only, and figures of other allocators mean nothing there. Prints medians in nanoseconds and ratios.
--minutes 8 --json FILE measures everything of interest on a GPU in eight minutes. --from FILE --docs makes tables
and pictures of FILE later, on any machine. tools/bench --figures, --suite and --programs have a --help of their own.
"""
import argparse
import concurrent.futures
import json
import lzma
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import overlap
import peers
import report

ROOT = pathlib.Path(__file__).resolve().parents[2]
CASES = ("size", "processes", "threads_own", "threads_shared", "handover", "live", "lanes", "recorded", "cold", "pinned",
         "threads_size", "tails", "holes", "overlap")
COUNTERS = ("ns", "p50", "p99", "p99.99", "p99.999")  # what a case counts
SIMULATED = "the simulated driver: host cost only"
KEYS = {"over": None, "rows": None, "overlap": None, "failed": None}  # of what --json writes
BOTH_RUNTIMES = ("size", "threads_own", "threads_size")  # the others: shared only


class Bench:
    def __init__(self, args, folder):
        self.args = args
        self.build = pathlib.Path(args.build).resolve()
        self.end = time.monotonic() + 60 * args.minutes if args.minutes else None
        self.traces = self.unpack(folder)
        self.gpu, self.plug_ins = True, []
        self.gpu = not args.sim and self.start("shared", ["--benchmark_filter=^$"], "bare").returncode != 77
        self.plug_ins = [] if not self.gpu or args.no_peers else peers.ready(folder, self.build, args.python)
        self.rows, self.overlap, self.failed = [], [], False

    def unpack(self, folder):
        paths = []
        for packed in sorted((ROOT / "tests/traces").glob("*.xz")):
            path = pathlib.Path(folder, packed.stem)
            path.write_bytes(lzma.decompress(packed.read_bytes()))
            paths.append(str(path))
        return paths

    def environment(self, how, settings):
        env = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "CUSTASH_CONF")}
        env["CUSTASH_BENCH_TRACES"] = ":".join(self.traces)
        if self.args.quick:
            env["CUSTASH_BENCH_QUICK"] = "1"
        folders = [env.get("LD_LIBRARY_PATH")]
        if how == "custash":
            env["LD_PRELOAD"] = str(self.build / "interpose/libcustash.so")
            env["CUSTASH_CONF"] = ",".join(filter(None, [self.args.conf, settings]))
        elif self.plug_ins:
            env["CUSTASH_BENCH_PEERS"] = ":".join(self.plug_ins)
        if not self.gpu:
            folders = [str(self.build / "tests/sim"), str(self.build / "tests/sim/cudart"), *folders]
            env["CUSTASH_SIM"] = "data=0"
            env["CUSTASH_SIM_KERNELS"] = str(self.build / "tests/gpu/liboverlap_kernels.so")
        env["LD_LIBRARY_PATH"] = ":".join(filter(None, folders))
        return env

    def run(self, program, options, how, settings="", **more):
        """A process that has ended; 124 when there was no time for it. `more`: of its environment."""
        command = [str(self.build / "tests" / program), *options]
        left = None if self.end is None else max(self.end - time.monotonic(), 0.001)
        try:
            return subprocess.run(command, env={**self.environment(how, settings), **more}, stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, check=False, timeout=left)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, 124, "", "no time left")

    def start(self, runtime, options, how, **more):
        name = "core" if runtime == "none" else f"calls_{runtime}"
        return self.run(f"bench/{name}", ["--benchmark_format=json", *options], how, **more)

    def measure_processes(self):
        """The core's hits, which make no call: by so many threads, and by so many processes, which share nothing."""
        for count in (1, 2, 4, 8, 16):
            for peer, threads, processes in (("threads", count, 1), ("processes", 1, count)):
                options = [f"--benchmark_filter=^threads_own/core/real_time/threads:{threads}$",
                           f"--benchmark_min_time={0.001 if self.args.quick else 1}"]
                with concurrent.futures.ThreadPoolExecutor(processes) as pool:
                    every = list(pool.map(lambda _: self.benchmarks("none", options, "core"), range(processes)))
                values = [each["ns"] for found in every for each in found]
                if values:
                    self.add("processes", str(count), "none", "core", peer, values)

    def measure_overlap(self):
        def start(how, settings, options):
            done = self.run("gpu/overlap", [*options, *(["--quick"] if self.args.quick else [])], how, settings)
            if done.returncode != 0:
                self.fail(f"overlap, {how} {settings}: exit {done.returncode}\n{done.stdout[-500:]}{done.stderr[-500:]}")
            return done.stdout
        if (self.build / "tests/gpu/overlap").exists():
            print("overlap", file=sys.stderr, flush=True)
            self.overlap = overlap.measure(start)
        else:
            print("bench: without overlap: built without nvcc", file=sys.stderr)

    def fail(self, what):
        """What else there is to measure is measured; the exit status tells."""
        print(f"bench: {what}", file=sys.stderr, flush=True)
        self.failed = True
        return []

    def benchmarks(self, runtime, options, how, **more):
        done = self.start(runtime, options, how, **more)
        if done.returncode != 0:
            return self.fail(f"{runtime} runtime, {how}: exit {done.returncode}\n{done.stderr[-2000:]}")
        for line in done.stderr.splitlines():
            if line.startswith("plug-in:"):
                self.fail(f"without a peer: {line}")
        found = json.loads(done.stdout)
        # A library that cannot be preloaded is only a warning of the loader.
        expected = {"core": None, "bare": "absent", "custash": "serves"}[how]
        if found["context"].get("custash") != expected:
            return self.fail(f"{runtime} runtime, {how}: custash is {found['context'].get('custash')}")
        return found["benchmarks"]

    def runtimes(self, case):
        static = "static" if self.gpu else "double"  # NVIDIA's takes no other driver
        core = [("none", "core")] if not self.gpu and case != "pinned" else []
        more = [(static, how) for how in ("bare", "custash")] if case in BOTH_RUNTIMES else []
        return [("shared", how) for how in ("bare", "custash")] + more + core

    def case(self, case):
        if case == "overlap":
            self.measure_overlap()
            return
        if case == "processes":
            self.measure_processes()
            return
        options = [f"--benchmark_filter=^{case}/"]
        if self.args.quick:
            options += ["--benchmark_min_time=0.005"]
        else:
            options += ["--benchmark_min_time=0.05", "--benchmark_repetitions=5"]
        for runtime, how in self.runtimes(case):
            print(f"{case}: {runtime} runtime, {how}", file=sys.stderr, flush=True)
            found = {}
            for each in self.benchmarks(runtime, options, how):
                if each.get("error_occurred"):  # a peer may run out of memory where others do not
                    print(f"bench: {each['run_name']}: {each['error_message']}", file=sys.stderr)
                elif each["run_type"] == "iteration":
                    for counter in (c for c in COUNTERS if c in each):
                        found.setdefault((each["run_name"], counter), []).append(each[counter])
            for (name, counter), values in found.items():
                _, peer, *where = [part for part in name.split("/")
                                   if part != "real_time" and not part.startswith("iterations:")]
                self.add(case, " ".join([*where, *([] if counter == "ns" else [counter])]), runtime, how, peer, values)

    def add(self, case, where, runtime, how, peer, values):
        self.rows.append({"case": case, "where": where, "runtime": runtime, "how": how, "peer": peer,
                          "ns": statistics.median(values), "least": min(values), "most": max(values)})


def add_options(parser):
    """Those of each script that measures with a Bench."""
    parser.add_argument("--sim", action="store_true", help="over the simulated driver")
    parser.add_argument("--minutes", type=report.minutes, help="measure for at most this long")
    parser.add_argument("--conf", help="CUSTASH_CONF of the runs with custash")
    parser.add_argument("--no-peers", action="store_true", help="leave out all but CUDA's calls and custash")
    parser.add_argument("--no-build", action="store_true", help="do not build first")
    parser.add_argument("--build", default=str(ROOT / "build"), help="another folder, built already")
    parser.add_argument("--python", default="python3", help="the Python that has PyTorch and CuPy")


def main():
    parser = argparse.ArgumentParser(prog="tools/bench", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="each case once, with short runs: to see that it works")
    parser.add_argument("--only", action="append", choices=CASES, help="only this case; may be repeated")
    parser.add_argument("--json", help="write every figure to this file")
    parser.add_argument("--from", dest="source", metavar="JSON", help="measure nothing; take the figures that --json wrote")
    parser.add_argument("--docs", action="store_true", help="write the tables into docs/measurements.md")
    add_options(parser)
    args = parser.parse_args()

    try:
        found = report.read_figures(args.source, KEYS, "tools/bench") if args.source else measured(args)
    except report.Unreadable as why:
        sys.exit(f"tools/bench: {why}")
    if not found["rows"] and not found["overlap"]:
        sys.exit("tools/bench: nothing was measured")
    write(args, found)
    return 1 if found["failed"] else 0


def measured(args):
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(args, folder)
        for case in args.only or CASES:
            bench.case(case)
            found = {"over": "a GPU" if bench.gpu else SIMULATED, "rows": bench.rows, "overlap": bench.overlap,
                     "failed": bench.failed}
            if args.json:  # what there is, should the rest be cut off
                pathlib.Path(args.json).write_text(json.dumps(found, indent=1))
    return found


def write(args, found):
    table = f"Nanoseconds a pair, medians, over {found['over']}.\n\n" + report.table(found["rows"])
    if found["overlap"]:
        table += overlap.table(found["overlap"])
    print(table, end="")
    if args.docs:
        document(found)


def document(found):
    """Writes what was measured into the documentation; of the simulator only what means something."""
    page = ROOT / "docs/measurements.md"
    text = page.read_text()
    if found["rows"] and found["over"] != SIMULATED:
        text = report.between(text, "every case", report.table(found["rows"]))
    if found["overlap"]:
        text = report.between(text, "overlap", f"Over {found['over'].split(':')[0]}:\n\n{overlap.table(found['overlap'])}")
        (ROOT / "docs/pictures/overlap.svg").write_text(overlap.plot(found["overlap"]))
    page.write_text(text)


if __name__ == "__main__":
    sys.exit(main())
