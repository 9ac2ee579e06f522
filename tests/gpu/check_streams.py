# SPDX-License-Identifier: MIT
"""Runs the small programs of tests/process/streams on a GPU with check_streams:true, and says what was found.

  check_streams.py --build build [--only PREFIX...]

Each wrong program must give its one finding, and each right one none. Exits with 1 where one does not, with 77 where there
is no GPU.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

import limited

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TESTS, "process"))
from check_streams import WRONG  # noqa: E402

TWO_DEVICES = ("right_copy_between_devices",)


def devices():
    if not shutil.which("nvidia-smi"):
        return 0
    return len(subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False).stdout.splitlines())


def findings(args, name):
    """The kinds that were found, and what is wrong with the run itself."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "found.json")
        env = {k: v for k, v in os.environ.items() if not k.startswith("CUSTASH")}
        env.update(LD_PRELOAD=f"{args.build}/interpose/libcustash.so", CUSTASH_CONF=f"check_streams:true,guard_report:{path}",
                   CUSTASH_TEST_IMAGE=f"{args.build}/tests/gpu/check_streams_kernels")
        output, status, errors = limited.run([f"{args.build}/tests/process/check_streams", name], env, args.seconds)
        if status == limited.LATE:
            return [], f"not over after {args.seconds:g} s"
        if status != 0:
            return [], f"exit {status}: {output}{errors}"
        with open(path, encoding="utf-8") as file:
            return [each["suspects"][0]["kind"] for each in json.load(file)["findings"]], ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", type=os.path.abspath)
    parser.add_argument("--seconds", type=float, default=60, help="for one program; more is a failure")
    parser.add_argument("--only", nargs="*", default=[], help="programs whose name begins so")
    args = parser.parse_args()
    count = devices()
    if count == 0:
        print("skipped: no GPU")
        return 77
    names = subprocess.run([f"{args.build}/tests/process/check_streams", "--list"], capture_output=True, text=True,
                           check=True).stdout.split()
    names = [name for name in names if not args.only or name.startswith(tuple(args.only))]
    bad = 0
    for name in names:
        if name in TWO_DEVICES and count < 2:
            print(f"skip: {name}: it needs two devices")
            continue
        found, trouble = findings(args, name)
        right = not trouble and found == ([WRONG[name]] if name in WRONG else [])
        bad += not right
        print(f"{'ok' if right else 'FAIL'}: {name}" + ("" if right else f" found {found} {trouble}"), flush=True)
    print(f"{len(names)} programs, {bad} bad")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
