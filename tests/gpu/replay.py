# SPDX-License-Identifier: MIT
"""Replays traces on the GPU through custash, cuMemAlloc, cuMemAllocAsync and, where PyTorch is installed, its
allocator with and without expandable segments, one after the other, and sets the results side by side.
Exit 1 when a replay goes wrong, 77 without a GPU.

  replay.py --command build/tools/custash [--conf KEY:VALUE,...] [--repeats 3] [--json FILE] TRACE...

Driver time is the allocator's own calls; PyTorch's cannot be told from outside and is left out. The whole
replay's time has a memset after each allocation in it, for PyTorch also what Python takes.
"""
import argparse
import ctypes
import json
import lzma
import os
import statistics
import subprocess
import sys
import time

THROUGH = ("custash", "driver", "pool")
PYTORCH = {"PyTorch": "", "PyTorch expandable": "expandable_segments:True"}
TOUCHED = 512


def events(path):
    """(op, id, size, stream) of each device event."""
    opened = lzma.open if open(path, "rb").read(6) == b"\xfd7zXZ\0" else open
    with opened(path, "rt") as file:
        for line in file:
            if not line.startswith("#"):
                _, _, op, block, size, stream = line.split()
                if op in "af":
                    yield op, int(block), int(size), stream


def replay_pytorch(path):
    """In a process of its own: prints figures as JSON."""
    try:
        import torch  # pylint: disable=import-outside-toplevel
    except ImportError:
        print(json.dumps({"skip": "no PyTorch"}))
        return
    if not torch.cuda.is_available():
        print(json.dumps({"skip": "PyTorch finds no GPU"}))
        return
    torch.cuda.init()
    memset = ctypes.CDLL("libcuda.so.1").cuMemsetD8Async
    memset.argtypes = (ctypes.c_ulonglong, ctypes.c_ubyte, ctypes.c_size_t, ctypes.c_void_p)
    every = list(events(path))
    streams = {name: 0 if name == "-" else torch.cuda.Stream() for *_, name in every}
    handles = {name: getattr(stream, "cuda_stream", 0) for name, stream in streams.items()}
    live, in_use, peak, wrong = {}, 0, 0, 0
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for op, block, size, name in every:
        if op == "a":
            live[block] = torch.cuda.caching_allocator_alloc(size, 0, handles[name])
            wrong += memset(live[block], 0, min(size, TOUCHED), handles[name]) != 0
            in_use += size
            peak = max(peak, in_use)
        else:
            torch.cuda.caching_allocator_delete(live.pop(block))
            in_use -= size
    torch.cuda.synchronize()
    elapsed = time.perf_counter() - begin
    stats = torch.cuda.memory_stats()
    held = stats["reserved_bytes.all.peak"]
    print(json.dumps({"peak_in_use_bytes": peak, "peak_held_bytes": held, "utilisation": held / peak,
                      "elapsed_ns": int(elapsed * 1e9), "sound": wrong == 0, "fits": True,
                      "num_alloc_retries": stats["num_alloc_retries"]}))


def run(command, **environment):
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True,
                          timeout=600, check=False)
    if "no CUDA driver" in done.stderr:
        print("skip: no CUDA driver here")
        sys.exit(77)
    if not done.stdout.strip():
        return {"error": done.stderr.strip()[-500:]}
    told = json.loads(done.stdout)
    return told[0] if isinstance(told, list) else told


def once(who, path, args):
    if who in PYTORCH:
        return run([args.python, os.path.abspath(__file__), "--pytorch", path], PYTORCH_CUDA_ALLOC_CONF=PYTORCH[who])
    return run([args.command, "replay", "--backend", "cuda", "--json", "--through", who, "--conf", args.conf, path])


def row(who, runs):
    last = runs[-1]
    if "skip" in last or "error" in last:
        return f"{who:20} {last.get('skip') or 'ERROR ' + last['error']}"
    driver = [r["memory_call_time_ns"] / 1e6 for r in runs if "memory_call_time_ns" in r]
    calls = sum(c["calls"] for name, c in last.get("driver_calls", {}).items() if name.startswith("cuMem"))
    return (f"{who:20} {last['peak_held_bytes'] / 2**20:10.1f} {last['utilisation']:11.4f} "
            f"{statistics.median(driver) if driver else float('nan'):12.2f} {calls or '-':>10} "
            f"{statistics.median(r['elapsed_ns'] / 1e6 for r in runs):12.1f} {last.get('pages_moved', '-'):>8}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", help="the command custash")
    parser.add_argument("--conf", default="", help="options of custash")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--python", default=sys.executable, help="a Python that has PyTorch")
    parser.add_argument("--json", help="write every figure here")
    parser.add_argument("--pytorch", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("traces", nargs="+")
    args = parser.parse_args()
    if args.pytorch:
        replay_pytorch(args.traces[0])
        return
    found, good = {}, True
    for path in args.traces:
        each = {who: [] for who in (*THROUGH, *PYTORCH)}
        for _ in range(args.repeats):  # in turns: a machine's noise comes in stretches
            for who, runs in each.items():
                runs.append(once(who, path, args))
        found[path] = each
        told = [r for runs in each.values() for r in runs]
        good &= not any("error" in r for r in told) and all(r["sound"] and r["fits"] for r in told if "fits" in r)
        peak = each["custash"][-1].get("peak_in_use_bytes", 0)
        print(f"{os.path.basename(path)}: peak in use {peak / 2**20:.1f} MiB, medians of {args.repeats}")
        print(f"{'':20} {'MiB held':>10} {'utilisation':>11} {'memory ms':>12} {'calls':>10} {'whole ms':>12} "
              f"{'moved':>8}")
        for who, runs in each.items():
            print(row(who, runs))
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)
    sys.exit(0 if good else 1)


main()
