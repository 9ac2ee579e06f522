# SPDX-License-Identifier: MIT
"""The programs behind tools/demos, on the simulator: training comes to the same loss bare and through
custash, to the last digit; the reuse experiment reserves what S28 says at each step.

  LIBRARY=libcustash.so demos.py REUSE TRAIN -- RUNNER [OPTION …]
"""
import os
import re
import subprocess
import sys

# Units that custash holds after each step of demo_reuse.cpp.
RESERVED = [0, 1, 2, 2, 2, 3, 3, 3, 3, 3, 3, 1]


def run(runner, *words):
    done = subprocess.run([sys.executable, *runner, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{words}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def main():
    reuse, train, _, *runner = sys.argv[1:]
    preload = ["--preload", os.environ["LIBRARY"]]
    losses = [re.search(r"train: loss (\S+), accuracy (\S+)", run(runner, *how, "--", train))
              for how in ([], preload)]
    print("losses and accuracies, bare and through custash:", [found.groups() for found in losses])
    if losses[0].groups() != losses[1].groups() or float(losses[0][2]) < 90:
        sys.exit("training does not come to the same, or does not learn")

    unit = 32
    table = run(runner, *preload, "--", reuse, str(unit))
    rows = re.findall(r"^(\w.*?) +(\d+) +(\d+) +\d+ +\d+ +[+-]\d+ +[+-]\d+$", table, re.M)
    reserved = [int(row[2]) / unit for row in rows]
    print("units reserved:", reserved)
    if reserved != RESERVED:
        sys.exit(f"the reuse experiment should reserve {RESERVED}\n{table}")


main()
