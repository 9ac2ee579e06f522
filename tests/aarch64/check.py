#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check.py BUILD-FOLDER [--nightly]: builds custash for aarch64 and runs its tests under QEMU's user mode.

Without --nightly: the suites unit and concurrency, 500 random programs of each kind, and the processes of QUICK. With
it: every process, and 5,000 programs. QEMU shows function. It does not show the order of a weak memory: tests/models do.
"""
import json
import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SKIP = 77
LIBRARIES = "/usr/lib/aarch64-linux-gnu"
BINFMT = "/proc/sys/fs/binfmt_misc/qemu-aarch64"
QUICK = {"process_" + name for name in ("api", "beside", "counters", "doors", "entry", "forwards", "lookups", "neighbours",
                                        "pinned", "runtime", "scopes", "service", "turns", "vendored")}
# Of the suite process, beyond what tests/process/emulated.py names.
LEFT_OUT = {
    "command": "it puts the library before this machine's sh",
    "conformance_shared": "its case life_exec starts this machine's programs; the other forms run",
}


def lacking():
    """What this machine lacks, or an empty text."""
    for command in ("aarch64-linux-gnu-g++", "qemu-aarch64-static"):
        if not shutil.which(command):
            return command
    for file in ("liblzma.a", "pkgconfig/spdlog.pc", "libstdc++.so.6"):
        if not os.path.exists(os.path.join(LIBRARIES, file)):
            return f"{LIBRARIES}/{file}"
    return "" if os.path.exists(BINFMT) else f"{BINFMT} (the kernel does not start programs for aarch64 by QEMU)"


def tests_of(build):
    """[(name, suites)] of a build folder."""
    listed = subprocess.run(["meson", "introspect", "--tests", build], check=True, capture_output=True, text=True).stdout
    return [(each["name"], {suite.split(":")[-1] for suite in each["suite"]}) for each in json.loads(listed)]


def chosen(tests, nightly):
    wanted = {"unit", "concurrency", "property", "process"}
    return [name for name, suites in tests
            if suites & wanted and name not in LEFT_OUT and (nightly or "process" not in suites or name in QUICK)]


def main():
    build = os.path.abspath(sys.argv[1])
    nightly = "--nightly" in sys.argv[2:]
    missing = lacking()
    if missing:
        print(f"no {missing}: tools/setup --arch aarch64 installs what this test needs")
        sys.exit(SKIP)
    subprocess.run([f"{ROOT}/tools/build", "--arch", "aarch64", build, "--", "all"], cwd=ROOT, check=True)
    for name, reason in LEFT_OUT.items():
        print(f"left out: {name}: {reason}")
    env = {**os.environ, "CUSTASH_PROGRAMS": "5000" if nightly else "500"}
    subprocess.run(["meson", "test", "-C", build, "--no-rebuild", "-t", "5", *chosen(tests_of(build), nightly)],
                   cwd=ROOT, env=env, check=False, stdout=subprocess.DEVNULL)
    sys.exit(subprocess.run([f"{ROOT}/tools/count-tests", f"aarch64={build}/meson-logs/testlog.json"], check=False).returncode)


main()
