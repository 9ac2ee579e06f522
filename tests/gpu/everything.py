# SPDX-License-Identifier: MIT
"""Runs all tests for a GPU in parts, each within a time limit.

The output of each part goes to a file, its last lines to the terminal. results.json counts the programs of each part that
passed, failed or were skipped, for tests/lint/evidence.py. The exit status is 1 if a part failed, 77 if all were skipped.

  everything.py [--build build] [--out FOLDER] [--only PART...] [--list]
  everything.py [--build build] --pack FOLDER

--pack copies the built programs, stripped, for a machine without compilers. There run this script, of the same
sources, with --build FOLDER.
"""
import argparse
import collections
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TOOLKIT = "/usr/local/cuda/lib64"
SKIPPED = 77
PACKED = ("interpose/libcustash*.so", "tools/custash*", "tools/demos/bandwidth/bandwidth", "tests/gpu/*", "tests/bench/calls_s*", "tests/bench/coverage_loops_s*",
          "tests/bench/core", "tests/harness/harness_*", "tests/process/actor", "tests/process/check_streams", "tests/process/limits",
          "tests/demo/churn_*")
AS_THEY_ARE = ("tests/gpu/check_streams_kernels",)
# Under compute-sanitizer all of it takes long: few rounds are enough to see a wrong access. (entry_points runs out of
# memory on purpose, which is an error to compute-sanitizer.)
SANITIZED = ("mutual", "mutual_shared", "ordering_shared", "ordering_per_thread", "pinned_order_shared", "capture", "thrust_turns")


