#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check.py FOLDER [--nightly]: builds custash for aarch64 and runs its tests under QEMU's user mode.

Without --nightly, for the next minutes of work: quickly compiled, with assertions in the library too; the tests about the
core and pinned memory of the suite unit, the suites concurrency and property with 500 random programs of each kind, and
the processes of PROCESSES. With it: an optimised build, all tests of the suites unit, concurrency, property, fault and
process, and 5,000 programs. QEMU shows function. It does not show the order of a weak memory: tests/models do.
"""
import json
import os
import subprocess
import sys

from lacking import ROOT, skip_where_something_lacks

PROCESSES = {"process_" + name for name in ("api", "counters", "entry", "forwards", "lookups", "runtime", "scopes")}
UNITS = {f"tests/unit/{name}" for name in ("unit_core", "pinned/unit_pinned", "host_ranges", "find_object")}
# Beyond what tests/process/emulated.py and tests/conformance/meson.build name.
LEFT_OUT = {
    "every_call": "it makes each driver call fail in a process of its own: more than 15 minutes",
    "command": "it puts the library before this machine's sh",
}


def tests_of(build):
    """[(name, suites, program)] of a build folder; the program by its path there."""
    listed = subprocess.run(["meson", "introspect", "--tests", build], check=True, capture_output=True, text=True).stdout
    return [(each["name"], {suite.split(":")[-1] for suite in each["suite"]},
             {os.path.relpath(word, build) for word in each["cmd"] if word.startswith(build)})
            for each in json.loads(listed)]


def chosen(tests, nightly):
    """Names of tests, as meson test takes them."""
    if nightly:
        wanted = {"unit", "concurrency", "property", "fault", "process"}
        return [name for name, suites, _ in tests if suites & wanted and name not in LEFT_OUT]
    return [name for name, suites, programs in tests
            if suites & {"concurrency", "property"} or name in PROCESSES or programs & UNITS]


def main():
    build = os.path.abspath(sys.argv[1])
    nightly = "--nightly" in sys.argv[2:]
    skip_where_something_lacks()
    options = [] if nightly else ["-Dchecks=true", "-Doptimization=1"]
    subprocess.run([f"{ROOT}/tools/build", "--arch", "aarch64", build, *options, "--", "build.ninja"], cwd=ROOT, check=True)
    names = chosen(tests_of(build), nightly)
    print(f"{len(names)} tests", flush=True)
    for name, reason in LEFT_OUT.items() if nightly else ():
        print(f"left out: {name}: {reason}", flush=True)
    log = f"{build}/meson-logs/testlog.json"
    if os.path.exists(log):
        os.remove(log)  # where nothing is built, no test runs
    env = {**os.environ, "CUSTASH_PROGRAMS": "5000" if nightly else "500"}
    done = subprocess.run(["meson", "test", "-C", build, "-t", "20" if nightly else "5", *names], cwd=ROOT, env=env, check=False,
                          capture_output=True, text=True)
    if not os.path.exists(log):
        sys.exit(done.stdout[-3000:] + done.stderr[-3000:])
    sys.exit(subprocess.run([f"{ROOT}/tools/count-tests", f"aarch64={log}"], check=False).returncode)


main()
