# SPDX-License-Identifier: MIT
"""Trains the GPT-2 of train_gpt2.py on several GPUs, one process each, by DistributedDataParallel or by FSDP, or on one, with
sequence lengths drawn at random. Prints one line of JSON: the losses, ms of each step and their median, and for each GPU the
device memory at its peak and at the end, above the level at the start, by NVML.

  train_parallel.py [--way ddp|fsdp|one] [--gpus N] [--steps 60] [--lengths same|own]
  train_parallel.py --serve [--start fork|spawn] ...

An ordinary PyTorch program for `custash compare` and `tools/bench --programs`. With three or more GPUs, sums come in an order
of NCCL's choice. So losses are equal to its rounding only, and are printed with four digits. Exit 77 without the GPUs.

With --serve it trains --steps more for each line on standard input, a seed of lengths and tokens, and answers with one line. The
first line starts the processes. With --start fork, they need not import PyTorch.
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

from device_watch import Watch
from same_frameworks import gpu_count
from train_gpt2 import VOCABULARY, WARM_UP_STEPS, Gpt2, Layer, start_deterministic

SHORTEST, LONGEST = 128, 1023  # of a sequence


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--way", choices=("ddp", "fsdp", "one"), default="ddp")
    parser.add_argument("--gpus", type=int, default=0, help="how many (all)")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=4, help="of each GPU")
    parser.add_argument("--lengths", choices=("same", "own"), default="same", help="whether the GPUs draw the same lengths")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--serve", action="store_true", help="train once more for each line on standard input")
    parser.add_argument("--start", choices=("fork", "spawn"), default="spawn", help="how the processes start")
    parser.add_argument("--cpu", action="store_true", help="without GPUs, to see that it works")
    return parser.parse_args()


def spread(model, way, device):
    """The model over all processes; FSDP2 shards each layer by itself."""
    if way == "one":
        return model
    if way == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model, device_ids=None if device.type == "cpu" else [device.index])
    from torch.distributed.fsdp import fully_shard  # pylint: disable=import-outside-toplevel
    for each in model.modules():
        if isinstance(each, Layer):
            fully_shard(each)
    return fully_shard(model)


def steps_of(args, rank, device, model, optimizer, seed):
    """Some steps of one process: what it found."""
    lengths = random.Random(seed if args.lengths == "same" else f"{seed}/{rank}")
    tokens = torch.Generator().manual_seed(seed + rank)
    losses, step_ms = [], []
    if not args.cpu:
        torch.cuda.reset_peak_memory_stats()
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
    dist.barrier()
    reserved = (0, 0) if args.cpu else (torch.cuda.max_memory_reserved(), torch.cuda.memory_reserved())
    return {"losses": losses, "step_ms": [round(each, 2) for each in step_ms], "reserved_mib": [each / 2**20 for each in reserved]}


def work(rank, args, meeting, asked):
    """One process: its GPU has the number `rank`. Trains once for each seed that the parent sends."""
    device = torch.device("cpu") if args.cpu else torch.device("cuda", rank)
    if not args.cpu:
        torch.cuda.set_device(device)
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // args.gpus))
    dist.init_process_group("gloo" if args.cpu else "nccl", init_method=f"file://{meeting}", rank=rank, world_size=args.gpus)
    start_deterministic(args.seed)
    model = spread(Gpt2(args.layers, args.width).to(device), args.way, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    while (seed := asked[rank].recv()) is not None:
        asked[rank].send(steps_of(args, rank, device, model, optimizer, seed))
    dist.destroy_process_group()


def trained(args, seeds):
    """Starts all processes, yields for each seed what is printed, and ends them."""
    context = mp.get_context(args.start)
    ours, theirs = zip(*(context.Pipe() for _ in range(args.gpus)))
    running = None
    with tempfile.TemporaryDirectory() as folder, Watch([] if args.cpu else range(args.gpus)) as watch:
        for seed in seeds:
            start = time.perf_counter()
            if not running:
                running = mp.start_processes(work, args=(args, os.path.join(folder, "meeting"), theirs), nprocs=args.gpus, join=False,
                                             start_method=args.start)
            watch.read()  # the peak is of these steps
            for each in ours:
                each.send(seed)
            while not all(each.poll(0.05) for each in ours):
                running.join(timeout=0)  # raises what a process raised
            found = [each.recv() for each in ours]
            most, at_end = watch.read()
            steps = found[0]["step_ms"]
            after_warm_up = steps[min(WARM_UP_STEPS, len(steps) - 1):]
            yield {"way": args.way, "gpus": args.gpus, "seed": seed, "losses": found[0]["losses"], "step_ms": steps,
                   "step_ms_median": statistics.median(after_warm_up), "step_ms_mean": round(statistics.mean(after_warm_up), 3),
                   "start_mib": watch.start, "device_mib": most, "end_mib": at_end, "reserved_mib": [each["reserved_mib"] for each in found],
                   "seconds": round(time.perf_counter() - start, 1)}
        for each in ours:
            each.send(None)
        while running and not running.join():
            pass


def main():
    args = options()
    there = 2 if args.cpu else gpu_count() if args.start == "fork" else torch.cuda.device_count()  # a fork must inherit neither CUDA nor NVML
    args.gpus = 1 if args.way == "one" else args.gpus or there
    if not (1 if args.way == "one" else 2) <= args.gpus <= there:
        print(f"skip: there are {there} GPUs")
        return 77
    if args.serve:
        print("ready", flush=True)
        for found in trained(args, (int(line) for line in sys.stdin)):
            print(json.dumps(found), flush=True)
        return 0
    for found in trained(args, [args.seed]):
        print(f"losses {' '.join(found['losses'][::10])}")
        print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
