# SPDX-License-Identifier: MIT
"""Trains a GPT-2 (124 M parameters) on random tokens with random sequence lengths.

An ordinary PyTorch program, deterministic, for comparing allocators: the losses must be the same to
the last bit whatever serves the memory. Prints one line of JSON: losses (repr), ms of every step and
their median, PyTorch's own peak, and the GPU memory in use as NVML sees it, above that at the start.

  train_gpt2.py [--steps 25] [--batch 8] [--layers 12] [--width 768] [--seed 1]
"""

import argparse
import json
import os
import random
import statistics
import sys
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # deterministic matrix products

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError:
    print("skip: PyTorch is not installed")
    sys.exit(77)

from device_memory import used_mib

VOCABULARY = 50304
LONGEST = 1024
SHORTEST = 64
HEAD_WIDTH = 64
WARM_UP_STEPS = 5  # not in the median: they load kernels


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.heads = width // HEAD_WIDTH
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, HEAD_WIDTH)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt2(nn.Module):
    def __init__(self, layers, width):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.places = nn.Embedding(LONGEST, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight
        nn.init.normal_(self.tokens.weight, std=0.02)
        nn.init.normal_(self.places.weight, std=0.02)

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for layer in self.layers:
            x = layer(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, VOCABULARY).float(), targets.reshape(-1))


def start_deterministic(seed):
    torch.manual_seed(seed)
    torch.backends.cuda.enable_cudnn_sdp(False)  # its backward pass is not deterministic
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # a stale read shall show
    torch.backends.cudnn.benchmark = False


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def main():
    args = options()
    memory_at_start = used_mib()  # before CUDA is up: the context counts as ours
    if not torch.cuda.is_available():
        print("skip: PyTorch sees no GPU")
        return 77
    start_deterministic(args.seed)
    lengths = random.Random(args.seed)
    tokens = torch.Generator().manual_seed(args.seed)

    model = Gpt2(args.layers, args.width).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    losses, step_ms, memory = [], [], []
    for _ in range(args.steps):
        length = lengths.randint(SHORTEST, LONGEST)
        ids = torch.randint(VOCABULARY, (args.batch, length + 1), generator=tokens)
        start = time.perf_counter()
        ids = ids.cuda()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(ids[:, :-1], ids[:, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(repr(loss.item()))
        torch.cuda.synchronize()
        step_ms.append((time.perf_counter() - start) * 1000)
        del loss
        memory.append(used_mib())

    known = [each for each in memory if each is not None]
    checksum = sum(p.detach().double().sum().item() for p in model.parameters())
    print(json.dumps({
        "torch": torch.__version__,
        "gpu": torch.cuda.get_device_name(),
        "losses": losses,
        "weights": repr(checksum),
        "step_ms_median": statistics.median(step_ms[min(WARM_UP_STEPS, len(step_ms) - 1):]),
        "step_ms": [round(each, 2) for each in step_ms],
        "torch_peak_allocated_mib": torch.cuda.max_memory_allocated() / 2**20,
        "torch_peak_reserved_mib": torch.cuda.max_memory_reserved() / 2**20,
        "device_after_steps_mib": max(known) - memory_at_start if known else None,
    }))
    return 0


if __name__ == "__main__":
    sys.exit(main())
