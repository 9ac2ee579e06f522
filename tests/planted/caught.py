#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""caught.py PROPERTY PLANTED KINDS PROGRAMS SEED: the property test must find the planted fault.

PLANTED must report a violation of one of KINDS (comma-separated) within PROGRAMS programs; PROPERTY, the
same test over the sound core, must pass exactly those programs. Up to FAILURES violations of other
kinds may come before (a counter that is wrong by the same fault, say).
"""
import re
import subprocess
import sys


FAILURES = "40"


def run(program: str, programs: str, seed: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([program, programs, seed, FAILURES], stdout=subprocess.PIPE, text=True, check=False)


def main() -> int:
    sound, planted, kinds, programs, seed = sys.argv[1:6]
    result = run(planted, programs, seed)
    every = re.findall(r"^VIOLATION (\S+) seed (\d+)$", result.stdout, re.MULTILINE)
    found = [(kind, at) for kind, at in every if kind in kinds.split(",")]
    last = result.stdout.strip().splitlines()[-1] if result.stdout.strip() else ""
    if result.returncode == 0 or not found:
        print(f"not caught as {kinds}: {planted}: {every} {last}")
        return 1
    kind, at = found[0]
    start = result.stdout.index(f"VIOLATION {kind} seed {at}\n")
    print(result.stdout[start:].split("\nVIOLATION", 2)[0])
    used = str(int(at) - int(seed) + 1)
    clean = run(sound, used, seed)
    if clean.returncode != 0:
        print(f"the sound core fails the same programs:\n{clean.stdout}")
        return 1
    print(f"caught: {kind}, seed {at}; sound core: {clean.stdout.strip().splitlines()[-1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
