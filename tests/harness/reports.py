# SPDX-License-Identifier: MIT
"""What custash reports of the harness's tests: each runs alone, with its children, and with guards or check_streams on."""
import glob
import os
import subprocess
import tempfile

from guard_reports import FAULT, NO_FILE, read

# By the beginning of a test's name. Tests that are not listed must give no report.
BESIDE = "streams free_beside_use"
EXPECTED = {
    "memory": {"S12 a kernel's error shows": 2 * [FAULT]},  # a process for each way of launching
    "streams": {
        "S12 a kernel's error shows": [NO_FILE],  # its two processes end without their exit handlers
        "S18 a sum on a side stream that does not wait is reported": ["streams before_allocation"],
        "S19 on other streams order is the user's business": [BESIDE],
        "record_stream forgotten: a block freed": [BESIDE],
        "record_stream forgotten: the next owner's race": [BESIDE],
    },
}

# Tests of what a cache keeps. Guarded blocks are not kept, so with guards these fail; their reports are compared all the same.
ABOUT_THE_CACHE = ("S20 ", "S21 ", "S22 ", "S23 ", "S28 ")


def expected(check, test):
    return next((each for name, each in EXPECTED[check].items() if test.startswith(name)), [])


def run(program, test, env):
    """A test that has ended, and its reports and its children's."""
    with tempfile.TemporaryDirectory() as folder:
        more = {"CUSTASH_CONF": f"{env['CUSTASH_CONF']},guard_report:{folder}/%p.json"}
        done = subprocess.run([program, test.replace(",", "\\,").replace("[", "\\[")], env={**env, **more}, text=True, errors="replace",
                              capture_output=True, timeout=60, check=False)
        files = sorted(glob.glob(os.path.join(folder, "*")))
        return done, [each for path in files for each in read(path)] if files else [NO_FILE]


def compare(check, command, env):
    """The exit status."""
    listed = subprocess.run([*command, "--list-test-names-only"], env={**env, "LD_PRELOAD": ""}, text=True, capture_output=True, check=False)
    tests = listed.stdout.splitlines()
    bad = count = 0
    for test in tests:
        done, found = run(command[0], test, env)
        cached = check == "memory" and test.startswith(ABOUT_THE_CACHE)
        wrong = found != expected(check, test) or (done.returncode != 0 and not cached) or "No test cases matched" in done.stdout
        count += len(found)
        bad += wrong
        if wrong:
            print(f"{test}: exit {done.returncode}, reports {found}, expected {expected(check, test)}\n{(done.stdout + done.stderr)[-1500:]}",
                  flush=True)
    print(f"{len(tests)} tests, {count} reports, {bad} bad")
    return 1 if bad or not tests else 0
