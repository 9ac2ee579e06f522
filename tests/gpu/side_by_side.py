# SPDX-License-Identifier: MIT
"""What custash costs a program whose runs vary by more than that. Starts the program several times at once: without
custash, without it again, and with custash under each --conf. They work in turn, a window of turns each, on the same
processors. The ratio of windows beside each other tells the cost; the second run without custash tells the noise.

  side_by_side.py --build build [--only NAME...] [--against OPTIONS | --own-pool] [--conf OPTIONS]... [--windows 60] [--turns 100]
                  [--json FILE]

With --against, the first two have custash, too, with these options: the ratio is then what --conf costs beyond them.
With --own-pool, the first two keep the program's own pool, which the others switch off. Then the worst ratio of ten
windows in a row is told, too: whether a program of many turns slows down.
The programs are those of coverage_programs.py that work in windows: the Python ones, and Thrust. Exit 77 where none can run, 1 where one failed.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

import coverage_programs

CORES = 4
TEN = 10  # windows whose median counts as one


class Program:
    """One that waits for a line before each window and answers with how long its turns took."""

    def __init__(self, command, env):
        self.child = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.said = self.child.stdout.readline()

    def window(self):
        self.child.stdin.write("\n")
        self.child.stdin.flush()
        return float(self.child.stdout.readline().split()[1])

    def end(self):
        """What it prints at its end."""
        return self.child.communicate(timeout=60)[0].strip()


def measured(command, env, args):
    off = {key: value for key, value in env.items() if key in coverage_programs.POOLS_OFF}
    library = f"{args.build}/interpose/libcustash.so"
    base = "without custash" if args.against is None else f"custash {args.against}".strip()
    environment = {} if args.against is None else {"LD_PRELOAD": library, "CUSTASH_CONF": args.against}
    if args.own_pool:
        base, env = "its own pool", {key: value for key, value in env.items() if key not in off}
    ways = {base: environment, f"{base}, again": environment}
    for conf in args.conf or [""]:
        ways[f"custash {conf}".strip()] = {**off, "LD_PRELOAD": library, "CUSTASH_CONF": conf}
    command = [*command, "--windows"]
    programs = {way: Program(command, {**env, **more}) for way, more in ways.items()}
    times = {way: [] for way in ways}
    order = list(ways)
    for window in range(args.windows + 2):
        for way in order:
            took = programs[way].window()
            if window >= 2:
                times[way].append(took)
        order.reverse()
    results = {way: program.end() for way, program in programs.items()}
    if any(program.child.returncode for program in programs.values()) or len(set(results.values())) != 1:
        raise coverage_programs.Failed(f"not all did the same: {results}")
    return times


def row(way, times, bare):
    in_turn = [mine / theirs for mine, theirs in zip(times, bare)]
    worst = max(statistics.median(in_turn[i:i + TEN]) for i in range(0, len(in_turn), TEN))
    ratios, quarter = sorted(in_turn), len(in_turn) // 4
    return [way, f"{statistics.median(times):.1f}", f"{min(times):.1f}", f"{statistics.median(ratios):.3f}",
            f"{ratios[quarter]:.3f}-{ratios[-1 - quarter]:.3f}", f"{worst:.3f}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", type=os.path.abspath)
    parser.add_argument("--only", nargs="*", default=["jax_default", "torch"], help="programs of these names")
    parser.add_argument("--against", metavar="OPTIONS", help="compare with custash of these options in place of no custash")
    parser.add_argument("--own-pool", action="store_true", help="compare with the program's own pool")
    parser.add_argument("--conf", action="append", help="custash's options; may be repeated")
    parser.add_argument("--windows", type=int, default=60)
    parser.add_argument("--turns", type=int, default=100, help="of a window")
    parser.add_argument("--json", help="write all times here")
    args = parser.parse_args()
    args.driver = args.runtime = None
    if coverage_programs.no_gpu(args):
        return 77
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-CORES:])
    base = {**coverage_programs.base_environment(args), "XLA_PYTHON_CLIENT_MEM_FRACTION": ".15"}
    found, failed = {}, False
    for name in args.only:
        what, more, _ = coverage_programs.PROGRAMS[name]
        command, missing = coverage_programs.command_of(what, args)
        if missing or len(what) == 1:
            print(f"{name}: skip: {missing or 'does not work in windows'}")
            continue
        try:
            found[name] = measured(command, {**base, **more}, args)
        except (coverage_programs.Failed, subprocess.TimeoutExpired, OSError, IndexError) as why:
            print(f"{name}: FAIL: {why}")
            failed = True
            continue
        print(f"{name}: {args.windows} windows of {args.turns} turns")
        rows = [row(way, times, next(iter(found[name].values()))) for way, times in found[name].items()]
        coverage_programs.show(["", "a turn, us", "least", "ratio", "half of the ratios", "worst of ten windows"], rows)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump(found, out, indent=1)
    return 1 if failed else 0 if found else 77


if __name__ == "__main__":
    sys.exit(main())
