# SPDX-License-Identifier: MIT
"""Trains the GPT-2 of train_gpt2.py on several GPUs, one process each, by DistributedDataParallel or by FSDP. Prints
one line of JSON: the losses, ms of each step and their median, and what each GPU holds above its level at the start, by NVML.

  train_parallel.py [--way ddp|fsdp] [--gpus N] [--steps 60]

An ordinary PyTorch program for `custash compare` and `tools/bench --programs`. With three or more GPUs, sums come in an order
of NCCL's choice. So losses are equal to its rounding only, and are printed with four digits. Exit 77 without the GPUs.
"""
import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time

try:
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as mp
except ImportError:
    print("skip: PyTorch is not installed")
    sys.exit(77)

from device_memory import used_mib
from train_gpt2 import SHORTEST, LONGEST, VOCABULARY, WARM_UP_STEPS, Gpt2, Layer, start_deterministic


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--way", choices=("ddp", "fsdp"), default="ddp")
    parser.add_argument("--gpus", type=int, default=0, help="how many (all)")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=8, help="of each GPU")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cpu", action="store_true", help="without GPUs, to see that it works")
    return parser.parse_args()


def spread(model, way, device):
    """The model over all processes; FSDP2 shards each layer by itself."""
    if way == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model, device_ids=None if device.type == "cpu" else [device.index])
    from torch.distributed.fsdp import fully_shard  # pylint: disable=import-outside-toplevel
    for each in model.modules():
        if isinstance(each, Layer):
            fully_shard(each)
    return fully_shard(model)


def work(rank, args, meeting, results):
    """One process: its GPU has the number `rank`."""
    device = torch.device("cpu") if args.cpu else torch.device("cuda", rank)
    if not args.cpu:
        torch.cuda.set_device(device)
    at_start = 0 if args.cpu else used_mib(rank)
    dist.init_process_group("gloo" if args.cpu else "nccl", init_method=f"file://{meeting}", rank=rank, world_size=args.gpus)
    start_deterministic(args.seed)
    model = spread(Gpt2(args.layers, args.width).to(device), args.way, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    lengths, tokens = random.Random(args.seed), torch.Generator().manual_seed(args.seed + rank)
    losses, step_ms, held = [], [], 0
    for _ in range(args.steps):
        length = lengths.randint(SHORTEST, LONGEST if not args.cpu else 2 * SHORTEST)
        ids = torch.randint(VOCABULARY, (args.batch, length + 1), generator=tokens)
        start = time.perf_counter()
        ids = ids.to(device)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = model(ids[:, :-1], ids[:, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(f"{mean.item() / args.gpus:.4f}")
        step_ms.append((time.perf_counter() - start) * 1000)
        held = held if args.cpu else max(held, (used_mib(rank) or 0) - (at_start or 0))
    dist.barrier()
    dist.destroy_process_group()
    with open(os.path.join(results, str(rank)), "w", encoding="utf-8") as file:
        json.dump({"losses": losses, "step_ms": [round(each, 2) for each in step_ms], "device_mib": held}, file)


def main():
    args = options()
    there = 2 if args.cpu else torch.cuda.device_count()
    args.gpus = args.gpus or there
    if not 2 <= args.gpus <= there:
        print(f"skip: there are {there} GPUs")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(work, args=(args, os.path.join(folder, "meeting"), folder), nprocs=args.gpus)
        found = []
        for rank in range(args.gpus):
            with open(os.path.join(folder, str(rank)), encoding="utf-8") as file:
                found.append(json.load(file))
    steps = found[0]["step_ms"]
    print(f"losses {' '.join(found[0]['losses'][::10])}")
    print(json.dumps({"way": args.way, "gpus": args.gpus, "losses": found[0]["losses"], "step_ms": steps,
                      "step_ms_median": statistics.median(steps[min(WARM_UP_STEPS, len(steps) - 1):]),
                      "device_mib": [each["device_mib"] for each in found]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
