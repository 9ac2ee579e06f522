# SPDX-License-Identifier: MIT
"""The matrix of tests/process/limits.py on a GPU: no row of it uses more than `limit_all`, as NVML counts the process. A line a row.

  limit_matrix.py --build build [--limit MIB] [--json FILE]

Exit 1 where a row did not hold, 77 without a GPU. Memory of other interfaces is left out: it needs one.
"""
import argparse
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "process"))
import limits  # noqa: E402
import program  # noqa: E402

SKIPPED = 77
NO_DEVICE = (3, 5)  # how the program ends without a driver or a device


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--limit", type=int, default=3 << 10)
    parser.add_argument("--json", default="")
    args = parser.parse_args()
    limit = args.limit * limits.MIB
    program.PATHS.library = os.path.abspath(f"{args.build}/interpose/libcustash.so")
    program.PATHS.programs = os.path.abspath(f"{args.build}/tests/process")
    found = {}
    for name, klass, binary, kind, order, threads, options in limits.rows():
        if binary != "limits" or kind in ("external", "host_handle"):
            continue
        conf = limits.conf_of(f"limit_all:{limit}", "decay:1", options)
        done = program.run(binary, kind, order, str(threads), str(32 * limits.MIB), timeout=120, CUSTASH_CONF=conf)
        if done.returncode in NO_DEVICE:
            return SKIPPED
        words = list(map(int, done.stdout.split())) if done.returncode == 0 else []
        right = len(words) == 8 and words[1] == limits.OOM and words[4] == words[6] == limit
        if right and kind == "managed" and order not in ("cached", "mixed"):
            words[2] += words[0]  # NVML counts it for no process
        if right and words[2] > limit + limits.PAGE:  # contexts alone may need more: nothing else is had then
            right = klass == "after" and words[0] == 0
        found[name] = {"class": klass, "right": right, "said": done.stdout + done.stderr}
        print(f"{'ok' if right else 'FAIL'} {klass}: {name}: {done.returncode} {done.stdout.strip()} {done.stderr.strip()}", flush=True)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)
    print(f"{sum(each['right'] for each in found.values())} of {len(found)} rows hold")
    return 0 if all(each["right"] for each in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
