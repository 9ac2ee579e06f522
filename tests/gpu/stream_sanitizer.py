#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the bugs of museum_streams.cu and their right twins under compute-sanitizer and, beside it, under custash's check_streams.

  stream_sanitizer.py --command build/tools/custash --program build/tests/gpu/museum_streams_static [--library FILE] [--seconds N] [--json FILE]

A row for each bug: whether each of the two finds it, and whether it reports anything of the right twin (false). "error": the program
ended otherwise than by itself, and nothing was reported. The exit status is 1 where check_streams misses a bug or reports a twin,
77 where there is no GPU or no compute-sanitizer. It does not depend on what compute-sanitizer says.
"""
import argparse
import json
import re
import shutil
import subprocess
import sys

import limited
import museum

SANITIZER = ("compute-sanitizer", "--tool", "memcheck", "--track-stream-ordered-races", "all")
TOOLS = ("check_streams", "compute-sanitizer")
REPORTED, NOTHING, ERROR = "reported", "-", "error"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", required=True)
    parser.add_argument("--program", required=True)
    for name in ("library", "driver", "runtime", "kernels", "conf", "json"):
        parser.add_argument("--" + name, default="")
    parser.add_argument("--seconds", type=float, default=60, help="for one program")
    return parser.parse_args(namespace=argparse.Namespace(check="streams", devices=1))


def verdict(reports, status):
    return REPORTED if reports else NOTHING if status == 0 else ERROR


def by_custash(given, words):
    """None: there is no GPU."""
    result = museum.plant(given, *words)
    return result and verdict(len(result["findings"]), result["status"])


def by_sanitizer(given, words):
    output, status, errors = limited.run([*SANITIZER, given.program, *words], museum.environment(given), given.seconds)
    summary = re.search(r"ERROR SUMMARY: (\d+) error", output + errors)
    return verdict(summary and int(summary.group(1)), status if summary or status else ERROR)


def main():
    given = arguments()
    if not shutil.which(SANITIZER[0]):
        print(f"skipped: no {SANITIZER[0]}")
        return museum.SKIPPED
    listed = subprocess.run([given.program], env=museum.environment(given), capture_output=True, text=True, check=True).stdout
    rows = []
    print(f"{'':34}" + "".join(f"{tool + part:>26}" for tool in TOOLS for part in (": bug", ": right twin")))
    for line in listed.splitlines():
        number, name = line.split(" ", 1)
        row = {"name": name}
        for tool, ask in zip(TOOLS, (by_custash, by_sanitizer)):
            row[tool] = [ask(given, words) for words in ((number,), ("right", number))]
            if None in row[tool]:
                print("skipped: no GPU")
                return museum.SKIPPED
        rows.append(row)
        print(f"{name:34}" + "".join(f"{said:>26}" for tool in TOOLS for said in row[tool]), flush=True)
    for tool in TOOLS:
        bugs, twins = zip(*(row[tool] for row in rows))
        print(f"{tool}: {bugs.count(REPORTED)} of {len(rows)} found, {twins.count(REPORTED)} of {len(rows)} right twins reported, "
              f"{(bugs + twins).count(ERROR)} ended with an error")
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    return 0 if all(row[TOOLS[0]] == [REPORTED, NOTHING] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
