# SPDX-License-Identifier: MIT
"""Elementwise work and matrix products in CuPy, with its own pools or with both switched off (each
array is then a cudaMalloc and a cudaFree). Prints `ok cupy_MODE us=... checksum=...`; the checksum
must not depend on the mode or on what is preloaded.

  cupy_pools_off.py [--pools on|off] [--iterations 400]
"""

import argparse
import sys
import time
import zlib

try:
    import cupy
except ImportError:
    print("skip: CuPy is not installed")
    sys.exit(77)


def gpu_found():
    try:
        return cupy.cuda.runtime.getDeviceCount() > 0
    except cupy.cuda.runtime.CUDARuntimeError:
        return False


def start(pools):
    """The state and the weights."""
    if pools == "off":
        cupy.cuda.set_allocator(None)
        cupy.cuda.set_pinned_memory_allocator(None)
    random = cupy.random.RandomState(1)
    state = random.standard_normal((768, 768), dtype=cupy.float32)
    return state, random.standard_normal((768, 768), dtype=cupy.float32) / 28


def iterate(state, weights):
    product = state @ weights
    mixed = cupy.tanh(product) * 0.5 + state
    centred = mixed - mixed.mean(axis=1, keepdims=True)
    return centred / (cupy.abs(centred).max() + 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pools", choices=("on", "off"), default="off")
    parser.add_argument("--iterations", type=int, default=400)
    args = parser.parse_args()
    if not gpu_found():
        print("skip: CuPy sees no GPU")
        return 77
    state, weights = start(args.pools)
    for _ in range(50):  # kernels are compiled and loaded
        state = iterate(state, weights)
    cupy.cuda.Device().synchronize()

    begin = time.perf_counter()
    for _ in range(args.iterations):
        state = iterate(state, weights)
    cupy.cuda.Device().synchronize()
    us = (time.perf_counter() - begin) * 1e6 / args.iterations

    checksum = zlib.crc32(cupy.asnumpy(state).tobytes())
    print(f"ok cupy_pools_{args.pools} us={us:.1f} checksum={checksum:08x} "
          f"sum={float(state.sum())!r}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
