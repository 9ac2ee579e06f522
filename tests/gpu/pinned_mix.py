# SPDX-License-Identifier: MIT
"""How much pinned memory is held for a mix of buffers: sizes drawn log-uniformly from 4 KiB to 1 GiB.

First a set that lives at once, then churn: buffers end and others come, the set's size staying as it
is. Through cudaMallocHost (what custash holds, where it is preloaded) or, with --who torch, through
PyTorch's own cache. One line each: bytes asked for, bytes held, their ratio, at the end and at the
peaks.

  pinned_mix.py [--who runtime|torch] [--gib 20] [--seed 1] [--churn 200] [--quick]
"""
import argparse
import ctypes
import glob
import math
import random
import sys
import time

GIB = 1 << 30
SMALLEST = 4 << 10
LARGEST = GIB


def available():
    with open("/proc/meminfo", encoding="ascii") as file:
        fields = dict(line.split(":") for line in file)
    return int(fields["MemAvailable"].split()[0]) << 10


def page_rounded(size):
    return (size + 4095) // 4096 * 4096


class Stat(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_int64)]


class Runtime:
    """cudaMallocHost; held: custash's counters, or the pages of a driver that rounds to those."""

    def __init__(self):
        names = ["libcudart.so", "libcudart.so.13", "libcudart.so.12",
                 *glob.glob("/usr/local/cuda/lib64/libcudart.so*")]
        for name in names:
            try:
                self.cuda = ctypes.CDLL(name)
                break
            except OSError:
                continue
        else:
            print("skip: no shared CUDA runtime")
            sys.exit(77)
        # By the global scope, where a preloaded library comes first.
        everything = ctypes.CDLL(None)
        self.malloc = getattr(everything, "cudaMallocHost", self.cuda.cudaMallocHost)
        self.free_host = getattr(everything, "cudaFreeHost", self.cuda.cudaFreeHost)
        for function, types in ((self.malloc, [ctypes.c_void_p, ctypes.c_size_t]),
                                (self.free_host, [ctypes.c_void_p])):
            function.argtypes = types
        self.stats = getattr(everything, "custash_host_memory_stats", None)
        self.pages = self.peak = 0
        count = ctypes.c_int()
        if self.cuda.cudaGetDeviceCount(ctypes.byref(count)) != 0 or count.value == 0:
            print("skip: no GPU")
            sys.exit(77)

    def alloc(self, size):
        pointer = ctypes.c_void_p()
        code = self.malloc(ctypes.byref(pointer), size)
        if code != 0:
            raise MemoryError(f"cudaMallocHost({size}): error {code}")
        self.pages += page_rounded(size)
        self.peak = max(self.peak, self.pages)
        return pointer, size

    def free(self, buffer):
        pointer, size = buffer
        code = self.free_host(pointer)
        if code != 0:
            raise RuntimeError(f"cudaFreeHost: error {code}")
        self.pages -= page_rounded(size)

    def held(self):
        if self.stats is None:
            return self.pages, self.peak
        values = (Stat * 100)()
        count = ctypes.c_size_t(100)
        if self.stats(values, ctypes.byref(count)) != 0:
            return self.pages, self.peak
        all_values = {values[i].name.decode(): values[i].value for i in range(count.value)}
        return all_values["allocated_bytes.current"], all_values["allocated_bytes.peak"]


class Torch:
    """PyTorch's cache of pinned memory."""

    def __init__(self):
        try:
            import torch
        except ImportError:
            print("skip: PyTorch is not installed")
            sys.exit(77)
        if not torch.cuda.is_available():
            print("skip: PyTorch sees no GPU")
            sys.exit(77)
        torch.cuda.init()
        self.torch = torch

    def alloc(self, size):
        return [self.torch.empty(size, dtype=self.torch.uint8, pin_memory=True)]

    def free(self, buffer):
        buffer.clear()

    def held(self):
        stats = self.torch.cuda.host_memory_stats()
        return stats["allocated_bytes.current"], stats["allocated_bytes.peak"]


class Mix:
    def __init__(self, cache, target, seed):
        self.cache = cache
        self.target = target
        self.random = random.Random(seed)
        self.live = []
        self.asked = self.peak = 0

    def size(self):
        low, high = math.log(SMALLEST), math.log(min(LARGEST, self.target // 16))
        return int(math.exp(self.random.uniform(low, high)))

    def add(self):
        size = self.size()
        self.live.append((self.cache.alloc(size), size))
        self.asked += size
        self.peak = max(self.peak, self.asked)

    def remove(self):
        at = self.random.randrange(len(self.live))
        self.live[at], self.live[-1] = self.live[-1], self.live[at]
        buffer, size = self.live.pop()
        self.cache.free(buffer)
        self.asked -= size

    def tell(self, who, what, seconds):
        held, held_peak = self.cache.held()
        print(f"ok pinned_mix_{who}_{what} asked={self.asked} held={held} "
              f"ratio={held / self.asked:.5f} peak_asked={self.peak} peak_held={held_peak} "
              f"peak_ratio={held_peak / self.peak:.5f} buffers={len(self.live)} ms={seconds * 1e3:.0f}",
              flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--who", choices=("runtime", "torch"), default="runtime")
    parser.add_argument("--gib", type=float, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--churn", type=int, default=200, help="buffers that end")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    if args.quick:
        args.gib, args.churn = min(args.gib, 4), min(args.churn, 50)

    cache = Torch() if args.who == "torch" else Runtime()
    # A cache that rounds to powers of two takes nearly twice what is asked for.
    target = min(int(args.gib * GIB), available() // 3)
    mix = Mix(cache, target, args.seed)
    start = time.monotonic()
    while mix.asked < target:
        mix.add()
    mix.tell(args.who, "live", time.monotonic() - start)

    start = time.monotonic()
    for _ in range(args.churn):
        mix.remove()
        while mix.asked < target - LARGEST // 2:
            mix.add()
    mix.tell(args.who, "churn", time.monotonic() - start)
    return 0


if __name__ == "__main__":
    sys.exit(main())
