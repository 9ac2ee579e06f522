# SPDX-License-Identifier: MIT
"""Frameworks that `custash sleep` stops at random moments. Each program runs without custash, then with it and put to
sleep again and again, now and then after a deep trim. What it says of its results must be the same, bit by bit.

  sleep_frameworks.py --build build [--only PREFIX...] [--rounds 200] [--json FILE]

A line each: how often it slept, how often it would not or slept already, what the sleep of most memory said, and by NVML the most that
the first GPU held awake and the least asleep (contexts and code stay). Exit 1 where a program differs or
never slept, 77 where all were skipped.
"""
import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time

from device_memory import used_mib
from same_frameworks import gpu_count, installed
from same_tests import digest, torch_digest

NO_CACHE = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}


def rounds(count):
    """The numbers of a program's rounds, with a pause after each."""
    for number in range(count):
        yield number
        if number == 2:
            print("ready", os.getpid(), flush=True)
        time.sleep(0.01)


def learn(count, model, loss_of):
    import torch
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in rounds(count):
        loss = loss_of(step)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        if step % 20 == 0:
            print("loss", repr(loss.item()))
    print("weights", torch_digest(*model.parameters()))


def train(count):
    import torch
    torch.manual_seed(3)
    torch.use_deterministic_algorithms(True)
    model = torch.nn.Sequential(torch.nn.Linear(1024, 8192), torch.nn.GELU(), torch.nn.Linear(8192, 1024)).cuda()

    def loss_of(step):
        x = torch.randn(64 + 37 * (step % 7), 1024, device="cuda")
        return (model(x) - x.roll(step, 1)).square().mean()
    learn(count, model, loss_of)


def gpt2(count):
    import torch
    from train_gpt2 import VOCABULARY, Gpt2, start_deterministic
    start_deterministic(3)
    model = Gpt2(12, 768).cuda()

    def loss_of(step):
        tokens = torch.randint(VOCABULARY, (8, 128 + 96 * (step % 9)), device="cuda")
        return model(tokens[:, :-1], tokens[:, 1:])
    learn(count, model, loss_of)


def graph_server(count):
    """Requests that a captured graph answers."""
    import torch
    torch.manual_seed(5)
    layers = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(4)]).cuda().eval()
    asked = torch.zeros(16, 2048, device="cuda")
    side = torch.cuda.Stream()
    with torch.no_grad(), torch.cuda.stream(side):
        layers(asked)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        answer = layers(asked)
    for number in rounds(count):
        asked.copy_(torch.full((16, 2048), number / 100.0))
        graph.replay()
        if number % 20 == 0:
            print("answer", torch_digest(answer))
    print("last", torch_digest(answer))


