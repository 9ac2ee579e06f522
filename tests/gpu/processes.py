# SPDX-License-Identifier: MIT
"""Several processes at a GPU: memory shared by handles, neighbours.

  python3 tests/gpu/processes.py --library libcustash.so --programs FOLDER_OF_ACTOR

Runs tests/process/ipc.py on the real driver (through custash on both backings; bare too, for comparison:
there small blocks share an allocation), and lets one process use what another caches. The last line is
the verdict.
"""
import argparse
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "process"))

import program  # noqa: E402
from actor import Actor  # noqa: E402

MIB = 1 << 20


def neighbours():
    """A caches 70 % of what is free, B wants 60 %: given with neighbours, out of memory without."""
    results = []
    for backing in ("vmm", "driver"):
        for conf, wanted in (("neighbours:on", 0), ("neighbours:off", 2)):
            with Actor(CUSTASH_CONF=f"backing:{backing},{conf}") as first, \
                 Actor(CUSTASH_CONF=f"backing:{backing},{conf}") as second:
                free = int(first.ok("info")[0])
                first.ok(f"alloc {free * 7 // 10 // MIB * MIB}")
                first.ok("free 0")
                code = second.code(f"alloc {free * 6 // 10 // MIB * MIB}")
                results.append(code == wanted)
                print(f"neighbours, {backing}, {conf}: {code}, expected {wanted}")
    return all(results)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--programs", required=True)
    args = parser.parse_args()
    program.PATHS.library = os.path.abspath(args.library)
    program.PATHS.programs = os.path.abspath(args.programs)
    probe = subprocess.run([os.path.join(args.programs, "actor")], input="quit\n", capture_output=True, text=True,
                           check=False)
    if probe.returncode == 77:
        print("no GPU")
        sys.exit(77)
    script = os.path.join(os.path.dirname(program.__file__), "ipc.py")
    verdict = {}
    for name in ("OnPages", "OnPlainMemory", "Bare"):
        done = subprocess.run([sys.executable, script, "--library", program.PATHS.library, "--programs",
                               program.PATHS.programs, "--only", name],
                              capture_output=True, text=True, timeout=500, check=False)
        print(f"=== {name}\n{done.stderr[-6000:]}", flush=True)
        verdict[name] = done.returncode == 0
    verdict["neighbours"] = neighbours()
    print(" ".join(f"{name}:{'ok' if fine else 'FAILED'}" for name, fine in verdict.items()))
    sys.exit(0 if all(fine for name, fine in verdict.items() if name != "Bare") else 1)


if __name__ == "__main__":
    main()
