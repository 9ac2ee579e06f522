# SPDX-License-Identifier: MIT
"""What many_gpus.py starts once for each GPU. PyTorch programs that know nothing of custash.

  many_gpus_ranks.py collectives|registered|job FOLDER [--cpu]

RANK, WORLD_SIZE and LOCAL_RANK are in the environment. Each rank writes what it found to FOLDER/found.RANK.
"""
import json
import os
import sys
import time

import torch
import torch.distributed as dist

COUNTS = (1, 1000, (1 << 20) + 3, 16 << 20)  # of floats
TURNS = 4
STEPS = 40  # of a job, before it rests and again after that
CPU = "--cpu" in sys.argv
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def meet(folder):
    """Under torchrun at its address, else at a file."""
    device = torch.device("cpu")
    if not CPU:
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    where = "env://" if "MASTER_ADDR" in os.environ else f"file://{folder}/meeting"
    dist.init_process_group("gloo" if CPU else "nccl", init_method=where, rank=RANK, world_size=WORLD)
    first = torch.ones(1, device=device)
    dist.all_reduce(first)  # now NCCL has its communicator
    return device


def pattern(count, device, more):
    """Small whole numbers: a sum of them is exact in each order."""
    return (torch.arange(count, device=device) % 97 + more).float()


def all_reduced(count, device, turn):
    x = pattern(count, device, RANK + turn)
    dist.all_reduce(x)
    return x, WORLD * pattern(count, device, turn) + sum(range(WORLD))


def reduced_later(count, device, turn):
    """Other memory comes and goes while NCCL works."""
    x = pattern(count, device, RANK + turn)
    work = dist.all_reduce(x, async_op=True)
    for size in (count, 2 * count, 3):
        torch.full((size,), -1.0, device=device)
    work.wait()
    return x, WORLD * pattern(count, device, turn) + sum(range(WORLD))


def gathered(count, device, turn):
    parts = [torch.empty(count, device=device) for _ in range(WORLD)]
    dist.all_gather(parts, pattern(count, device, RANK + turn))
    return torch.cat(parts), torch.cat([pattern(count, device, rank + turn) for rank in range(WORLD)])


def from_one(count, device, turn):
    x = pattern(count, device, RANK + turn)
    dist.broadcast(x, turn % WORLD)
    return x, pattern(count, device, turn % WORLD + turn)


def around(count, device, turn):
    """Each sends to the next."""
    x, got = pattern(count, device, RANK + turn), torch.empty(count, device=device)
    sent = [dist.P2POp(dist.isend, x, (RANK + 1) % WORLD), dist.P2POp(dist.irecv, got, (RANK - 1) % WORLD)]
    for work in dist.batch_isend_irecv(sent):
        work.wait()
    return got, pattern(count, device, (RANK - 1) % WORLD + turn)


def scattered(count, device, turn):
    got = torch.empty(count, device=device)
    dist.reduce_scatter_tensor(got, pattern(WORLD * count, device, RANK + turn))
    mine = WORLD * pattern(WORLD * count, device, turn)[RANK * count:(RANK + 1) * count]
    return got, mine + sum(range(WORLD))


def all_to_all(count, device, turn):
    got = torch.empty(WORLD * count, device=device)
    dist.all_to_all_single(got, pattern(count, device, RANK + turn).repeat(WORLD))
    return got, torch.cat([pattern(count, device, rank + turn) for rank in range(WORLD)])


def count_wrong(device):
    checks = wrong = 0
    works = [all_reduced, reduced_later, gathered, from_one, around] + ([] if CPU else [scattered, all_to_all])
    for turn in range(TURNS):
        for count in COUNTS:
            for work in works:
                got, expected = work(count // (64 if CPU else 1) + 1, device, turn)
                checks += 1
                wrong += int((got != expected).sum())
    return {"checks": checks, "wrong": wrong}


def collectives(folder):
    device = meet(folder)
    found = count_wrong(device)
    if not CPU:
        found["gpu"] = str(torch.cuda.get_device_properties(device).uuid)
    return found


def registered(folder):
    """Memory of ncclMemAlloc, which the program registers with NCCL."""
    device = meet(folder)
    backend = dist.group.WORLD._get_backend(device)
    pool = torch.cuda.MemPool(backend.mem_allocator)
    checks = wrong = 0
    with torch.cuda.use_mem_pool(pool):
        tensors = [torch.empty(count, device=device) for count in COUNTS]
    backend.register_mem_pool(pool)
    for turn in range(TURNS):
        for x in tensors:
            x.copy_(pattern(len(x), device, RANK + turn))
            dist.all_reduce(x)
            checks += 1
            wrong += int((x != WORLD * pattern(len(x), device, turn) + sum(range(WORLD))).sum())
    torch.cuda.synchronize()
    backend.deregister_mem_pool(pool)
    return {"checks": checks, "wrong": wrong}


def job(folder):
    """Trains, rests until there is a file `go`, and goes on."""
    device = meet(folder)
    torch.manual_seed(3)
    torch.use_deterministic_algorithms(True)
    width = 64 if CPU else 2048
    layers = [torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width)) for _ in range(4)]
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers).to(device), device_ids=None if CPU else [device.index])
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4)
    losses = []
    for step in range(2 * STEPS):
        if step == STEPS:
            dist.barrier()
            if not CPU:
                torch.cuda.synchronize()
            with open(f"{folder}/ready.{RANK}.new", "w", encoding="ascii") as file:
                file.write(str(os.getpid()))
            os.rename(f"{folder}/ready.{RANK}.new", f"{folder}/ready.{RANK}")
            while not os.path.exists(f"{folder}/go"):
                time.sleep(0.05)
        x = torch.randn(64 + 37 * (step % 7), width, generator=torch.Generator().manual_seed(step * WORLD + RANK)).to(device)
        loss = (model(x) - x.roll(step, 1)).square().mean()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        losses.append(repr(loss.item()))
    return {"losses": losses}


def main():
    program, folder = sys.argv[1:3]
    found = {"collectives": collectives, "registered": registered, "job": job}[program](folder)
    with open(f"{folder}/found.{RANK}", "w", encoding="utf-8") as file:
        json.dump(found, file)
    dist.barrier()
    dist.destroy_process_group()


main()