def generate(count):
    import torch
    import transformers
    transformers.logging.set_verbosity_error()
    torch.manual_seed(7)
    shape = transformers.GPT2Config(n_layer=6, n_head=8, n_embd=512, vocab_size=5000, bos_token_id=0, eos_token_id=None, pad_token_id=0)
    model = transformers.GPT2LMHeadModel(shape).cuda().eval()
    for number in rounds(max(4, count // 10)):
        tokens = torch.randint(1, 5000, (4, 16 + number), device="cuda")
        with torch.no_grad():
            out = model.generate(tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=48, do_sample=False)
        print("tokens", torch_digest(out))


def ddp_rank(rank, ranks, count, meeting):
    import torch
    import torch.distributed as dist
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=f"file://{meeting}", rank=rank, world_size=ranks)
    torch.manual_seed(3)
    torch.use_deterministic_algorithms(True)
    model = torch.nn.Sequential(torch.nn.Linear(1024, 8192), torch.nn.GELU(), torch.nn.Linear(8192, 1024)).cuda()
    spread = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in rounds(count):
        x = torch.randn(64 + 37 * (step % 7), 1024, generator=torch.Generator().manual_seed(step * ranks + rank)).cuda()
        loss = (spread(x) - x.roll(step, 1)).square().mean()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        if step % 20 == 0 and rank == 0:
            print("loss", repr(loss.item()), flush=True)
    if rank == 0:
        print("weights", torch_digest(*model.parameters()), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def ddp(count):
    """Two processes that train together over NCCL: one of them is put to sleep, the other has to wait for it."""
    import torch
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(ddp_rank, args=(2, count, os.path.join(folder, "meeting")), nprocs=2)


def cupy_loop(count):
    import cupy
    kept = []
    for number in rounds(count):
        kept.append(cupy.arange(1 << 20, dtype=cupy.float32) * (number + 1))
        kept = kept[-8:]
        if number % 20 == 0:
            print("sorted", digest(cupy.asnumpy(cupy.sort(sum(kept) % 97))))


def cupy_no_pool(count):
    import cupy
    cupy.cuda.set_allocator(None)
    cupy_loop(count)


def jax_loop(count):
    import jax
    import jax.numpy as jnp
    import numpy
    work = jax.jit(lambda x: jnp.sort(x * 3 % 97, axis=0) + 1)
    kept = jnp.arange(1 << 20, dtype=jnp.float32).reshape(1024, 1024)
    for number in rounds(count):
        kept = work(kept + number)
        if number % 20 == 0:
            print("kept", digest(numpy.asarray(kept)))


# Name: what runs, the module that it needs, its environment. Those of DDP need two GPUs.
PROGRAMS = {
    "torch_own_cache": (train, "torch", {}),
    "torch_no_cache": (train, "torch", NO_CACHE),
    "torch_expandable": (train, "torch", {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),
    "gpt2_expandable": (gpt2, "torch", {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),
    "torch_async": (train, "torch", {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}),
    "torch_graph_server": (graph_server, "torch", {}),
    "transformers_generate": (generate, "transformers", {}),
    "transformers_generate_no_cache": (generate, "transformers", NO_CACHE),
    "ddp_own_cache": (ddp, "torch", {}),
    "ddp_no_cache": (ddp, "torch", NO_CACHE),
    "cupy_own_pool": (cupy_loop, "cupy", {}),
    "cupy_no_pool": (cupy_no_pool, "cupy", {}),
    "jax_default": (jax_loop, "jax", {"XLA_PYTHON_CLIENT_MEM_FRACTION": ".1"}),
    "jax_platform": (jax_loop, "jax", {"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}),
}


def mib(text):
    return int((re.search(r"(\d+) MiB asleep", text) or [0, 0])[1])


def gpus_for(name):
    return 2 if name.startswith("ddp") else 1


def run(name, args, asleep):
    """(what it said, the sleeps' texts, the refusals, the first GPU's MiB awake and asleep)."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("CUSTASH")}
    env.update({"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "PYTHONDONTWRITEBYTECODE": "1", **PROGRAMS[name][2]})
    if asleep:
        env.update(LD_PRELOAD=args.library, CUSTASH_CONF="sleep_pinned:8G")
    process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--inside", name, "--rounds", str(args.rounds)],
                               env=env, stdout=subprocess.PIPE, text=True)
    said, rng, slept, refused, ready, awake, least = [], random.Random(name), [], [], [], [], []
    start = used_mib() or 0
    for line in process.stdout:
        if not line.startswith("ready"):
            said.append(line)
            continue
        ready.append(line.split()[1])
        if len(ready) == gpus_for(name):
            break
    while asleep and process.poll() is None:
        time.sleep(rng.uniform(0.02, 0.4))
        awake.append((used_mib() or 0) - start)
        if rng.random() < .3:
            subprocess.run([args.command, "trim", "--deep", rng.choice(ready)], capture_output=True, check=False)
        done = subprocess.run([args.command, "sleep", rng.choice(ready)], capture_output=True, text=True, check=False)
        text = (done.stdout + done.stderr).strip().split(": ", 1)[-1]
        if done.returncode == 0:
            least.append((used_mib() or 0) - start)
        (slept if done.returncode == 0 and "already" not in text else refused).append(text)
    said += process.communicate()[0].splitlines(keepends=True)
    if process.returncode:
        said.append(f"exit {process.returncode}")
    return said, slept, refused, (max(awake, default=0), min(least, default=0))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="the folder of a build")
    parser.add_argument("--only", nargs="*", default=[], help="programs whose name begins so")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--json", help="write what was said here")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.inside:
        PROGRAMS[args.inside][0](args.rounds)
        return 0
    args.library = os.path.abspath(os.path.join(args.build, "interpose", "libcustash.so"))
    args.command = os.path.abspath(os.path.join(args.build, "tools", "custash"))
    found, bad, gpus = {}, 0, gpu_count()
    for name, (_, module, _env) in PROGRAMS.items():
        if args.only and not name.startswith(tuple(args.only)):
            continue
        enough = gpus >= gpus_for(name)
        if not enough or not installed(module):
            print(f"{name}: skip: {module if enough else f'there are {gpus} GPUs'}", flush=True)
            continue
        bare = run(name, args, False)[0]
        said, slept, refused, device = run(name, args, True)
        same = bare == said and not any(line.startswith("exit") for line in said)
        bad += not same or not slept
        print(f"{name}: {'same' if same else 'DIFFERENT'}, {len(slept)} sleeps, {len(refused)} not; "
              f"most: {max(slept or refused or ['-'], key=mib)}; device: {device[0]:.0f} MiB awake, {device[1]:.0f} asleep", flush=True)
        found[name] = {"bare": bare, "asleep": said, "slept": slept, "refused": refused, "device": device}
        if args.json:
            with open(args.json, "w", encoding="utf-8") as out:
                json.dump(found, out, indent=1)
    return 1 if bad else 0 if found else 77


if __name__ == "__main__":
    sys.exit(main())
