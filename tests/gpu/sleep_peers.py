# SPDX-License-Identifier: MIT
"""The same tensors of PyTorch leave the device and come back by custash, and by torch_memory_saver where it is
installed, in turn.

  sleep_peers.py --build build [--gib 8] [--rounds 4] [--json FILE]

A line a process: the milliseconds out and back in each round, and how many tensors were wrong afterwards. The first round is cold.
The contents are random, and new in each round but the last.
Memory is back when a fill of all tensors' first bytes has ended. Exits with 0, with 1 where contents are wrong, with 77 without a GPU
or PyTorch.
"""
import argparse
import contextlib
import json
import os
import subprocess
import sys
import time

from same_frameworks import gpu_count, installed

GIB, PIECE = 1 << 30, 256 << 20
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def by_custash(torch):
    import custash
    return contextlib.nullcontext(), lambda: custash.sleep(0), lambda: None


def by_torch_memory_saver(torch):
    from torch_memory_saver import torch_memory_saver as saver
    saver.hook_mode = "torch"
    saver.retain_cpu_backup = True
    return saver.region(enable_cpu_backup=True), saver.pause, saver.resume


WAYS = {"custash": by_custash, "torch_memory_saver": by_torch_memory_saver}


def milliseconds(work, torch):
    torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return round((time.perf_counter() - start) * 1e3)


def child(way, gib, rounds):
    import torch
    region, out, back = WAYS[way](torch)
    with region:
        tensors = [torch.empty((PIECE,), dtype=torch.uint8, device="cuda") for _ in range(int(gib * GIB) // PIECE)]
    chance = torch.Generator("cuda")

    def fill(tensor, seed):
        return tensor.random_(0, 256, generator=chance.manual_seed(seed))

    def touch():
        back()
        for tensor in tensors:
            tensor[:1] += 0

    took = []
    for turn in range(rounds):
        version = min(turn, rounds - 2) * len(tensors)
        for i, tensor in enumerate(tensors):
            fill(tensor, version + i)
        took.append((milliseconds(out, torch), milliseconds(touch, torch)))
    wrong = sum(int((tensor != fill(torch.empty_like(tensor), version + i)).any()) for i, tensor in enumerate(tensors))
    print(json.dumps({"way": way, "gib": gib, "out_ms": [o for o, _ in took], "back_ms": [b for _, b in took], "wrong": wrong}), flush=True)
    os._exit(0)  # torch_memory_saver 0.0.10 ends the process where PyTorch frees memory of outside its region


def environment(way, args):
    env = {key: value for key, value in os.environ.items() if not key.startswith(("CUSTASH", "PYTORCH"))}
    if way == "custash":
        env["LD_PRELOAD"] = f"{args.build}/interpose/libcustash.so"
        env["PYTHONPATH"] = os.pathsep.join(filter(None, (f"{ROOT}/tools/python", env.get("PYTHONPATH"))))
        env["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
        env["CUSTASH_CONF"] = f"sleep_pinned:{int(args.gib) + 2}G"
    return env


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", type=os.path.abspath)
    parser.add_argument("--gib", type=float, default=8)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--json")
    parser.add_argument("--child", choices=sorted(WAYS), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return child(args.child, args.gib, args.rounds)
    if not gpu_count() or not installed("torch"):
        print("skip: no GPU or no PyTorch")
        return 77
    rows, failed = [], False
    for way in [way for way in (*WAYS, *WAYS) if way == "custash" or installed(way)]:
        done = subprocess.run([sys.executable, os.path.abspath(__file__), "--child", way, "--gib", str(args.gib), "--rounds",
                               str(args.rounds)], env=environment(way, args), capture_output=True, text=True, timeout=120, check=False)
        trouble = f"{way}: exit {done.returncode}: {done.stderr.strip()[-600:]}" if done.returncode != 0 else ""
        print("\n".join(filter(None, (done.stdout.strip(), trouble))), flush=True)
        failed |= done.returncode != 0
        rows += [json.loads(done.stdout)] if done.returncode == 0 else []
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    return int(failed or any(row["wrong"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
