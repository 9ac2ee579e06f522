# SPDX-License-Identifier: MIT
"""How much of what NVML reports for a process custash counts, kind by kind, on a GPU.

  explained.py --build build

An actor under custash allocates some 512 MiB of one kind after the other. After each, `custash top --json` must explain NVML's
figure for the process to 2 %, less what was there before the first (the context and its code). `imported` shows for which process
NVML counts memory that one has allocated and another has mapped. Lines: `ok KIND …`, `FAIL KIND why`. Exit status 1 if one failed,
77 without a GPU, or if NVML does not list the process, as in a container.
"""
import argparse
import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../process"))
import program  # noqa: E402
from actor import Actor  # noqa: E402

MIB = 1 << 20
BIG = 512 * MIB


def look(command, actor):
    """The actor's device; the service measures at each question."""
    time.sleep(0.3)
    done = subprocess.run([command, "top", "--once", "--json"], capture_output=True, text=True, timeout=60, check=True)
    its = next(each for each in json.loads(done.stdout)["processes"] if each["pid"] == actor.pid)
    return its["devices"][0], {each["kind"]: each["live_bytes"] for each in its["passed"] if each["live"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True, type=os.path.abspath)
    args = parser.parse_args()
    if not os.path.exists("/dev/nvidiactl"):
        print("skip: there is no GPU here")
        return 77
    program.PATHS.library = f"{args.build}/interpose/libcustash.so"
    program.PATHS.programs = f"{args.build}/tests/process"
    command = f"{args.build}/tools/custash"
    failed = 0
    with Actor() as actor, Actor() as other:
        for each in (actor, other):
            each.ok(f"alloc {MIB}")
        first, _ = look(command, actor)
        if first["nvml_bytes"] is None:
            print("skip: NVML does not list the process")
            return 77
        print(f"first nvml={first['nvml_bytes']} unexplained={first['unexplained_bytes']}", flush=True)

        def judge(kind, *lines):
            nonlocal failed
            numbers = [actor.number(line) for line in lines]
            device, kinds = look(command, actor)
            rest = device["unexplained_bytes"] - first["unexplained_bytes"]
            holds = abs(rest) <= device["nvml_bytes"] // 50
            failed += not holds
            print(f"{'ok' if holds else 'FAIL'} {kind} nvml={device['nvml_bytes']} more_unexplained={rest} live={kinds}", flush=True)
            return numbers

        judge("plain", f"alloc {BIG}")
        handle, = judge("handle", f"create {BIG} 0 1")
        judge("mapped", f"map {handle}")
        judge("array", "array 16384 8192 1")
        judge("mipmap", "levels 16384 4096 0 0 8")
        judge("graph", f"graph_memory {BIG}")
        judge("managed", f"alloc_managed {BIG}")  # on neither side
        before, _ = look(command, other)
        descriptor = actor.ok(f"export_fd {handle}")[0]
        mine = other.number(f"import_fd {actor.pid} {descriptor} {BIG}")
        other.ok(f"map {mine}")
        after, kinds = look(command, other)
        rest = after["unexplained_bytes"] - before["unexplained_bytes"]
        holds = kinds.get("imported") == BIG and abs(rest) <= after["nvml_bytes"] // 50
        failed += not holds
        print(f"{'ok' if holds else 'FAIL'} imported nvml_grew={after['nvml_bytes'] - before['nvml_bytes']} live={kinds}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