def parts(build, out):
    """Name: seconds at most, command lines."""
    python = sys.executable
    library = f"{build}/interpose/libcustash.so"
    command = f"{build}/tools/custash"

    def script(name, *words):
        return [python, f"{ROOT}/tests/{name}", *words]

    def conformance(*more):
        return [script("conformance/run.py", program, "--library", library, "--jobs", str(os.cpu_count()), *more)
                for program in sorted(glob.glob(f"{build}/tests/gpu/conformance_gpu_*")) if os.path.isfile(program)]

    def harness(*more):
        return script("harness/run.py", "--runtime", TOOLKIT, *more, "--child", f"{build}/tests/harness/harness_child",
                      "--suite", f"{build}/tests/harness/harness_suite")

    def side_by_side(name, *more):
        return script("gpu/side_by_side.py", "--build", build, "--json", f"{out}/{name}.json", *more)

    def museum(name, *more):
        return script("gpu/museum.py", "--command", command, "--library", library, "--program",
                      f"{build}/tests/gpu/{name}_static", "--jobs", "8", *more)

    traces = sorted(glob.glob(f"{ROOT}/tests/traces/*.trace*"))
    return {
        "programs": (400, [script("gpu/run_all.py", "--build", build, "--quick", "--json", f"{out}/programs.json")]),
        "conformance": (580, conformance()),
        "conformance_plain": (150, conformance("--conf", "backing:driver")[:1]),
        "conformance_pools": (300, conformance("--conf", "pools:default", "--only", "contexts", "memory", "pools", "streams")),
        "conformance_reports": (550, conformance("--reports", "memory") + conformance("--reports", "streams")),
        "harness_reports": (400, [harness("--preload", library, "--reports", check) for check in ("memory", "streams")]),
        "harness": (150, [harness("--preload", library)]),
        "harness_bare": (150, [harness()]),
        "same": (500, [script("gpu/same_frameworks.py", "--library", library, "--json", f"{out}/same.json")]),
        "same_reports": (560, [script("gpu/same_frameworks.py", "--library", library, "--reports", check) for check in ("memory", "streams")]),
        "frameworks": (300, [script("gpu/frameworks.py", "--library", library)]),
        "history": (300, [script("gpu/history.py", "--preload", library, "--command", command, "--out",
                                    f"{out}/history")]),
        "replay": (300, [script("gpu/replay.py", "--command", command, "--json", f"{out}/replay.json", *traces)]),
        "nearly_full": (200, [script("gpu/nearly_full.py", "--command", command, *traces)]),
        "processes": (120, [script("gpu/processes.py", "--library", library, "--programs",
                                      f"{build}/tests/process")]),
        "linked": (120, [script("gpu/linked.py", "--programs", f"{build}/tests/gpu")]),
        "bandwidth": (120, [script("gpu/bandwidth.py", "--program", f"{build}/tools/demos/bandwidth/bandwidth", "--library", library)]),
        "bench": (560, [[f"{ROOT}/tools/bench", "--build", build, "--minutes", "8",
                       "--json", f"{out}/bench.json"]]),
        "side_by_side": (300, [side_by_side("side_by_side", "--only", "jax_default", "jax_platform", "torch", "torch_expandable")]),
        "cost_of_checks": (150, [side_by_side("cost_of_checks", "--only", "gpt2_no_cache", "--windows", "40", "--turns", "40",
                                              "--against", "", "--conf", "guard:1/1000", "--conf", "check_streams:true")]),
        "many_gpus": (560, [script("gpu/many_gpus.py", "--build", build, "--json", f"{out}/many_gpus.json")]),
        "limit_matrix": (560, [script("gpu/limit_matrix.py", "--build", build, "--json", f"{out}/limit_matrix.json")]),
        "train_rounds": (590, [script("gpu/train_rounds.py", "--build", build, "--json", f"{out}/train_rounds.json")]),
        "coverage": (500, [script("gpu/coverage_programs.py", "--build", build, "--json", f"{out}/coverage.json")]),
        "museum": (400, [museum("museum"), museum("museum_others", "--right", "4"),
                         museum("museum_streams", "--check", "streams", "--right", "12")]),
        "museum_peers": (200, [museum("museum_peers", "--right", "1"), museum("museum_peer_streams", "--check", "streams", "--right", "3")]),
        "stream_sanitizer": (400, [script("gpu/stream_sanitizer.py", "--command", command, "--library", library, "--program",
                                          f"{build}/tests/gpu/museum_streams_static", "--json", f"{out}/stream_sanitizer.json")]),
        "check_streams": (200, [script("gpu/check_streams.py", "--build", build)]),
        "sleep_peers": (300, [script("gpu/sleep_peers.py", "--build", build, "--json", f"{out}/sleep_peers.json")]),
        "sleep_frameworks": (400, [script("gpu/sleep_frameworks.py", "--build", build, "--json", f"{out}/sleep_frameworks.json")]),
        "checkpoint": (100, [script("gpu/checkpoint.py", "--build", build)]),
        "torch_pools": (500, [script("gpu/torch_pools.py", "--library", library, "--json", f"{out}/torch_pools.json",
                                     "--test-cuda", os.environ.get("PYTORCH_TEST_CUDA", ""))]),
        "explained": (100, [script("gpu/explained.py", "--build", build)]),
        "torch_graphs": (300, [script("gpu/torch_graphs.py", "--library", library)]),
        "sleep": (500, [script("gpu/sleep.py", "--build", build, "--gib", "16")]),
        "sanitizer": (500, [["compute-sanitizer", "--tool", "memcheck", "--error-exitcode", "1", "--target-processes",
                                "all", "env", f"LD_PRELOAD={library}", "CUSTASH_CONF=caching:always", f"{build}/tests/gpu/{name}", "--quick"]
                               for name in SANITIZED]),
        "soak": (590, [[f"{ROOT}/tools/soak", "0.14", "--build", build, "--json", f"{out}/soak.json"]]),
        "stress": (200, [[f"{build}/tests/harness/harness_stress", "--minutes", "2"]]),
    }


def has_gpu():
    return bool(shutil.which("nvidia-smi")) and subprocess.run(["nvidia-smi", "-L"], capture_output=True,
                                                               check=False).returncode == 0


def about(build):
    """The commit that is tested (a package names the one that it was built from), and the machine."""
    named = f"{build}/commit"
    if os.path.isfile(named):
        with open(named, encoding="utf-8") as file:
            commit = file.read().strip()
    else:
        commit = commit_of()
    said = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True, text=True,
                          check=True).stdout.strip().splitlines()
    count = ("no", "one", "two", "three", "four")[len(said)] if len(said) < 5 else str(len(said))
    name, _, driver = said[0].partition(", ")
    return {"commit": commit, "machine": f"{count} {name}", "driver": driver}


def commit_of():
    """With changes that no commit has it ends in -dirty, which is no commit to evidence.py."""
    return subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"], capture_output=True,
                          text=True, check=False).stdout.strip()


