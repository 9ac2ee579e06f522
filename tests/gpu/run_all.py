# SPDX-License-Identifier: MIT
"""Runs every GPU program bare and preloaded and compares the results.

The exit status is 1 if a check or a program failed, 77 if all were skipped.

  run_all.py --build build [--quick] [--only NAME ...] [--json FILE] [--conf KEY:VALUE,...]

Everything printed is in the JSON too.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent

# Program, what it is given when preloaded only. Missing programs are left out.
PROGRAMS = (
    ("exports", []),
    ("free_latency", []),
    ("holes", []),
    ("holes_managed", []),
    ("holes_peers", []),
    ("holes_pressure", []),
    ("holes_shared", []),
    ("idle", []),
    ("mutual", []),
    ("mutual_shared", []),
    ("ordering", []),
    ("ordering_shared", []),
    ("ordering_per_thread", []),
    ("capture", ["--pooled"]),
    ("graph_memory", ["--pooled"]),
    ("overlap", []),
    ("stall", []),
    ("thrust_turns", []),
    ("entry_points", []),
    ("launches", []),
    ("parameters", []),
    ("parameters_shared", []),
    ("peers", []),
    ("pinned_order", []),
    ("pinned_order_shared", []),
    ("refill", []),
    ("pinned_speed", []),
)
SECONDS = 180  # for one program
# What a table shows of a check: costs (a ratio makes sense), then counts.
COSTS = ("pair_ns", "driver_ms", "us_each", "us", "ms", "free_us", "free_median_us", "free_worst_us", "median_us")
COUNTS = ("overlap", "held_mib", "same", "biting", "still_running", "invalidated", "wrong", "gb_s", "driver_gb_s", "ratio", "peak_ratio",
          "torch_pinned", "custash_pinned")
IDENTITY = ("bytes", "threads")
LINE = re.compile(r"^(ok|FAIL|info|skip)\b:?\s*(\S*)\s*(.*)$")
FIELD = re.compile(r"(\w+)=(\S+)")


def parse(text):
    """[{"verdict", "name", fields...}] of a program's output."""
    found = []
    for line in text.splitlines():
        match = LINE.match(line)
        if match:
            fields = dict(FIELD.findall(match[3]))
            found.append({"verdict": match[1], "name": match[2], "fields": fields, "line": line})
    return found


def run(name, command, env, timeout):
    start = time.monotonic()
    try:
        done = subprocess.run(command, env=env, timeout=timeout, capture_output=True, text=True,
                              errors="replace")
        code, out, err = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as late:
        def text(part):
            return part.decode(errors="replace") if isinstance(part, bytes) else part or ""
        code, out, err = "timeout", text(late.stdout), text(late.stderr)
    return {"program": name, "exit": code, "seconds": round(time.monotonic() - start, 2),
            "checks": parse(out), "stdout": out[-20000:], "stderr": err[-4000:]}


class Runner:
    def __init__(self, args):
        self.args = args
        self.preload = os.path.abspath(args.preload or f"{args.build}/interpose/libcustash.so")
        self.results = []

    def environment(self, how):
        env = dict(os.environ)
        toolkit = "/usr/local/cuda/lib64"  # for programs with the shared runtime
        env["LD_LIBRARY_PATH"] = ":".join(filter(None, [env.get("LD_LIBRARY_PATH"), toolkit]))
        if how == "custash":
            env["LD_PRELOAD"] = ":".join(filter(None, [self.preload, env.get("LD_PRELOAD")]))
            if self.args.conf:
                env["CUSTASH_CONF"] = self.args.conf
        return env

    def wanted(self, name):
        return not self.args.only or any(name.startswith(each) for each in self.args.only)

    def one(self, name, how, command):
        result = run(name, command, self.environment(how), SECONDS)
        result["how"] = how
        self.results.append(result)
        failed = [each["line"] for each in result["checks"] if each["verdict"] == "FAIL"]
        print(f"{name:22} {how:8} exit={result['exit']} {result['seconds']:6.1f} s "
              f"checks={len(result['checks'])} failed={len(failed)}", flush=True)
        for line in failed:
            print(f"    {line}", flush=True)
        if result["exit"] not in (0, 77):
            print("    " + result["stderr"][-1000:].replace("\n", "\n    "), flush=True)
        self.save()

    def both(self, name, command, only_preloaded):
        quick = ["--quick"] if self.args.quick else []
        for how in self.args.how:
            more = only_preloaded if how == "custash" else []
            self.one(name, how, [*command, *quick, *more])

    def programs(self):
        for name, only_preloaded in PROGRAMS:
            path = pathlib.Path(self.args.build, "tests/gpu", name)
            if path.exists() and self.wanted(name):
                self.both(name, [str(path.resolve())], only_preloaded)
        for path in sorted(pathlib.Path(self.args.build, "tests/demo").glob("churn*")):
            if path.is_file() and os.access(path, os.X_OK) and self.wanted(path.name):
                for how in self.args.how:
                    self.one(path.name, how, [str(path.resolve())])

    def pinned(self):
        """How much is held for a mix of pinned buffers, and a data loader with pinned batches."""
        few = ["--quick"] if self.args.quick else []
        if self.wanted("pinned_mix"):
            script = [self.args.python, str(HERE / "pinned_mix.py"), *few]
            for how in self.args.how:
                self.one("pinned_mix", how, [*script, "--who", "runtime"])
            self.one("pinned_mix_torch", "bare", [*script, "--who", "torch"])
        if self.wanted("loader"):
            for cache in ("on", "off"):
                for how in self.args.how:
                    self.one(f"loader_own_cache_{cache}", how,
                             [self.args.python, str(HERE / "loader.py"), *few, "--own-cache", cache])

    def save(self):
        if self.args.json:
            pathlib.Path(self.args.json).write_text(json.dumps(self.results, indent=1))


