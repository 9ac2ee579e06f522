# SPDX-License-Identifier: MIT
"""Runs every case of the conformance programs bare and with custash and compares what they say, line by
line. Exit 1 when one differs or does not end as it does bare, 77 where there is no device.

  run.py PROGRAM... --library libcustash.so [--only PREFIX...] [--without CASE...] [--conf KEY:VALUE,...] [--jobs N]
         [--json FILE] [--reports memory|streams] [--simulator FOLDER... --kernels FILE [--sim SETTINGS]]

With --reports custash looks for wrong uses of memory (guard:all) or of streams (check_streams:true). Each case must give the reports
that reports.py lists for it, and all others none.

Cases named memory_... have the device to themselves. Lines that begin with # may differ.
"""
import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import guard_reports  # noqa: E402
import reports  # noqa: E402

# On the simulator, a device small enough to be filled, on which calls that allocate for themselves fail
# while less than this is free.
SMALL = "devices=1,memory=384m,room=32m"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="+")
    parser.add_argument("--library", required=True)
    parser.add_argument("--only", nargs="*", default=[], help="cases whose name begins so")
    parser.add_argument("--without", nargs="*", default=[], help="cases that this machine cannot show")
    parser.add_argument("--conf", help="CUSTASH_CONF of the preloaded runs")
    parser.add_argument("--reports", choices=sorted(reports.EXPECTED), help="compare what custash reports of each case")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", help="write what was said here")
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("--simulator", nargs="*", default=[], help="folders of the simulated driver and runtime")
    parser.add_argument("--kernels")
    parser.add_argument("--sim", default="", help="more settings of the simulated driver")
    args = parser.parse_args()
    if args.reports:
        args.conf = ",".join(filter(None, (args.conf, guard_reports.CONF[args.reports])))
    return args


class Runner:
    def __init__(self, args):
        self.args = args

    def environment(self, case, preload, report=""):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("CUSTASH", "LD_PRELOAD"))}
        env["CONFORMANCE_CONF"] = self.args.conf or ""  # bare, too: what is known to differ may depend on it
        if self.args.simulator:
            env = {k: v for k, v in env.items() if not k.startswith("CUDA")}
            env["LD_LIBRARY_PATH"] = ":".join(self.args.simulator)
            env["CUSTASH_SIM_KERNELS"] = self.args.kernels
            env["CUSTASH_SIM"] = ",".join(filter(None, (SMALL if case.startswith("memory_") else "devices=2", self.args.sim)))
        if preload:
            env["LD_PRELOAD"] = os.path.abspath(self.args.library)
            conf = [self.args.conf, report and f"guard_report:{report}"]
            if any(conf):
                env["CUSTASH_CONF"] = ",".join(filter(None, conf))
        return env

    def run(self, program, case, preload):
        with tempfile.TemporaryDirectory() as folder:
            report = os.path.join(folder, "found.json") if preload and self.args.reports else ""
            try:
                done = subprocess.run([program, case], env=self.environment(case, preload, report), text=True,
                                      capture_output=True, timeout=self.args.timeout, errors="replace")
            except subprocess.TimeoutExpired as late:
                out = late.stdout.decode(errors="replace") if late.stdout else ""
                return {"exit": "timeout", "said": out, "error": "", "found": None}
            return {"exit": done.returncode, "said": done.stdout, "error": done.stderr,
                    "found": guard_reports.read(report) if report else None}

    def pair(self, program, case):
        return {how: self.run(program, case, how == "custash") for how in ("bare", "custash")}

    def pairs(self, program, together, alone):
        """Each case with its pair, in the order in which they end."""
        with concurrent.futures.ThreadPoolExecutor(self.args.jobs) as pool:
            running = {pool.submit(self.pair, program, case): case for case in together}
            for done in concurrent.futures.as_completed(running):
                yield running[done], done.result()
        for case in alone:
            yield case, self.pair(program, case)


def compared(said):
    return [line for line in said.splitlines() if not line.startswith("#")]


def differences(pair, expected):
    """What a reader needs: the first lines that differ, or the ends. `expected`: custash's reports."""
    bare, custash = pair["bare"], pair["custash"]
    found = []
    if custash["found"] is not None and custash["found"] != expected:
        found.append(f"reports: {custash['found']}, expected {expected}")
    if bare["exit"] != custash["exit"] or custash["exit"] != 0:
        found.append(f"exit: bare {bare['exit']}, custash {custash['exit']}")
    if custash["error"] and custash["error"] != bare["error"]:
        found.append("custash's standard error: " + custash["error"].strip()[:300])
    theirs, ours = compared(bare["said"]), compared(custash["said"])
    lines = [(i, a, b) for i, (a, b) in enumerate(zip(theirs, ours)) if a != b]
    found += [f"line {i + 1}: bare \"{a}\", custash \"{b}\"" for i, a, b in lines[:6]]
    if len(theirs) != len(ours):
        found.append(f"lines: bare {len(theirs)}, custash {len(ours)}")
    return found


def main():
    args = arguments()
    runner = Runner(args)
    started = time.monotonic()
    results = {}
    bad = skipped = lines = 0
    for program in args.programs:
        path = os.path.abspath(program)
        done = subprocess.run([path, "--list"], env=runner.environment("", False), text=True, capture_output=True, check=False)
        if done.returncode and "libcuda.so.1" in done.stderr:
            print("skip: there is no CUDA driver here")
            return 77
        done.check_returncode()
        listed = done.stdout.split()
        cases = sorted(c for c in listed if c not in args.without and (not args.only or c.startswith(tuple(args.only))))
        for case in sorted(set(listed) & set(args.without)):
            print(f"{os.path.basename(program):30} {case:40} left out", flush=True)
        alone = [] if args.simulator else [c for c in cases if c.startswith("memory_")]
        pairs = {}
        # Each is told when it is over, so that a run that is cut off has told of those before.
        for case, pair in runner.pairs(path, [c for c in cases if c not in alone], alone):
            pairs[case] = pair
            if pair["bare"]["exit"] == 77:
                skipped += 1
                continue
            found = differences(pair, reports.expected(args.reports, case))
            bad += bool(found)
            lines += len(compared(pair["bare"]["said"]))
            verdict = "different" if found else "same"
            print(f"{os.path.basename(program):30} {case:40} {verdict}", flush=True)
            for each in found:
                print(f"    {each}", flush=True)
        results[os.path.basename(program)] = pairs
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
    count = sum(len(pairs) for pairs in results.values())
    print(f"{count} cases, {lines} lines, {bad} different, {skipped} skipped, "
          f"{time.monotonic() - started:.0f} s")
    if count == 0:
        return 1
    return 77 if skipped == count else 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
