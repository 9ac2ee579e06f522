# SPDX-License-Identifier: MIT
"""The runs of tools/bench: every case bare and with custash preloaded, each in a process of its own, in turn.

On a GPU where there is one that works, else over the simulated driver (--sim asks for that): host
cost only, and no figure of a peer means anything there. Prints medians in nanoseconds and ratios.
"""
import argparse
import json
import lzma
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import peers
import report

ROOT = pathlib.Path(__file__).resolve().parents[2]
CASES = ("size", "threads_own", "threads_shared", "handover", "live", "lanes", "mixed", "cold", "pinned")
BOTH_RUNTIMES = ("size", "threads_own")  # the others: shared only


class Bench:
    def __init__(self, args, folder):
        self.args = args
        self.build = pathlib.Path(args.build).resolve()
        self.traces = self.unpack(folder)
        self.gpu, self.plug_ins = True, []
        self.gpu = not args.sim and self.start("shared", ["--benchmark_filter=^$"], "bare").returncode != 77
        self.plug_ins = [] if not self.gpu or args.no_peers else peers.build(folder, args.python)
        self.rows, self.failed = [], False

    def unpack(self, folder):
        paths = []
        for packed in sorted((ROOT / "tests/traces").glob("*.xz")):
            path = pathlib.Path(folder, packed.stem)
            path.write_bytes(lzma.decompress(packed.read_bytes()))
            paths.append(str(path))
        return paths

    def environment(self, how):
        env = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "CUSTASH_CONF")}
        env["CUSTASH_BENCH_TRACES"] = ":".join(self.traces)
        folders = [env.get("LD_LIBRARY_PATH")]
        if how == "custash":
            env["LD_PRELOAD"] = str(self.build / "interpose/libcustash.so")
            if self.args.conf:
                env["CUSTASH_CONF"] = self.args.conf
        elif self.plug_ins:
            env["CUSTASH_BENCH_PEERS"] = ":".join(self.plug_ins)
        if not self.gpu:
            folders = [str(self.build / "tests/sim"), str(self.build / "tests/sim/cudart"), *folders]
            env["CUSTASH_SIM"] = "data=0"
        env["LD_LIBRARY_PATH"] = ":".join(filter(None, folders))
        return env

    def start(self, runtime, options, how):
        name = "core" if runtime == "none" else f"calls_{runtime}"
        return subprocess.run(
            [str(self.build / "tests/bench" / name), "--benchmark_format=json", *options],
            env=self.environment(how), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            check=False)

    def fail(self, what):
        """What else there is to measure is measured; the exit status tells."""
        print(f"bench: {what}", file=sys.stderr, flush=True)
        self.failed = True
        return []

    def benchmarks(self, runtime, options, how):
        done = self.start(runtime, options, how)
        if done.returncode != 0:
            return self.fail(f"{runtime} runtime, {how}: exit {done.returncode}\n{done.stderr[-2000:]}")
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
                    found.setdefault(each["run_name"], []).append(each["ns"])
            for name, values in found.items():
                _, peer, *where = [part for part in name.split("/")
                                   if part != "real_time" and not part.startswith("iterations:")]
                self.rows.append({"case": case, "where": " ".join(where), "runtime": runtime,
                                  "how": how, "peer": peer, "ns": statistics.median(values),
                                  "least": min(values), "most": max(values)})


def main():
    parser = argparse.ArgumentParser(prog="tools/bench", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="short and once: to see that it works")
    parser.add_argument("--only", action="append", choices=CASES, help="may be given again")
    parser.add_argument("--sim", action="store_true", help="over the simulated driver")
    parser.add_argument("--json", help="write every figure there")
    parser.add_argument("--table", help="write the table there (Markdown)")
    parser.add_argument("--plot", help="write the plots there (SVG)")
    parser.add_argument("--conf", help="CUSTASH_CONF of the runs with custash")
    parser.add_argument("--no-peers", action="store_true", help="neither PyTorch, RMM nor CUB")
    parser.add_argument("--no-build", action="store_true", help="run what is in the build folder")
    parser.add_argument("--build", default=str(ROOT / "build"), help="another folder, built already")
    parser.add_argument("--python", default="python3", help="which Python may have PyTorch")
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(args, folder)
        for case in args.only or CASES:
            bench.case(case)
    if not bench.rows:
        sys.exit("bench: nothing was measured")
    where = "a GPU" if bench.gpu else "the simulated driver: host cost only"
    table = f"Nanoseconds a pair, medians, over {where}.\n\n" + report.table(bench.rows)
    print(table, end="")
    if args.table:
        pathlib.Path(args.table).write_text(table)
    if args.plot:
        pathlib.Path(args.plot).write_text(report.plot(bench.rows))
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({"over": where, "rows": bench.rows}, indent=1))
    return 1 if bench.failed else 0


if __name__ == "__main__":
    sys.exit(main())
