# SPDX-License-Identifier: MIT
"""Programs with custash linked in, beside NVIDIA's shared and static runtime and a plug-in's shared one: each says
what it says without custash, and custash serves it. Exit 77 without a GPU.

  linked.py --programs build/tests/gpu
"""
import argparse
import os
import shutil
import subprocess
import sys

TOOLKIT = "/usr/local/cuda/lib64"
ALLOCATIONS = 1000  # the program makes a few more


def lines_of(*command):
    """What it says, and how many allocations custash has served in it (negative: it is not there)."""
    env = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "CUSTASH_CONF")}
    env["LD_LIBRARY_PATH"] = ":".join(filter(None, [env.get("LD_LIBRARY_PATH"), TOOLKIT]))
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        sys.exit(f"FAIL {command[0]}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    lines = done.stdout.splitlines()
    return [line for line in lines if not line.startswith("#")], int(lines[-1].split()[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", default="build/tests/gpu", type=os.path.abspath)
    programs = parser.parse_args().programs
    if not shutil.which("nvidia-smi") or subprocess.run(["nvidia-smi", "-L"], capture_output=True, check=False).returncode:
        print("skip: there is no GPU here")
        sys.exit(77)
    failed = 0
    for name, bare, command in (
            ("shared", "linked_shared_bare", ["linked_shared_custash"]),
            ("static", "linked_static_bare", ["linked_static_custash"]),
            ("plugin", "linked_shared_bare", ["linked_host_custash", f"{programs}/liblinked_plugin.so"])):
        expected, not_there = lines_of(f"{programs}/{bare}")
        said, served = lines_of(f"{programs}/{command[0]}", *command[1:])
        good = said == expected and not_there < 0 and served >= ALLOCATIONS
        print("ok" if good else "FAIL", name, f"lines={len(said)} served={served}")
        for without, with_custash in zip(expected, said):
            if without != with_custash:
                print(f"    without custash \"{without}\", with it \"{with_custash}\"")
        failed += not good
    sys.exit(failed != 0)


main()
