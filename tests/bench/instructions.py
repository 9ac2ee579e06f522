# SPDX-License-Identifier: MIT
"""How many instructions a cached pair of the core takes, counted by callgrind: a time that no busy
machine disturbs. Fails above BASELINE by more than MARGIN. Skips (77) without valgrind.

  instructions.py CORE

After a change for the better, lower the baseline (the test says when).
"""
import re
import shutil
import subprocess
import sys

# (peer, bytes): instructions a pair, by g++ 12 -O3 with assertions. Other compilers differ by less
# than the margin.
BASELINE = {
    ("core", 512): 420,
    ("core", 65536): 430,
    ("core", 67108864): 440,
    ("core_named", 65536): 465,
}
MARGIN = 0.10
FEW, MANY = 500, 2500


def collected(core, *loop):
    done = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", core, "--loop", *loop],
        capture_output=True, text=True, check=True)
    return int(re.search(r"Collected\s*:\s*(\d+)", done.stderr)[1])


def judge(count, baseline):
    """(is it right, what to say)."""
    if count > baseline * (1 + MARGIN):
        return False, "too many"
    if count < baseline * (1 - MARGIN):
        return True, "fewer: lower the baseline"
    return True, "ok"


def main():
    if judge(111, 100)[0] or not judge(109, 100)[0]:
        sys.exit("the judgement itself is wrong")
    if shutil.which("valgrind") is None:
        print("skip: no valgrind")
        sys.exit(77)
    right = True
    for (peer, size), baseline in BASELINE.items():
        few, many = (collected(sys.argv[1], peer, str(size), str(n)) for n in (FEW, MANY))
        count = (many - few) / (MANY - FEW)
        fine, word = judge(count, baseline)
        right = right and fine
        print(f"{peer} {size}: {count:.0f} instructions a pair, baseline {baseline}: {word}")
    sys.exit(0 if right else 1)


main()
