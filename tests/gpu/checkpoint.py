# SPDX-License-Identifier: MIT
"""custash beside NVIDIA's checkpoints (cuCheckpointProcess…, driver 570 and later), on a GPU.

  checkpoint.py --build build [--mib 1024]

A program fills 1 GiB. Another process locks it, takes a checkpoint, restores and unlocks it, and the program compares
its contents. Three times over: without custash, awake under custash, and asleep by `custash sleep`. Prints a line of
JSON for each: the MiB left on the device at each step (beyond what was in use before), the ms and the result of each
call, and how many bytes were wrong. Ends within a minute. Exits with 0, with 1 where contents are wrong or a process
fails, with 77 where there is no GPU or the driver has no such functions.
"""

import argparse
import ctypes
import json
import os
import subprocess
import sys
import threading
import time

from device_memory import used_mib

MIB = 1 << 20
MOST_SECONDS = 55
VERBS = ("Lock", "Checkpoint", "Restore", "Unlock")
LOCK_MS = 5000  # how long the driver waits for the process


class Skip(Exception):
    pass


def driver():
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise Skip(str(error)) from error


# ---- The program: `checkpoint.py --program MIB`. Speaks with its parent in lines.

def program(mib):
    cuda = driver()
    answer = ctypes.c_int()

    def check(code):
        if code:
            raise RuntimeError(f"CUDA error {code}")

    if cuda.cuInit(0):
        raise Skip("no device")
    context, at = ctypes.c_void_p(), ctypes.c_uint64()
    check(cuda.cuDeviceGet(ctypes.byref(answer), 0))
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), answer))
    check(cuda.cuCtxSetCurrent(context))
    size, piece = mib * MIB, 16 * MIB
    check(cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(size)))
    patterns = [bytes([i % 251 + 1]) * piece for i in range(size // piece)]
    for i, pattern in enumerate(patterns):
        check(cuda.cuMemcpyHtoD_v2(ctypes.c_uint64(at.value + i * piece), pattern, ctypes.c_size_t(piece)))
    check(cuda.cuCtxSynchronize())
    print(json.dumps({"ready": True}), flush=True)
    for _ in sys.stdin:  # each line asks for the contents
        start, wrong, host = time.perf_counter(), 0, ctypes.create_string_buffer(piece)
        first_ms = None
        for i, pattern in enumerate(patterns):
            check(cuda.cuMemcpyDtoH_v2(host, ctypes.c_uint64(at.value + i * piece), ctypes.c_size_t(piece)))
            first_ms = first_ms or round((time.perf_counter() - start) * 1000, 1)
            wrong += host.raw != pattern
        print(json.dumps({"wrong_pieces": wrong, "first_copy_ms": first_ms}), flush=True)
    return 0


# ---- The other process: `checkpoint.py --helper PID`. A line names a call; the answer tells what came of it.

def helper(pid):
    cuda = driver()
    cuda.cuInit(0)  # makes no context
    for line in sys.stdin:
        verb = line.strip()
        # CUcheckpointLockArgs: unsigned timeoutMs, and zeros. The arguments of the others are zeros.
        args = (ctypes.c_uint32 * 16)(LOCK_MS if verb == "Lock" else 0)
        state = ctypes.c_int(-1)
        start = time.perf_counter()
        code = getattr(cuda, "cuCheckpointProcess" + verb)(ctypes.c_int(pid), args)
        took = (time.perf_counter() - start) * 1000
        cuda.cuCheckpointProcessGetState(ctypes.c_int(pid), ctypes.byref(state))
        print(json.dumps({"code": code, "ms": round(took, 1), "state": state.value}), flush=True)
    return 0


# ---- The parent.

started = []


def start(*arguments, **environment):
    process = subprocess.Popen([sys.executable, os.path.abspath(__file__), *map(str, arguments)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True, env=dict(os.environ, **environment))
    started.append(process)
    return process


def hear(process):
    line = process.stdout.readline()
    if line:
        return json.loads(line)
    code = process.wait()
    if code == 77:
        raise Skip("no GPU")
    raise RuntimeError(f"a process has ended: {code}")


def ask(process, word):
    process.stdin.write(word + "\n")
    process.stdin.flush()
    return hear(process)


def end(process):
    process.stdin.close()
    code = process.wait()
    started.remove(process)
    return code


def run(args, name, preload, asleep):
    before = used_mib()

    def left():
        return None if before is None else round(used_mib() - before)

    preloaded = {"LD_PRELOAD": os.path.abspath(os.path.join(args.build, "interpose", "libcustash.so"))} if preload else {}
    of = start("--program", args.mib, **preloaded)
    hear(of)
    line = {"program": name, "left_mib": {"filled": left()}, "calls": {}}
    if asleep:
        said = subprocess.run([os.path.join(args.build, "tools", "custash"), "sleep", str(of.pid)], capture_output=True,
                              text=True, check=False)
        line["said"] = (said.stdout + said.stderr).strip()
        line["left_mib"]["asleep"] = left()
    by = start("--helper", of.pid)
    good = not asleep or said.returncode == 0
    for verb in VERBS:
        answer = ask(by, verb)
        line["calls"][verb] = answer
        line["left_mib"][verb] = left()
        if answer["code"] and verb == "Checkpoint":  # nothing to restore; Unlock lets the program go on
            line["calls"]["Unlock"] = ask(by, "Unlock")
            break
        if answer["code"]:
            if verb != "Lock":  # the program stays locked
                good = False
                of.kill()
                of.wait()
            break
    if of.poll() is None:
        line.update(ask(of, "contents"))
        line["left_mib"]["after"] = left()
    line["exit"] = end(of)
    good = good and line["exit"] == 0 and line.get("wrong_pieces") == 0
    end(by)
    print(json.dumps(line), flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", help="the folder of a build")
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--program", type=int, metavar="MIB", help=argparse.SUPPRESS)
    parser.add_argument("--helper", type=int, metavar="PID", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.program:
        return program(args.program)
    if args.helper:
        return helper(args.helper)
    if not hasattr(driver(), "cuCheckpointProcessLock"):
        raise Skip("the driver has no cuCheckpointProcessLock")

    def give_up():
        print(json.dumps({"given_up_after_s": MOST_SECONDS}), flush=True)
        for each in list(started):
            each.kill()

    watch = threading.Timer(MOST_SECONDS, give_up)
    watch.daemon = True
    watch.start()
    try:
        return 0 if all([run(args, *each) for each in (("without custash", False, False), ("awake", True, False),
                                                       ("asleep", True, True))]) else 1
    finally:
        for each in list(started):
            each.kill()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Skip as skip:
        print("skip:", skip, file=sys.stderr if "--program" in sys.argv else sys.stdout)
        sys.exit(77)
