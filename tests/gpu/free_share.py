# SPDX-License-Identifier: MIT
"""Which share of a program's frees waited, by the option free: (--summary), in one table. Without a program it takes those of
coverage_programs.py, and PyTorch and CuPy with their own caches switched off, where they are installed.

  free_share.py --build build [--modes auto copies parameters] [--turns 2000] [--only NAME...] [--json FILE]
                [--driver FOLDER --runtime FOLDER of the simulated ones] [-- PROGRAM ARGUMENTS...]

With free:strict all frees wait, and none is counted. Exit 1 where a program failed, or where another share than --expect waited in
the first mode; 77 where all were skipped.
"""
import argparse
import json
import os
import re
import sys

import coverage_programs as coverage

HERE = os.path.dirname(os.path.abspath(__file__))
LINE = re.compile(r"^custash: device \d+: \d+ allocations, (\d+) frees;.* frees that waited (\d+),", re.M)


def programs(args):
    """Name: command line, environment, options; or a line that says what is missing."""
    if args.program:
        return {os.path.basename(args.program[0]): (args.program, {}, "")}
    found = {}
    for name, (what, env, conf) in coverage.PROGRAMS.items():
        command, missing = coverage.command_of(what, args)
        found[name] = missing or (command, env, conf)
    steps = str(max(2, args.turns // 100))
    for name, module, words, env in (
            ("gpt2_cache_off", "torch", ["train_gpt2.py", "--steps", steps], {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}),
            ("cupy_pools_off", "cupy", ["cupy_pools_off.py", "--pools", "off", "--iterations", steps], {})):
        missing = coverage.missing_module(module, args)
        found[name] = missing or ([sys.executable, os.path.join(HERE, words[0]), *words[1:]], env, "")
    return found


def waited(command, env, conf, args):
    """(frees, those that waited), of all devices and processes."""
    done = coverage.run([f"{args.build}/tools/custash", "run", "--summary", "--lib", f"{args.build}/interpose/libcustash.so",
                         "--conf", conf, "--", *command], env, args.timeout)
    rows = [(int(frees), int(waits)) for frees, waits in LINE.findall(done.stderr)]
    if done.returncode != 0 or not rows:
        raise coverage.Failed(f"exit {done.returncode}: {(done.stdout + done.stderr)[-600:]}")
    frees, waits = (sum(column) for column in zip(*rows))
    return frees, waits


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", type=os.path.abspath)
    parser.add_argument("--modes", nargs="*", default=["auto", "copies", "parameters"])
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--turns", type=int, default=2000)
    parser.add_argument("--timeout", type=float, default=120)
    parser.add_argument("--expect", type=float, help="percent")
    parser.add_argument("--json")
    parser.add_argument("--driver")
    parser.add_argument("--runtime")
    parser.add_argument("program", nargs="*", help="a program and its arguments, after --")
    args = parser.parse_args()
    if coverage.no_gpu(args):
        return 77
    base = coverage.base_environment(args)
    rows, all_found, failed = [], {}, 0
    for name, what in programs(args).items():
        if args.only and name not in args.only:
            continue
        if isinstance(what, str):
            print(f"{name}: skip: {what}", flush=True)
            continue
        command, more, conf = what
        try:
            found = {mode: waited(command, {**base, **more}, ",".join(filter(None, [conf, f"free:{mode}"])), args) for mode in args.modes}
        except coverage.Failed as why:
            print(f"{name}: FAIL: {why}", flush=True)
            failed += 1
            continue
        all_found[name] = found
        frees, waits = next(iter(found.values()))
        failed += args.expect is not None and waits * 100 != frees * args.expect
        rows.append([name, str(frees),
                     *(f"{some} ({some / max(of, 1) * 100:.1f} %)" for of, some in found.values())])
    coverage.show(["program", "frees", *(f"waited, free:{mode}" for mode in args.modes)], rows)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump(all_found, out, indent=1)
    return 1 if failed else 0 if rows else 77


if __name__ == "__main__":
    sys.exit(main())
