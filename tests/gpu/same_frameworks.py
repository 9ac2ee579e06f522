# SPDX-License-Identifier: MIT
"""Frameworks as they are, bare and with custash preloaded: what each subtest says must be the same, bit by
bit. A line each, `name bare preloaded same|different`; a framework that is not installed, or too few GPUs,
is `skip`. Exit 1 when one differs or fails, 77 when all were skipped.

  same_frameworks.py --library libcustash.so [--only PREFIX...] [--conf KEY:VALUE,...] [--json FILE]
"""
import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time

import same_arrays  # noqa: F401: registers its subtests
import same_torch  # noqa: F401
from same_tests import TESTS, digest


def gpu_count():
    try:
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return sum(line.startswith("GPU ") for line in done.stdout.splitlines())


def installed(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        return False


def run(name, args, preload):
    env = {k: v for k, v in os.environ.items() if not k.startswith("CUSTASH")}
    env.update({"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "PYTHONDONTWRITEBYTECODE": "1", **TESTS[name][3]})
    if preload:
        env["LD_PRELOAD"] = os.path.abspath(args.library)
        if args.conf:
            env["CUSTASH_CONF"] = args.conf
    start = time.monotonic()
    try:
        done = subprocess.run([sys.executable, os.path.abspath(__file__), "--inside", name], env=env, text=True,
                              capture_output=True, timeout=args.timeout, errors="replace", check=False)
        result = {"exit": done.returncode, "said": done.stdout, "error": done.stderr[-3000:]}
    except subprocess.TimeoutExpired as late:
        said = late.stdout.decode(errors="replace") if late.stdout else ""
        result = {"exit": "timeout", "said": said, "error": ""}
    result["seconds"] = round(time.monotonic() - start, 1)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library")
    parser.add_argument("--only", nargs="*", default=[], help="subtests whose name begins so")
    parser.add_argument("--conf", help="CUSTASH_CONF of the preloaded runs")
    parser.add_argument("--json", help="write what was said here")
    parser.add_argument("--timeout", type=float, default=120)
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.inside:
        TESTS[args.inside][0]()
        return 0
    if not args.library or not os.path.exists(args.library):
        parser.error("--library names no file")
    gpus = gpu_count()
    results = {}
    bad = skipped = 0
    for name, (_, needs, wanted, _env) in TESTS.items():
        if args.only and not name.startswith(tuple(args.only)):
            continue
        if gpus < wanted or not installed(needs):
            print(f"{name} - - skip ({'GPUs' if gpus < wanted else needs})", flush=True)
            skipped += 1
            continue
        bare, preloaded = run(name, args, False), run(name, args, True)
        results[name] = {"bare": bare, "preloaded": preloaded}
        same = bare["said"] == preloaded["said"] and bare["exit"] == preloaded["exit"] == 0
        bad += not same

        def short(result):
            return f"exit={result['exit']},{digest(result['said'].encode())},{result['seconds']}s"
        print(f"{name} {short(bare)} {short(preloaded)} {'same' if same else 'different'}", flush=True)
        if not same:
            theirs, ours = bare["said"].splitlines(), preloaded["said"].splitlines()
            for i, (a, b) in enumerate(zip(theirs, ours)):
                if a != b:
                    print(f"    line {i + 1}: bare \"{a}\", preloaded \"{b}\"")
            for how, result in (("bare", bare), ("preloaded", preloaded)):
                if result["exit"] != 0:
                    print(f"    {how}: " + result["error"][-1500:].replace("\n", "\n    "))
        if args.json:
            with open(args.json, "w", encoding="utf-8") as file:
                json.dump(results, file, indent=1)
    print(f"{len(results)} subtests, {bad} different, {skipped} skipped")
    return 1 if bad else 0 if results else 77


if __name__ == "__main__":
    sys.exit(main())
