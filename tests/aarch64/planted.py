#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""planted.py FOLDER: a missing order that the model finds, and that QEMU on x86-64 does not show.

In a copy of the sources BiasedLock::leave() stores `relaxed` in place of `release`. The copy is built for aarch64 in
FOLDER, and its suite concurrency runs under QEMU: it must pass. The model of that lock is searched as built, where it
must find nothing, and without that order, where it must find a violation. tests/aarch64/README.md has the figures.
"""
import os
import re
import shutil
import subprocess
import sys
import time

from lacking import ROOT, skip_where_something_lacks

FILE = "allocator/base/biased_lock.hpp"
AS_BUILT = "busy_.store(0, std::memory_order_release);"
PLANTED = "busy_.store(0, std::memory_order_relaxed);"
MODEL, RULE = "thread_cache", "leave_is_no_release"
PROGRAMS = ("hammer", "pinned_hammer", "teardown")
TIMES = 3


def copy_sources(folder):
    """What git tracks, as it is in the working tree."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    names = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], check=True, capture_output=True).stdout
    packed = subprocess.run(["tar", "-C", ROOT, "--null", "-T", "-", "-c"], input=names, check=True, capture_output=True)
    subprocess.run(["tar", "-x", "-C", folder], input=packed.stdout, check=True)


def plant(folder):
    path = os.path.join(folder, FILE)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    assert text.count(AS_BUILT) == 1, f"{FILE} has not once: {AS_BUILT}"
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace(AS_BUILT, PLANTED))


def release_stores(program):
    """How many instructions of a program for aarch64 store with release."""
    code = subprocess.run(["aarch64-linux-gnu-objdump", "-d", "--no-show-raw-insn", program], check=True,
                          capture_output=True, text=True).stdout
    return len(re.findall(r"\tstlrb?\t", code))


def build(sources, folder):
    """The programs, and how many release stores they have in all."""
    targets = [f"tests/concurrency/{name}" for name in PROGRAMS]
    subprocess.run([f"{sources}/tools/build", "--arch", "aarch64", folder, "-Dchecks=true", "-Doptimization=2",
                    "--", *targets], cwd=sources, check=True)
    programs = [os.path.join(folder, target) for target in targets]
    return programs, sum(release_stores(program) for program in programs)


def main():
    folder = os.path.abspath(sys.argv[1])
    skip_where_something_lacks()
    if not shutil.which("spin"):
        print("skipped: spin is not installed (Debian's package spin)")
        sys.exit(77)
    sources = os.path.join(folder, "sources")
    copy_sources(sources)
    _, before = build(sources, os.path.join(folder, "build"))
    plant(sources)
    programs, after = build(sources, os.path.join(folder, "build"))
    print(f"release stores in the programs: {before} as built, {after} with the fault", flush=True)
    problems = [] if after < before else ["the fault is not in the programs"]
    for program in programs:
        for _ in range(TIMES):
            start = time.monotonic()
            done = subprocess.run(["qemu-aarch64-static", program], check=False, capture_output=True, text=True)
            said = (done.stdout + done.stderr).strip().splitlines()
            print(f"{os.path.basename(program)}: exit status {done.returncode}, {time.monotonic() - start:.0f} s, "
                  f"{said[-1] if said else ''}", flush=True)
            if done.returncode:
                problems.append(f"QEMU shows something in {program}: {said[-20:]}")
    models = [sys.executable, f"{ROOT}/tests/models/check.py", os.path.join(folder, "models"), MODEL, "--rule", RULE]
    if subprocess.run(models, check=False).returncode:
        problems.append("the model does not tell the two apart")
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


main()