def counted(codes, log):
    """What became of a part's programs, why it left out some checks, and the last line of each."""
    said = []  # the lines of each program
    for line in map(str.strip, log.splitlines()):
        if line.startswith("$ "):
            said.append([])
        elif line and not line.startswith("exit "):
            said[-1].append(line)
    skip = re.compile(r"skip(?:ped)?:? ")
    skipped = collections.Counter(skip.sub("", line, 1) for lines in said for line in lines if skip.match(line))
    last = [lines[-1] for lines in said if lines and not skip.match(lines[-1])]
    return {"passed": codes.count(0), "failed": sum(code not in (0, SKIPPED) for code in codes), "skipped": skipped,
            "said": "; ".join(f"`{line}`" for line in last)}


def run(name, seconds, lines, out):
    """The worst exit status of the command lines, which share the time, and their counts."""
    start = time.monotonic()
    worst = SKIPPED
    codes = []
    with open(f"{out}/{name}.txt", "w", encoding="utf-8") as log:
        for line in lines:
            log.write(f"$ {' '.join(line)}\n")
            log.flush()
            try:
                code = subprocess.run(line, stdout=log, stderr=subprocess.STDOUT, cwd=ROOT, check=False,
                                      timeout=max(1, seconds - (time.monotonic() - start))).returncode
            except subprocess.TimeoutExpired:
                worst = f"not over after {seconds} s"
                codes.append(worst)
                break
            except FileNotFoundError as missing:
                log.write(f"skip: {missing}\n")
                code = SKIPPED
            log.write(f"exit {code}\n")
            codes.append(code)
            worst = worst if code == SKIPPED else code if worst in (0, SKIPPED) else worst
    with open(f"{out}/{name}.txt", encoding="utf-8", errors="replace") as log:
        text = log.read()
    print(f"== {name}: exit {worst}, {time.monotonic() - start:.0f} s", *text.splitlines()[-12:], sep="\n    ", flush=True)
    return worst, counted(codes, text)


def pack(build, folder):
    for pattern in PACKED:
        for path in glob.glob(f"{build}/{pattern}"):
            if not os.path.isfile(path) or not (os.access(path, os.X_OK) or path.endswith(".so")):
                continue
            copy = os.path.join(folder, os.path.relpath(path, build))
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            subprocess.run(["strip", "-o", copy, path], check=True)
    for name in AS_THEY_ARE:
        shutil.copy(f"{build}/{name}", f"{folder}/{name}")
    # Google Benchmark's programs look for it beside themselves.
    for path in glob.glob("/usr/lib/*/libbenchmark.so.1*"):
        shutil.copy(path, os.path.join(folder, "tests/bench"))
    # And the peers of tools/bench that are found here, or in the Python that CUSTASH_TEST_PYTHON names.
    subprocess.run([sys.executable, f"{ROOT}/tests/bench/peers.py", f"{folder}/tests/bench",
                    os.environ.get("CUSTASH_TEST_PYTHON", sys.executable)], check=True)
    with open(f"{folder}/commit", "w", encoding="utf-8") as file:
        file.write(commit_of())
    size = sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(folder) for name in names)
    print(f"{size / 2**20:.0f} MiB in {folder}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", type=os.path.abspath)
    parser.add_argument("--out", default="gpu-results", type=os.path.abspath)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--list", action="store_true", help="print the parts and their time limits")
    parser.add_argument("--pack", type=os.path.abspath)
    args = parser.parse_args()
    if not os.path.exists(f"{args.build}/interpose/libcustash.so"):
        parser.error(f"{args.build} is no build folder")
    if args.pack:
        return pack(args.build, args.pack)
    known = parts(args.build, args.out)
    if args.list:
        for name, (seconds, _) in known.items():
            print(f"{name:20} {seconds}")
        return None
    unknown = set(args.only or ()) - known.keys()
    if unknown:
        parser.error(f"no part {' '.join(sorted(unknown))}: see --list")
    if not has_gpu():
        print("skip: there is no GPU here")
        sys.exit(SKIPPED)
    os.makedirs(args.out, exist_ok=True)
    results = about(args.build) | {"suites": {}}
    codes = []
    for name, (seconds, lines) in known.items():
        if args.only and name not in args.only:
            continue
        code, results["suites"][name] = run(name, seconds, lines, args.out)
        codes.append(code)
        with open(f"{args.out}/results.json", "w", encoding="utf-8") as file:  # what there is, should the rest be cut off
            json.dump(results, file, indent=1)
    sys.exit(SKIPPED if all(code == SKIPPED for code in codes) else int(any(code not in (0, SKIPPED) for code in codes)))


main()
