# SPDX-License-Identifier: MIT
"""How many instructions a cached pair of the core takes, counted by callgrind: a time that no busy
machine disturbs. And how many a launch and a pair take in the preloaded library, over the simulated
driver. Fails above BASELINE by more than MARGIN. Skips (77) without valgrind.

  instructions.py CORE [--process FOLDER --library libcustash.so --driver FOLDER]

After a change for the better, lower the baseline (the test says when).
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

# (peer, bytes): instructions a pair, by g++ 12 -O3 with assertions. Other compilers differ by less
# than the margin.
BASELINE = {
    ("core", 512): 420,
    ("core", 65536): 430,
    ("core", 67108864): 440,
    ("core_named", 65536): 465,
}
# (loop, options): those in the preloaded library, by a program of tests/process/streams. Before there
# were guards (commit 8781f7f) a launch took 435 to 453 and a pair 605 to 612.
PRELOADED = {
    ("launches", ""): 500,
    ("launches", "guard:1/1000@595"): 1250,  # a seed that guards the first allocation
    ("launches", "guard:all"): 1250,
    ("launches", "check_streams:true"): 2120,
    ("pairs", ""): 595,
    ("pinned_pairs", ""): 745,
}
LIBRARIES = ("libcustash.so", "libcustash-check.so")
MARGIN = 0.10
LIBRARY_MARGIN = 0.20  # what a launch does depends on what has ended by then
FEW, MANY = 500, 2500


def collected(*command, profile="/dev/null", **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("CUSTASH", "LD_PRELOAD"))}
    done = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile}", *command], capture_output=True,
                          text=True, check=True, env={**env, **more})
    return int(re.search(r"Collected\s*:\s*(\d+)", done.stderr)[1])


def of_one(*command, **more):
    """Of one turn of the command's loop."""
    few, many = (collected(*command, str(turns), **more) for turns in (FEW, MANY))
    return (many - few) / (MANY - FEW)


def in_object(text, name):
    """The instructions of a callgrind profile that lie in this object itself."""
    names, total, current, skip = {}, 0, "", False
    for line in text.splitlines():
        if line.startswith("ob="):
            number, _, path = line[3:].partition(" ")
            current = names.setdefault(number, path)
        elif skip or line.startswith("calls="):
            skip = not skip  # the line after calls= is what the callee took
        elif line[:1] in "+-*0123456789" and line and name in current:
            total += int(line.split()[1])
        if line.startswith("cob="):
            number, _, path = line[4:].partition(" ")
            names.setdefault(number, path)
    return total


def of_library(given, loop, conf):
    """Of one turn, those in the library and in its checks: neither the simulated driver's nor libc's."""
    def in_library(turns):
        with tempfile.NamedTemporaryFile("r", encoding="utf-8") as profile:
            collected(os.path.join(given.process, "check_streams"), loop, str(turns), profile=profile.name, LD_LIBRARY_PATH=given.driver,
                      CUSTASH_SIM="devices=1", CUSTASH_SIM_KERNELS=os.path.join(given.process, "libparameters_kernels.so"),
                      LD_PRELOAD=given.library, CUSTASH_CONF=f"control:false,neighbours:false,{conf}".rstrip(","))
            text = profile.read()
            return sum(in_object(text, name) for name in LIBRARIES)

    return (in_library(MANY) - in_library(FEW)) / (MANY - FEW)


def judge(count, baseline, margin=MARGIN):
    """(is it right, what to say)."""
    if count > baseline * (1 + margin):
        return False, "too many"
    if count < baseline / 2:
        return False, "less than half: was all of it counted?"
    if count < baseline * (1 - margin):
        return True, "fewer: lower the baseline"
    return True, "ok"


def main():
    if judge(111, 100)[0] or not judge(109, 100)[0] or judge(0, 100)[0]:
        sys.exit("the judgement itself is wrong")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("core")
    for name in ("process", "library", "driver"):
        parser.add_argument("--" + name)
    given = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("skip: no valgrind")
        sys.exit(77)
    right = True

    def say(what, count, baseline, margin=MARGIN):
        nonlocal right
        fine, word = judge(count, baseline, margin)
        right = right and fine
        print(f"{what}: {count:.0f} instructions, baseline {baseline}: {word}", flush=True)

    for (peer, size), baseline in BASELINE.items():
        say(f"{peer} {size}, a pair", of_one(given.core, "--loop", peer, str(size)), baseline)
    with tempfile.TemporaryDirectory() as folder:
        if given.library:
            # callgrind takes two functions of one name for one: operator new of libstdc++, and the library's own.
            beside = os.path.dirname(given.library)
            for name in LIBRARIES:
                subprocess.run(["strip", "-o", os.path.join(folder, name), os.path.join(beside, name)], check=True)
            given.library = os.path.join(folder, LIBRARIES[0])
        for (loop, conf), baseline in PRELOADED.items() if given.library else ():
            count = of_library(given, loop, conf)
            if not judge(count, baseline, LIBRARY_MARGIN)[0]:
                count = of_library(given, loop, conf)
            say(f"{loop} {conf or 'with default options'}, each", count, baseline, LIBRARY_MARGIN)
    sys.exit(0 if right else 1)


main()
