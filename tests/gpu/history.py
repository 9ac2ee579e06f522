# SPDX-License-Identifier: MIT
"""Statistics and history on a GPU, beside PyTorch's own. Exit 1 when a check fails, 77 without a GPU.

  history.py --preload libcustash.so --command custash [--out FOLDER] [--steps 20]

1. The same requests to PyTorch's native allocator and to custash: torch.cuda.memory_stats against
   custash_memory_stats, key by key, where the meaning can be equal.
2. A snapshot of custash opened by torch.cuda._memory_viz.
3. GPT-2 trained with custash's history off, on, and without lines of Python: the same losses, what a step
   costs, and the report.
"""

import argparse
import ctypes
import json
import os
import pathlib
import pickle
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
MIB = 1 << 20
# Sizes that both round alike: size classes of custash that are multiples of 512, and multiples of 2 MiB
# from 10 MiB on, which PyTorch gives a segment of exactly their size.
SIZES = (512, 1024, 2048, 4096, 5120, 8192, 65536, 98304, 524288, MIB, 12 * MIB, 20 * MIB, 50 * MIB, 128 * MIB)
EQUAL = ("allocation", "active", "requested_bytes", "allocated_bytes", "active_bytes")
POOLS = ("all", "small_pool", "large_pool")
# Which blocks are freed after which allocation, and what is allocated: (allocate size) or (free nth).
SCRIPT = [("+", size) for size in SIZES] + [("-", i) for i in (0, 3, 11, 13)] + \
         [("+", size) for size in (512, 65536, 128 * MIB, 12 * MIB)] + [("-", i) for i in (1, 2, 10, 14, 15)]

TORCH = """
import json, sys, torch
script = json.loads(sys.argv[1])
torch.cuda.init(); torch.empty(0, device="cuda")
blocks = []
for op, value in script:
    if op == "+":
        blocks.append(torch.cuda.caching_allocator_alloc(value, 0))
    else:
        torch.cuda.caching_allocator_delete(blocks[value])
print(json.dumps({k: v for k, v in torch.cuda.memory_stats(0).items()}))
"""

CUSTASH = """
import ctypes, json, os, sys
script = json.loads(sys.argv[1])
lib = ctypes.CDLL(os.environ["CUSTASH_LIBRARY"])
class Stat(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_int64)]
blocks = []
for op, value in script:
    if op == "+":
        p = ctypes.c_void_p()
        assert lib.custash_malloc_async(ctypes.byref(p), 0, ctypes.c_size_t(value), None) == 0
        blocks.append(p)
    else:
        assert lib.custash_free_async(blocks[value], None) == 0
count = ctypes.c_size_t()
assert lib.custash_memory_stats(0, None, ctypes.byref(count)) == 0
stats = (Stat * count.value)()
assert lib.custash_memory_stats(0, stats, ctypes.byref(count)) == 0
print(json.dumps({s.name.decode(): s.value for s in stats}))
"""

failures = 0


def verdict(ok, name, text=""):
    global failures
    failures += 0 if ok else 1
    print(f"{'ok' if ok else 'FAIL'} {name} {text}".rstrip(), flush=True)


def python(code, *words, **env):
    done = subprocess.run([sys.executable, "-c", code, *words], env={**os.environ, **env}, text=True,
                          capture_output=True, timeout=300, check=False)
    if done.returncode != 0:
        verdict(False, "run", done.stderr[-1500:])
        return None, done.stderr
    return done.stdout, done.stderr


def compare_statistics(library):
    script = json.dumps(SCRIPT)
    theirs, _ = python(TORCH, script)
    ours, table = python(CUSTASH, script, LD_PRELOAD=library, CUSTASH_LIBRARY=library)
    if theirs is None or ours is None:
        return
    theirs, ours = json.loads(theirs), json.loads(ours)
    print(table)
    missing = sorted(set(theirs) - set(ours))
    verdict(not missing, "every_key", f"PyTorch has {len(theirs)}, missing here: {missing}")
    differing = []
    compared = 0
    for name in EQUAL:
        for pool in POOLS:
            for part in ("current", "peak", "allocated", "freed"):
                key = f"{name}.{pool}.{part}"
                compared += 1
                if theirs[key] != ours[key]:
                    differing.append(f"{key} {theirs[key]} {ours[key]}")
    for key in ("num_ooms", "num_alloc_retries", "max_split_size", "oversize_allocations.current"):
        compared += 1
        if theirs[key] != ours[key]:
            differing.append(f"{key} {theirs[key]} {ours[key]}")
    verdict(not differing, "same_values", f"{compared} keys; key, PyTorch's, custash's: {differing}")
    for key in ("reserved_bytes.all.current", "segment.all.current", "inactive_split_bytes.all.current",
                "num_device_alloc"):
        print(f"info by_design {key} torch={theirs[key]} custash={ours[key]}")


