# SPDX-License-Identifier: MIT
"""Pinned against pageable memory on a GPU, measured by the demo `bandwidth` without and with custash, and both of its mistakes:
each must show, and the right figure must not have them. tools/demos/bandwidth/README.md explains them.

  bandwidth.py --program build/tools/demos/bandwidth/bandwidth --library build/interpose/libcustash.so [--driver FOLDER]

--driver: where libcuda.so.1 lies, for the simulated driver. Exits 77 without a GPU.
"""
import argparse
import copy
import json
import os
import subprocess
import sys

CELLS = ("--sizes", "64m", "--repetitions", "5")
RIGHT = {"simulated": False, "arrived_pinned": False, "handed_over": {"ratio": 1.2}, "right": {"ratio": 3.7}, "first_transfer": {"ratio": 215}}


def mistakes(told):
    """What is wrong with the figures of --mistakes."""
    right = told["right"]["ratio"]
    found = []
    if right < 1.5:
        found.append(f"pinned memory is {right:.2f} times as fast as pageable")
    if told["arrived_pinned"]:
        found.append("memory handed to a process arrived pinned")
    if not 0.6 < told["handed_over"]["ratio"] < min(2, right):
        found.append(f"handed to a process: ratio {told['handed_over']['ratio']:.2f}")
    if not told["simulated"] and told["first_transfer"]["ratio"] < 2 * right:  # the simulator models no start-up
        found.append(f"start-up in the timing: ratio {told['first_transfer']['ratio']:.2f}, and {right:.2f} without")
    return found


def cells(bare, ours):
    """What is wrong with the cells without and with custash."""
    found = []

    def of(told, direction, memory, allocation):
        return next(cell for cell in told["cells"]
                    if (cell["direction"], cell["memory"], cell["allocation"]) == (direction, memory, allocation))

    if bare["custash"] is not None or ours["custash"] is None:
        found.append("custash serves in the wrong one of the two")
    for direction in ("h2d", "d2h"):
        for name, told in (("without", bare), ("with", ours)):
            speeds = [of(told, direction, memory, "cached")["gb_per_s"] for memory in ("pinned", "pageable")]
            if speeds[0] < 1.5 * speeds[1]:
                found.append(f"{direction}, {name} custash: pinned {speeds[0]:.1f} GB/s, pageable {speeds[1]:.1f}")
        pinning = [of(told, direction, "pinned", "cold")["allocation_ms"] for told in (bare, ours)]
        if pinning[1] > pinning[0] / 10:
            found.append(f"{direction}: a later pinned allocation takes {pinning[1]:.3f} ms, and {pinning[0]:.3f} without custash")
    return found


def planted():
    """Each mistake that does not show is found."""
    assert not mistakes(RIGHT)
    for path, value in ((("right", "ratio"), 1.1), (("arrived_pinned",), True), (("handed_over", "ratio"), 3.6),
                        (("first_transfer", "ratio"), 3.7)):
        told = copy.deepcopy(RIGHT)
        at = told
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = value
        assert len(mistakes(told)) >= 1, path
    both = {"custash": None, "cells": [{"direction": d, "memory": m, "allocation": a, "gb_per_s": 10, "allocation_ms": 4}
                                       for d in ("h2d", "d2h") for m in ("pinned", "pageable") for a in ("cached", "cold")]}
    assert len(cells(both, both)) == 7, cells(both, both)


def main():
    parser = argparse.ArgumentParser()
    for name in ("--program", "--library"):
        parser.add_argument(name, required=True, type=os.path.abspath)
    parser.add_argument("--driver", type=os.path.abspath)
    args = parser.parse_args()
    planted()

    def run(*words, preload):
        env = {**os.environ, **({"LD_PRELOAD": args.library} if preload else {}),
               **({"LD_LIBRARY_PATH": args.driver} if args.driver else {})}
        done = subprocess.run([args.program, "--json", *words], env=env, capture_output=True, text=True, timeout=200, check=False)
        if done.returncode == 1 and any(why in done.stderr for why in ("there is no CUDA driver", "NO_DEVICE")):
            print("no GPU")
            sys.exit(77)
        if done.returncode or done.stderr:
            sys.exit(f"{words}: exit status {done.returncode}\n{done.stderr}")
        return json.loads(done.stdout)

    found = []
    for preload in (False, True):
        told = run("--mistakes", preload=preload)
        print(f"{'with' if preload else 'without'} custash:",
              {name: round(told[name]["ratio"], 2) for name in ("first_transfer", "handed_over", "right")})
        found += mistakes(told)
    found += cells(run(*CELLS, preload=False), run(*CELLS, preload=True))
    print("\n".join(found) or "both mistakes show, and the right figures have neither")
    return 1 if found else 0


sys.exit(main())
