# SPDX-License-Identifier: MIT
"""Frameworks as they are, bare and with custash preloaded: what each subtest says must be the same, bit by
bit. A line each, `name bare preloaded same|different`; a framework that is not installed, or too few GPUs,
is `skip`. Exit 1 when one differs or fails, 77 when all were skipped.

  same_frameworks.py --library libcustash.so [--only PREFIX...] [--conf KEY:VALUE,...] [--reports memory|streams] [--json FILE]

With --reports custash checks the preloaded runs, and must report nothing. Before that it must report a planted fault.
"""
import argparse
import ctypes
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time

import same_arrays  # noqa: F401: registers its subtests
import same_torch  # noqa: F401
from same_tests import TESTS, digest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import guard_reports  # noqa: E402

PLANTED = "planted"
MEMORY_FIGURES = ("cupy_memory_figures", "torch_mem_get_info")  # under guards they count the guards' pages, too


def planted():
    """Writes past the end of a block, and uses one on a stream that is not ordered after its allocation."""
    cuda = ctypes.CDLL("libcuda.so.1")
    context, block, size = ctypes.c_void_p(), ctypes.c_uint64(), 1 << 20
    streams = [ctypes.c_void_p() for _ in range(2)]
    for status in (cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context),
                   cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(size)),
                   *(cuda.cuStreamCreate(ctypes.byref(stream), 1) for stream in streams)):
        assert status == 0, status
    cuda.cuMemsetD8_v2(block, ctypes.c_ubyte(0), ctypes.c_size_t(size + 1))
    cuda.cuMemAllocAsync(ctypes.byref(block), ctypes.c_size_t(size), streams[0])
    cuda.cuMemsetD8Async(block, ctypes.c_ubyte(0), ctypes.c_size_t(size), streams[1])
    cuda.cuStreamSynchronize(streams[1])


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
    env.update({"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "PYTHONDONTWRITEBYTECODE": "1", **(TESTS[name][3] if name in TESTS else {})})
    report = os.path.join(args.folder, name + ".json") if preload and args.reports else None
    if preload:
        env["LD_PRELOAD"] = os.path.abspath(args.library)
        checks = f"{guard_reports.CONF[args.reports]},guard_report:{report}" if report else None
        env["CUSTASH_CONF"] = ",".join(filter(None, (args.conf, checks)))
    start = time.monotonic()
    try:
        done = subprocess.run([sys.executable, os.path.abspath(__file__), "--inside", name], env=env, text=True,
                              capture_output=True, timeout=args.timeout, errors="replace", check=False)
        result = {"exit": done.returncode, "said": done.stdout, "error": done.stderr[-3000:]}
    except subprocess.TimeoutExpired as late:
        said = late.stdout.decode(errors="replace") if late.stdout else ""
        result = {"exit": "timeout", "said": said, "error": ""}
    result["seconds"] = round(time.monotonic() - start, 1)
    if report:
        result["found"] = guard_reports.read(report)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library")
    parser.add_argument("--only", nargs="*", default=[], help="subtests whose name begins so")
    parser.add_argument("--conf", help="CUSTASH_CONF of the preloaded runs")
    parser.add_argument("--reports", choices=sorted(guard_reports.CONF), help="check the preloaded runs")
    parser.add_argument("--json", help="write what was said here")
    parser.add_argument("--timeout", type=float, default=120)
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.inside:
        (planted if args.inside == PLANTED else TESTS[args.inside][0])()
        return 0
    if not args.library or not os.path.exists(args.library):
        parser.error("--library names no file")
    gpus = gpu_count()
    if gpus == 0:
        print("skip: there is no GPU")
        return 77
    with tempfile.TemporaryDirectory() as args.folder:
        return compare(args, gpus)


def compare(args, gpus):
    results = {}
    bad = skipped = 0
    if args.reports:
        found = run(PLANTED, args, True)["found"]
        bad += found in ([], [guard_reports.NO_FILE])
        print(f"{PLANTED}: {found or 'NOT FOUND'}", flush=True)
    for name, (_, needs, wanted, _env) in TESTS.items():
        if args.only and not name.startswith(tuple(args.only)):
            continue
        bare = None
        if gpus < wanted or not installed(needs):
            why = "GPUs" if gpus < wanted else needs
        elif args.reports == "memory" and name.startswith(MEMORY_FIGURES):
            why = "guards take memory"
        else:
            bare = run(name, args, False)
            why = "fails without custash" if bare["exit"] == 1 and "Error" in bare["error"] else ""
        if why:
            print(f"{name} - - skip ({why})", flush=True)
            skipped += 1
            continue
        preloaded = run(name, args, True)
        results[name] = {"bare": bare, "preloaded": preloaded}
        found = preloaded.get("found", [])
        same = bare["said"] == preloaded["said"] and bare["exit"] == preloaded["exit"] == 0 and not found
        bad += not same

        def short(result):
            return f"exit={result['exit']},{digest(result['said'].encode())},{result['seconds']}s{found if result is preloaded and found else ''}"
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