def open_with_torch(path):
    code = """
import pickle, sys
from torch.cuda import _memory_viz as viz
data = pickle.load(open(sys.argv[1], "rb"))
same = lambda text: text
print(len(viz.segsum(data)), len(viz.trace(data)), len(viz.segments(data, same)), len(viz.memory(data, same)),
      len(viz.trace_plot(data)), len(viz.segment_plot(data)))
print(viz.segsum(data)[-1200:])
"""
    said, _ = python(code, str(path))
    if said is not None:
        lines = said.splitlines()
        verdict(all(int(n) > 100 for n in lines[0].split()), "memory_viz", lines[0])
        print("\n".join(lines[1:]))


def train(args, name, wrap, **env):
    command = [*wrap, sys.executable, str(HERE / "train_gpt2.py"), "--steps", str(args.steps)]
    done = subprocess.run(command, env={**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1", **env}, text=True,
                          capture_output=True, timeout=400, cwd=HERE, check=False)
    if done.returncode != 0:
        verdict(False, "train_" + name, done.stderr[-1500:])
        return None
    figures = json.loads(done.stdout.strip().splitlines()[-1])
    print(f"info train {name} ms_a_step={figures['step_ms_median']:.1f}", flush=True)
    return figures


def train_each(args):
    out = pathlib.Path(args.out)
    run = [args.command, "run", "--lib", args.preload]
    # The device's memory comes from custash alone: PyTorch's own cache is off.
    modes = {
        "off": run,
        "on": [*run, "--record-history", str(out / "gpt2.html")],
        "on_json": [*run, "--record-history", str(out / "gpt2.json")],
        "on_pickle": [*run, "--record-history", str(out / "gpt2.pickle")],
        "off_again": run,
    }
    runs = {name: train(args, name, [*wrap, "--"]) for name, wrap in modes.items()}
    if any(figures is None for figures in runs.values()):
        return
    verdict(len({json.dumps(r["losses"]) for r in runs.values()}) == 1, "same_losses")
    for file in sorted(out.iterdir()):
        print(f"info file {file.name} {file.stat().st_size >> 10} KiB")
    snapshot = json.loads((out / "gpt2.json").read_text())
    events = snapshot["history"]["events"]
    sites = [s for s in snapshot["history"]["sites"] if s["memory"] == "device"]
    lined = sum(s["allocations"] for s in sites
                if s["stack"] >= 0 and any(f["file"] and not f["module"] for f in map(snapshot["frames"].__getitem__, snapshot["stacks"][s["stack"]])))
    total = sum(s["allocations"] for s in sites)
    verdict(len(events) > 1000, "events", f"{len(events)} sites={len(sites)} with_python={lined / total:.3f}")
    peak = max(sites, key=lambda s: s["at_peak_bytes"])
    print("info peak", peak["at_peak_bytes"] >> 20, "MiB by",
          [snapshot["frames"][f]["name"] + ":" + snapshot["frames"][f]["file"].rsplit("/", 1)[-1]
           for f in snapshot["stacks"][peak["stack"]]][:10])
    print("info callers", {s["caller"] for s in sites})
    open_with_torch(out / "gpt2.pickle")
    with open(out / "gpt2.pickle", "rb") as file:
        pickle.load(file)
    for name in ("gpt2.json", "gpt2.pickle"):
        done = subprocess.run([args.command, "report", str(out / name), "-o", str(out / (name + ".html"))],
                              capture_output=True, text=True, timeout=120, check=False)
        verdict(done.returncode == 0, "report_of_" + name, done.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preload", required=True, type=os.path.abspath)
    parser.add_argument("--command", required=True, type=os.path.abspath)
    parser.add_argument("--out", default="history-out", type=os.path.abspath)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    try:
        ctypes.CDLL("libcuda.so.1")
        import torch  # pylint: disable=import-outside-toplevel
    except (OSError, ImportError) as error:
        print(f"skip: {error}")
        return 77
    if not torch.cuda.is_available():
        print("skip: PyTorch sees no GPU")
        return 77
    os.makedirs(args.out, exist_ok=True)
    compare_statistics(args.preload)
    train_each(args)
    print("STATS: " + ("ALL RIGHT" if failures == 0 else f"{failures} FAILED"))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
