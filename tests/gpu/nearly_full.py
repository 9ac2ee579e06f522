# SPDX-License-Identifier: MIT
"""Finds how full a GPU may be before a trace no longer fits, with cuMemAlloc and through custash.

It takes device memory away until the replay only just fits with cuMemAlloc. Then it checks that the replay fits
through custash, and with how much less. The exit status is 1 if it does not fit, 77 without a GPU.

  nearly_full.py --command build/tools/custash [--conf KEY:VALUE,...] TRACE...

It prints the memory left, with the context's own, to 2 MiB.
"""
import argparse
import ctypes
import json
import os
import subprocess
import sys

MIB = 1 << 20
STEP = 2 * MIB


class Ballast:
    """Memory of device 0 that nobody else can have."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        for call, *words in (("cuInit", 0), ("cuDeviceGet", ctypes.byref(device), 0),
                             ("cuDevicePrimaryCtxRetain", ctypes.byref(context), device), ("cuCtxSetCurrent", context)):
            self.call(call, *words)
        self.blocks = []

    def call(self, name, *words):
        result = getattr(self.cuda, name)(*words)
        if result != 0:
            raise OSError(f"{name} answers {result}")

    def free_bytes(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value

    def drop(self):
        while self.blocks:
            self.call("cuMemFree_v2", self.blocks.pop())

    def leave(self, size):
        """So much of the device, to 2 MiB."""
        while self.free_bytes() < size and self.blocks:
            self.call("cuMemFree_v2", self.blocks.pop())
        piece = 32 << 30
        while (surplus := self.free_bytes() - size) >= STEP and piece >= STEP:
            block = ctypes.c_ulonglong()
            take = min(piece, surplus // STEP * STEP)
            if self.cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(take)) == 0:
                self.blocks.append(block)
            else:
                piece //= 2


def replayed(args, through, trace):
    done = subprocess.run([args.command, "replay", "--backend", "cuda", "--json", "--through", through, "--conf",
                           args.conf, trace], capture_output=True, text=True, timeout=300, check=False)
    if not done.stdout.strip():  # not even its context fits
        return {"fits": False}
    return json.loads(done.stdout)[0]


def smallest(fits, enough, step):
    """The least, to a step, of what fits; `enough` does."""
    too_small = enough
    while fits(too_small):
        enough, too_small, step = too_small, too_small - step, 2 * step
    while enough - too_small > STEP:
        middle = too_small + (enough - too_small) // (2 * STEP) * STEP
        if fits(middle):
            enough = middle
        else:
            too_small = middle
    return enough


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--command", required=True, type=os.path.abspath)
    parser.add_argument("--conf", default="")
    parser.add_argument("traces", nargs="+")
    args = parser.parse_args()
    try:
        ballast = Ballast()
    except OSError as error:
        print(f"skip: {error}")
        return 77
    failed = 0
    for trace in args.traces:
        name = os.path.basename(trace)

        def fits(left, through, path=trace):
            ballast.leave(left)
            return replayed(args, through, path)["fits"]

        ballast.drop()
        easy = replayed(args, "driver", trace)
        if not easy["fits"]:
            print(f"FAIL {name} does not fit at all: is the device another's?")
            return 1
        held = easy["peak_held_bytes"] // STEP * STEP
        bare = smallest(lambda left: fits(left, "driver"), held + 2048 * MIB, 1024 * MIB)
        ok = fits(bare, "custash")
        failed += not ok
        ours = smallest(lambda left: fits(left, "custash"), bare if ok else bare + 512 * MIB, STEP)
        print(f"{'ok' if ok else 'FAIL'} {name} MiB left to the process: bare {bare // MIB}, custash {ours // MIB}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