def key(check):
    return (check["name"], *(check["fields"].get(each, "") for each in IDENTITY))


def side_by_side(results):
    """Rows (program, check, field, bare, custash, ratio)."""
    rows = []
    for program in dict.fromkeys(each["program"] for each in results):
        both = {each["how"]: {key(check): check for check in each["checks"]}
                for each in results if each["program"] == program}
        for what in dict.fromkeys(k for checks in both.values() for k in checks):
            for field in COSTS + COUNTS:
                values = [both.get(how, {}).get(what, {}).get("fields", {}).get(field)
                          for how in ("bare", "custash")]
                if not any(values):
                    continue
                ratio = ""
                try:
                    if field in COSTS and float(values[1]) > 0:
                        ratio = f"{float(values[0]) / float(values[1]):.2f} x"
                except (TypeError, ValueError):
                    pass
                rows.append((program, " ".join(filter(None, what)), field,
                             values[0] or "-", values[1] or "-", ratio))
    return rows


def print_table(rows):
    rows = [("program", "check", "field", "bare", "custash", "ratio"), *rows]
    widths = [max(len(row[i]) for row in rows) for i in range(6)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def toothless(results):
    """Reuse checks that no round of the preloaded run could have failed: they prove nothing."""
    return [f"{each['program']} {check['name']}" for each in results if each["how"] == "custash"
            for check in each["checks"]
            if check["verdict"] == "ok" and check["fields"].get("biting") == "0"
            and not check["name"].startswith(("host_", "mapped_", "managed_", "pinned_"))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--preload", help="the library (BUILD/interpose/libcustash.so)")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="*", help="programs whose name starts so; also pinned_mix, loader")
    parser.add_argument("--how", nargs="*", choices=("bare", "custash"), default=["bare", "custash"])
    parser.add_argument("--conf", help="CUSTASH_CONF of the preloaded runs")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--json", type=os.path.abspath)
    args = parser.parse_args()

    runner = Runner(args)
    if "custash" in args.how and not os.path.exists(runner.preload):
        parser.error(f"{runner.preload} does not exist: build it, or give --preload")
    start = time.monotonic()
    runner.programs()
    runner.pinned()

    print()
    print_table(side_by_side(runner.results))
    for name in toothless(runner.results):
        print(f"note: no round of {name} could have failed")
    arrived = {(check["fields"]["sum"], check["fields"]["loss"]) for each in runner.results
               for check in each["checks"] if check["name"].startswith("loader")}
    if len(arrived) > 1:
        print(f"FAIL not the same: loader: {sorted(arrived)}")
    bad = [each for each in runner.results
           if each["exit"] not in (0, 77) or any(c["verdict"] == "FAIL" for c in each["checks"])]
    print(f"ran {len(runner.results)} in {time.monotonic() - start:.0f} s, {len(bad)} bad: "
          f"{[each['program'] + ' ' + each['how'] for each in bad]}")
    if bad or len(arrived) > 1:
        return 1
    return 77 if all(each["exit"] == 77 for each in runner.results) else 0


if __name__ == "__main__":
    sys.exit(main())
